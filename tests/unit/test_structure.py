"""Very long functions, very crowded folders and one type name for several things: nobody can keep them in mind.

Guidance is a function of at most 50 lines, a module of 600 (`make lint` warns) and a folder of 30 modules. These limits
are far above it: a part is cut where a reader gains from it, not to satisfy a number.
"""

from __future__ import annotations

import ast
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTION, MODULES = 80, 40
_GENERATED = ("pkg/pb/", "pkg/etcd/pb/")


@cache
def sources() -> dict[str, str]:
    """Every source file that people write, with its text."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py", "*.c", "*.h"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [name for name in listed.stdout.splitlines() if not name.startswith(_GENERATED)]
    return {name: (ROOT / name).read_text() for name in files if (ROOT / name).exists()}


def modules(*, tests: bool = True) -> Iterator[tuple[str, ast.Module]]:
    """Each module, parsed. None is kept: with all of them in memory, garbage collection takes most of the time."""
    for name, text in sources().items():
        if name.endswith(".py") and (tests or not name.startswith("tests/")):
            yield name, ast.parse(text)


def test_no_function_is_long() -> None:
    found = {
        f"{name}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    }
    assert {where: length for where, length in found.items() if length > FUNCTION} == {}


def test_no_folder_is_crowded() -> None:
    counts = Counter(
        str(stem.parent) for stem in {Path(name).with_suffix("") for name in sources()} if stem.name != "__init__"
    )
    assert {folder: count for folder, count in counts.items() if count > MODULES} == {}


def test_a_type_name_stands_for_one_thing() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module, tree in modules(tests=False):
        for name in _type_names(tree):
            found[name.lstrip("_")].add(module)
    assert {name: sorted(where) for name, where in found.items() if len(where) > 1} == {}


def _type_names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if ast.unparse(node.annotation) in ("TypeAlias", "typing.TypeAlias"):
                yield node.target.id
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.lstrip("_")[:1].isupper() and not name.isupper() and not _is_type_variable(node.value):
                yield name


def _is_type_variable(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("TypeVar", "ParamSpec")
