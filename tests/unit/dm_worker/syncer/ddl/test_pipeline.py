"""The steps of a statement, as the docstring of the package draws them."""

from __future__ import annotations

import ast
import importlib.util
import re

from dm_worker.syncer import ddl
from dm_worker.syncer.ddl import barrier

#: Name and module of each step, in order.
STEPS = re.findall(r"│ (\w+) +(\w+) ", ddl.__doc__ or "")


def _imported(module: str) -> set[str]:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    return {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module is not None}


def test_a_statement_takes_the_steps_of_the_design_in_order() -> None:
    assert [name for name, _ in STEPS] == ["read", "filter", "order", "route", "decide", "execute", "follow"]


def test_the_barrier_knows_each_step_that_is_drawn_and_not_what_they_consist_of() -> None:
    known = {name.removeprefix(f"{ddl.__name__}.") for name in _imported(barrier.__name__)}
    drawn = {module for _, module in STEPS}
    assert drawn - known == {"parts"}, "the filter is a part of the order"
    inner = {"outcome_proof", "session", "trial", "variables", "differences", "operator_orders", "temporary_tables"}
    assert not known & inner
