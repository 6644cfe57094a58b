"""The configuration of the task that a group of histories shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pkg.config.model import LoaderConfig, Meta, MydumperConfig, SubTaskConfig, SyncerConfig
from pkg.rules.model import BlockAllowList
from tests.fuzz.servers import Servers
from tests.fuzz.tasks.rules import Rules
from tests.integration.syncer.support import location


def subtask_of(
    name: str, settings: Mapping[str, str], servers: Servers, rules: Sequence[Rules], folder: Path
) -> SubTaskConfig:
    """A task from the upstream's present end on, with the rules of each history."""
    upstream = servers.upstream
    here = location(upstream)
    schemas = [schema for one in rules for schema in (*one.shard_schemas, f"{one.schema}_b")]
    return SubTaskConfig(
        name=name,
        source_id="source-1",
        task_mode="all" if settings["mode"] == "all" else "incremental",
        from_=upstream.db_config,
        to=servers.target.db_config,
        flavor=upstream.flavor,
        enable_gtid=settings["gtid"] == "on",
        shard_mode=rules[0].shard_mode,
        meta=Meta(here.position.name, here.position.pos, here.gtid_set) if settings["mode"] != "all" else None,
        block_allow_list=BlockAllowList(do_dbs=tuple(schemas)),
        routes=tuple(route for one in rules for route in one.routes()),
        filters=tuple(rules[0].filters()),
        column_mappings=tuple(mapping for one in rules for mapping in one.mappings()),
        expression_filters=tuple(filtered for one in rules for filtered in one.expression_filters()),
        mydumper=MydumperConfig(threads=2),
        loader=LoaderConfig(pool_size=2, dir=str(folder / name)),
        syncer=SyncerConfig(
            worker_count=int(settings["workers"]),
            compact=False if settings["compact"] == "off" else None,
            multiple_rows=False if settings["multiple"] == "off" else None,
            safe_mode=settings["safe"] == "on",
        ),
    )
