"""Hazard: extra-args are found wrong only when the dump starts, or the privileges of a dump are checked for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from pkg.config.dump_arguments import parse_dump_arguments, tables_of
from pkg.config.task import load_task
from pkg.errors import Code, DMError
from pkg.rules.model import BlockAllowList, TableName

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
def test_a_task_file_with_wrong_extra_args_is_refused_at_its_location(args: str) -> None:
    line = SAMPLE[: SAMPLE.index('extra-args: ""')].count("\n") + 1
    with pytest.raises(DMError, match=rf"task.yaml:{line}:\d+: extra-args of mydumpers cannot be used") as caught:
        load_task(SAMPLE.replace('extra-args: ""', f'extra-args: "{args}"'))
    assert caught.value.kind is Code.DumpUnitRuntime


@pytest.mark.parametrize(
    ("args", "lists", "expected"),
    [
        ("-T t1,t2", BlockAllowList(do_dbs=("shop",)), (("shop", "t1"), ("shop", "t2"))),
        ("-B d -T t1,x.t2", BlockAllowList(do_dbs=("shop",)), (("d", "t1"), ("x", "t2"))),
        ("-T t1", BlockAllowList(do_tables=(TableName("a", "t1"), TableName("a", "t2"))), (("a", "t1"),)),
    ],
)
def test_a_table_without_a_database_is_of_the_only_one(
    args: str, lists: BlockAllowList, expected: tuple[tuple[str, str], ...]
) -> None:
    assert tables_of(parse_dump_arguments(args), lists) == expected


@pytest.mark.parametrize(
    ("args", "lists"),
    [
        ("-T t1", BlockAllowList()),
        ("-T t1", BlockAllowList(do_dbs=("a", "b"))),
        ("-T t1", BlockAllowList(do_dbs=("shop_*",))),
        ("-T t1", BlockAllowList(do_dbs=("~^shop",))),
        ("-B a,b -T t1", BlockAllowList(do_dbs=("a",))),
    ],
)
def test_a_table_of_several_possible_databases_is_refused(args: str, lists: BlockAllowList) -> None:
    with pytest.raises(DMError, match="-T names 't1' without a database") as caught:
        tables_of(parse_dump_arguments(args), lists)
    assert caught.value.kind is Code.DumpUnitRuntime


def test_the_task_file_is_refused_for_such_a_table() -> None:
    with pytest.raises(DMError, match=r"task.yaml:\d+:\d+: extra-args of mydumpers cannot be used: -T names 't1'"):
        load_task(SAMPLE.replace('extra-args: ""', 'extra-args: "-T t1"'))
