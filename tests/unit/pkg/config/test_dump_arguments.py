"""Hazard: extra-args are found wrong only when the dump starts, or the privileges of a dump are checked for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from pkg.config.dump_arguments import parse_dump_arguments
from pkg.config.task import load_task
from pkg.errors import Code, DMError

SAMPLE = (Path(__file__).resolve().parents[4] / "configs" / "task-full.yaml").read_text()


@pytest.mark.parametrize(
    ("args", "consistency"),
    [
        ("", "auto"),
        ("--consistency lock -t 4", "lock"),
        ("--consistency=none", "none"),
        ("-t 4 --no-locks", "none"),
        ("--where 'a = \"--no-locks x\"'", "auto"),
    ],
)
def test_consistency_is_read_from_extra_args(args: str, consistency: str) -> None:
    assert parse_dump_arguments(args).consistency == consistency


@pytest.mark.parametrize("args", ["--nosuch 1", "-t 0", "--consistency maybe", "'open"])
def test_a_task_file_with_wrong_extra_args_is_refused_at_its_place(args: str) -> None:
    line = SAMPLE[: SAMPLE.index('extra-args: ""')].count("\n") + 1
    with pytest.raises(DMError, match=rf"task.yaml:{line}:\d+: extra-args of mydumpers cannot be used") as caught:
        load_task(SAMPLE.replace('extra-args: ""', f'extra-args: "{args}"'))
    assert caught.value.kind is Code.DumpUnitRuntime
