"""Hazard: a test of whole tasks compares tables by itself alone, so that nothing shows what diff and validation say."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("e2e", "faults")
    for path in (ROOT / "tests" / folder).glob("test_*.py")
)
#: What ends in :func:`tests.harness.certified.certify`.
CERTIFYING = {"certify", "compare", "finish"}
#: The modules that do not ask the product, and why.
WITHOUT = {
    "tests/e2e/test_cutover.py": "its check needs a comparison, which it starts by itself",
    "tests/e2e/test_cutover_run.py": "a cutover compares the tables by itself; the task has ended after it",
    "tests/e2e/test_lag_reasons.py": "compares no tables",
    "tests/e2e/test_metrics.py": "compares no tables",
    "tests/e2e/test_texts.py": "compares no tables: its tasks stop with errors",
    "tests/faults/test_frozen_tasks.py": "runs the sync unit without a cluster, so without dmctl",
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_asks_the_product_or_says_why_not(name: str) -> None:
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    }
    assert (name in WITHOUT) is not bool(CERTIFYING & called)


def test_only_modules_that_exist_are_excepted() -> None:
    assert set(WITHOUT) <= set(MODULES)
