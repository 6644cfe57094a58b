"""Hazard: a cluster plays another task than the one that threads play."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pkg.config.model import LoaderConfig, Meta, MydumperConfig, SubTaskConfig, SyncerConfig
from pkg.config.task import load_task
from pkg.rules.model import BlockAllowList
from pkg.settings.connections import DBConfig
from tests.fuzz.tasks.rules import Rules
from tests.fuzz.tasks.task_files import task_file

_NONE = {"merge": "none", "mapping": "none", "extract": "none", "row filter": "none", "route": "none", "rule": "none"}


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"merge": "pessimistic tables", "mapping": "partition id"},
        {"merge": "schemas", "extract": "schema", "mapping": "prefix"},
        {"extract": "table"},
        {"extract": "source", "rule": "drop table"},
        {"row filter": "update old", "route": "schema"},
        {"route": "table"},
    ],
    ids=str,
)
def test_the_file_says_what_the_subtask_has(chosen: Mapping[str, str]) -> None:
    rules = Rules({**_NONE, **chosen}, "h7", seed=4)
    cfg = SubTaskConfig(
        name="f7",
        source_id="source-f7",
        task_mode="incremental",
        from_=DBConfig(host="127.0.0.1", port=3306, user="root"),
        to=DBConfig(host="127.0.0.1", port=4000, user="root"),
        shard_mode=rules.shard_mode,
        meta=Meta("mysql-bin.000003", 400, ""),
        routes=tuple(rules.routes()),
        filters=tuple(rules.filters()),
        column_mappings=tuple(rules.mappings()),
        expression_filters=tuple(rules.expression_filters()),
        block_allow_list=BlockAllowList(do_dbs=("h7", "h7_b")),
        mydumper=MydumperConfig(threads=2),
        loader=LoaderConfig(pool_size=2),
        syncer=SyncerConfig(worker_count=1, compact=False, safe_mode=True),
    )
    task = load_task(task_file(cfg))
    (one,) = task.instances
    assert (task.name, task.task_mode, task.shard_mode) == (cfg.name, cfg.task_mode, cfg.shard_mode)
    assert (task.target.host, task.target.port) == (cfg.to.host, cfg.to.port)
    assert (one.source_id, one.meta, one.block_allow_list) == (cfg.source_id, cfg.meta, cfg.block_allow_list)
    assert (one.routes, one.filters, one.column_mappings) == (cfg.routes, cfg.filters, cfg.column_mappings)
    assert one.expression_filters == cfg.expression_filters
    assert (one.mydumper, one.syncer) == (cfg.mydumper, cfg.syncer)
    assert one.loader.pool_size == cfg.loader.pool_size
