"""The configuration of the task that a group of histories shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pkg.config.model import LoaderConfig, Meta, MydumperConfig, SubTaskConfig, SyncerConfig, TaskMode
from pkg.rules.model import BlockAllowList
from tests.fuzz.servers import Servers
from tests.fuzz.tasks.rules import Rules
from tests.integration.syncer.support import location

#: The task's modes, by the parameter's value.
_MODES: Mapping[str, TaskMode] = {one: one for one in ("all", "incremental", "full", "load&sync")}


def subtasks_of(
    name: str, settings: Mapping[str, str], servers: Servers, rules: Sequence[Rules], folder: Path
) -> list[SubTaskConfig]:
    """A task from the upstream's present end on, with the rules of each history: one subtask per source."""
    whole, loads = _whole(name, settings, servers, rules), settings["mode"] == "load&sync"
    return [
        replace(
            whole,
            source_id=source,
            # A task that only loads looks for the dump in the very place that it is told.
            loader=LoaderConfig(pool_size=2, dir=f"{folder}/{name}-{source}{'.' + name if loads else ''}"),
            block_allow_list=BlockAllowList(do_dbs=tuple(schema for one in rules for schema in one.schemas_of(source))),
        )
        for source in rules[0].sources
    ]


def _whole(name: str, settings: Mapping[str, str], servers: Servers, rules: Sequence[Rules]) -> SubTaskConfig:
    """The subtask of any source."""
    upstream = servers.upstream
    here = location(upstream)
    return SubTaskConfig(
        name=name,
        source_id="",
        task_mode=_MODES[settings["mode"]],
        from_=upstream.db_config,
        to=servers.target.db_config,
        flavor=upstream.flavor,
        enable_gtid=settings["gtid"] == "on",
        shard_mode=rules[0].shard_mode,
        meta=Meta(here.position.name, here.position.pos, here.gtid_set) if settings["mode"] == "incremental" else None,
        routes=tuple(route for one in rules for route in one.routes()),
        filters=tuple(rules[0].filters()),
        column_mappings=tuple(mapping for one in rules for mapping in one.mappings()),
        expression_filters=tuple(filtered for one in rules for filtered in one.expression_filters()),
        mydumper=MydumperConfig(threads=2),
        syncer=SyncerConfig(
            worker_count=int(settings["workers"]),
            compact=False if settings["compact"] == "off" else None,
            multiple_rows=False if settings["multiple"] == "off" else None,
            safe_mode=settings["safe"] == "on",
        ),
    )
