"""The verdict over all sources: nothing that was not compared is equal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dm_master.service.diff_verdict import verdict
from pkg.pb import dmworker_pb2 as pb


def source(stage: str, states: Sequence[str], *, result: bool = True) -> pb.DiffSourceStatus:
    tables = [pb.DiffTableStatus(target=f"t{number}", state=state) for number, state in enumerate(states)]
    return pb.DiffSourceStatus(result=result, stage=stage, tables=tables)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([source("Finished", ["equal", "equal"])], "equal"),
        ([source("Finished", ["equal"]), source("Finished", ["different"])], "different"),
        ([source("Finished", ["equal", "not compared"])], "not compared"),
        ([source("Finished", ["different", "not compared"])], "different"),
        ([source("Finished", ["equal"]), source("Running", ["equal"])], "running"),
        ([source("Finished", ["equal"]), source("Waiting", [])], "running"),
        ([source("Stopped", ["equal", "pending"])], "not compared"),
        ([source("Stopped", ["equal"])], "not compared"),
        ([source("Finished", ["equal"]), source("", [], result=False)], "not compared"),
        ([source("Finished", [])], "not compared"),
        ([], "not compared"),
    ],
)
def test_only_what_was_compared_as_a_whole_is_equal(answers: list[pb.DiffSourceStatus], expected: str) -> None:
    assert verdict(answers) == expected


def test_a_source_whose_tables_another_one_compares_is_done_without_tables() -> None:
    assert verdict([source("Finished", ["equal"]), source("Finished", [])]) == "equal"
