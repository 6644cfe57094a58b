"""Hazard: an option of mydumpers is ignored or misunderstood, or unwanted tables are dumped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_worker.dumper.options import parse_options
from pkg.errors import Code, DMError
from tests.unit.dm_worker.dumper.support import dump_task_config


@pytest.mark.parametrize(
    "extra",
    [
        "--nosuch 1", "-t 0", "-F 0", "-F 1X", "--consistency maybe", "--snapshot 1",
        "--no-locks --consistency lock", "-T plain", "'", "-W=false", "word",
    ],
)  # fmt: skip
def test_extra_args_that_are_not_understood_are_refused(extra: str) -> None:
    with pytest.raises(DMError) as caught:
        parse_options(dump_task_config(extra))
    assert caught.value.kind is Code.DumpUnitRuntime


def test_extra_args_take_the_place_of_settings() -> None:
    options = parse_options(
        dump_task_config("-t 7 -F 2MiB -s 500 -r 9 --consistency=lock --where 'a > 1' -B x,y --escape-backslash=false")
    )
    assert (options.threads, options.chunk_filesize, options.statement_size, options.rows) == (7, 2 << 20, 500, 9)
    assert (options.where, options.consistency, options.escape_backslash) == ("a > 1", "lock", False)
    assert options.filter.allows("x", "t")
    assert not options.filter.allows("z", "t")


@pytest.mark.parametrize("extra", ["", "-B d", "-T d.t,d._t_gho,d._t_old", "-f 'd.*'"])
def test_tables_of_online_ddl_tools_are_never_dumped(extra: str) -> None:
    cfg = dump_task_config(extra)
    names = ("t", "_t_gho", "_t_old")
    assert [parse_options(cfg).filter.allows("d", name) for name in names] == [True, False, False]
    off = parse_options(replace(cfg, online_ddl=False)).filter
    assert all(off.allows("d", name) for name in names)
