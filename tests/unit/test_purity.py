"""Hazard: a module that is called pure talks to a server, waits, logs or starts threads: its property tests then prove
less than they seem to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("pkg", "dm_master", "dm_worker", "dmctl")
#: Modules and packages that do I/O, start threads or processes, read a clock, or log.
IMPURE = frozenset(
    {
        *("asyncio", "http", "select", "selectors", "shutil", "signal", "socket", "ssl", "subprocess", "tempfile"),
        *("concurrent.futures", "multiprocessing", "queue", "sched", "threading", "time", "urllib.request", "logging"),
        *("etcd3", "grpc", "starlette", "uvicorn", "pymysql", "py4j", "pyspark"),
        *(
            "pkg.etcd.client",
            "pkg.etcd.lease",
            "pkg.etcd.mirror",
            "pkg.etcd.watch",
            "pkg.process.log",
            "pkg.process.service_thread",
        ),
        *("pkg.mysql.connection", "pkg.mysql.driver", "pkg.mysql.introspect", "pkg.rpc.channel"),
    }
)
#: Plain values and pure functions of such modules.
PLAIN = frozenset(
    {
        *(
            f"pkg.mysql.connection.{name}"
            for name in ("TOO_LARGE_ROW", "TOO_MUCH_AT_ONCE", "error_number", "error_text")
        ),
        "pkg.mysql.introspect.ServerInfo",
    }
)
#: Calls that do I/O or read a clock without an import that shows it.
CALLS = re.compile(r"(^|\.)(open|print|input|now|utcnow|today|read_text|read_bytes|write_text|write_bytes)$")


def says_pure(text: str) -> bool:
    """Whether the first paragraph of a module's docstring calls the module pure."""
    if "Pure" not in text:
        return False
    first = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    return re.search(r"\bPure\b", first) is not None


def impurities(text: str) -> Iterator[str]:
    """The imports and calls of a module's source that a pure module does not have."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and CALLS.search(ast.unparse(node.func)):
            yield f"line {node.lineno}: {ast.unparse(node.func)}()"
            continue
        else:
            continue
        for name in names:
            parts = name.split(".")
            if name not in PLAIN and any(".".join(parts[:end]) in IMPURE for end in range(1, len(parts) + 1)):
                yield f"line {node.lineno}: import of {name}"


MODULES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for program in PROGRAMS
    for path in sorted((ROOT / program).rglob("*.py"))
    if not path.name.endswith("_pb2.py")
}
PURE = sorted(name for name, text in MODULES.items() if says_pure(text))
#: The modules that a README marks as pure: ``planner.py`` (pure).
MARKED = sorted(
    str((page.parent / module).relative_to(ROOT))
    for program in PROGRAMS
    for page in sorted((ROOT / program).rglob("README.md"))
    for module in re.findall(r"`([\w/]+\.py)` \(pure\b", page.read_text(encoding="utf-8"))
)


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_does_no_io(module: str) -> None:
    assert not list(impurities(MODULES[module])), f"{module}: not pure; move the I/O out, or correct the docstring"


@pytest.mark.parametrize("module", MARKED)
def test_a_module_that_a_readme_calls_pure_says_so(module: str) -> None:
    assert module in PURE, f"{module}: its README calls it pure; say 'Pure.' in the docstring's first paragraph"


def test_the_cores_are_among_them() -> None:
    assert {
        "dm_master/scheduling/source_binding.py",
        "dm_master/shardddl/pessimistic/lock.py",
        "dm_worker/subtask/stage.py",
        "dm_worker/syncer/checkpoint/protocol.py",
        "dm_worker/syncer/ddl/outcome_proof.py",
        "dm_worker/syncer/planning/planner.py",
        "dm_worker/syncer/shard_ddl/source_groups.py",
    } <= set(PURE)
    assert len(MARKED) > 10


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time", ["line 1: import of time"]),
        ("from pkg.process.log import get_logger", ["line 1: import of pkg.process.log.get_logger"]),
        ("from pkg.mysql import connection", ["line 1: import of pkg.mysql.connection"]),
        ("from pkg.mysql.connection import error_text, connect", ["line 1: import of pkg.mysql.connection.connect"]),
        ("x = path.read_text()", ["line 1: path.read_text()"]),
        ("from datetime import datetime\nx = datetime.now()", ["line 2: datetime.now()"]),
        ("import timeit2\nfrom pkg.mysql.schema import Column", []),
    ],
)
def test_what_is_not_pure_is_found(source: str, found: list[str]) -> None:
    assert list(impurities(source)) == found
