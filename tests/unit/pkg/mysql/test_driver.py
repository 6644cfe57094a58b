"""Hazard: a new series of PyMySQL changes what it keeps to itself, and who uses it is scattered over the project."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pymysql.connections
import pymysql.protocol

ROOT = Path(__file__).resolve().parents[4]
#: The one module that may.
DRIVER = ROOT / "pkg" / "mysql" / "driver.py"
#: What others may name with the same words: what is their own.
_OWN = re.compile(r"^(self|cls)$")
_KEPT = frozenset(re.findall(r"\bself\.(_[a-z]\w*)", inspect.getsource(pymysql.connections))) | frozenset(
    name
    for kind in (pymysql.connections.Connection, pymysql.connections.MySQLResult, pymysql.protocol.MysqlPacket)
    for name in vars(kind)
    if re.match(r"_[a-z]", name)
)


def _modules() -> Iterator[Path]:
    for folder in ("pkg", "dm_worker", "dm_master", "dmctl", "deploy", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            if path != DRIVER and "pymysql" in path.read_text().lower() + path.name:
                yield path


def _uses(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Attribute) and node.attr in _KEPT and not _OWN.match(ast.unparse(node.value)):
            yield f"{where}: {ast.unparse(node)}"
        if isinstance(node, ast.ImportFrom) and node.module == "pymysql.protocol":
            yield f"{where}: pymysql.protocol"
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Connection") for base in node.bases):
            yield f"{where}: class {node.name}"


def test_only_one_module_touches_what_the_driver_keeps_to_itself() -> None:
    assert {"_sock", "_rfile", "_next_seq_id", "_read_packet", "_execute_command", "_force_close"} <= _KEPT
    assert list(_uses(DRIVER))
    assert [use for path in _modules() for use in _uses(path)] == []


def test_the_series_that_was_tried_is_the_only_one_that_can_be_installed_or_loaded() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (wanted,) = (text for text in project["project"]["dependencies"] if text.lower().startswith("pymysql"))
    from pkg.mysql.driver import SERIES

    major, minor = SERIES
    assert re.fullmatch(rf"PyMySQL\[ed25519\]>={major}\.{minor}(\.\d+)?,<{major}\.{minor + 1}", wanted)
    code = "import pymysql; pymysql.VERSION = (1, 99, 0, 'final', 1)\nimport pkg.mysql.connection"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "ImportError: PyMySQL 1.99.0 is installed" in done.stderr
    assert f"pip install 'PyMySQL=={major}.{minor}.*'" in done.stderr
