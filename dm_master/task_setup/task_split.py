"""Splits a task into subtasks, one per upstream, each with everything that its worker needs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from pkg import errors
from pkg.config.model import InstanceConfig, Meta, SourceConfig, SubTaskConfig, TaskConfig
from pkg.config.target_session import without_ignored
from pkg.errors import Code
from pkg.settings.options import nearest

#: The upstream's SQL modes that change what a generated column of the target computes.
_KEPT_MODES = frozenset({"HIGH_NOT_PRECEDENCE", "NO_UNSIGNED_SUBTRACTION", "PIPES_AS_CONCAT", "NO_ENGINE_SUBSTITUTION"})
_ADDED_MODES = (
    "IGNORE_SPACE", "NO_AUTO_VALUE_ON_ZERO", "ALLOW_INVALID_DATES", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES",
)  # fmt: skip

#: Variables that help to write rows, where a target has them: no locks before the commit, which resolves conflicts (an
#: update costs TiDB a third less CPU), and the upstream's values in AUTO_RANDOM columns.
TARGET_DEFAULTS: Mapping[str, str] = {"tidb_txn_mode": "optimistic", "allow_auto_random_explicit_insert": "ON"}


def split_task(task: TaskConfig, sources: Mapping[str, SourceConfig], only: Sequence[str] = ()) -> list[SubTaskConfig]:
    """One subtask per instance, in the file's order; ``only`` selects some of the instances.

    Raises 20031 for an instance whose source was not created, and for a chosen source that the task lacks.
    """
    mine = [instance.source_id for instance in task.instances]
    for source_id in only:
        if source_id not in mine:
            raise _not_found(f"source {source_id!r} not found in task's config", source_id, mine)
    chosen = [instance for instance in task.instances if not only or instance.source_id in only]
    for instance in chosen:
        if instance.source_id not in sources:
            raise _not_found(f"source {instance.source_id!r} is not created", instance.source_id, list(sources))
    return [_subtask(task, instance, sources[instance.source_id]) for instance in chosen]


def _not_found(message: str, source_id: str, known: Sequence[str]) -> errors.DMError:
    near = nearest(source_id, known)
    hint = f"Did you mean {near!r}?" if near else f"Known are: {', '.join(sorted(known)) or 'none'}."
    return errors.new(Code.ConfigSourceIDNotFound, message, workaround=f"{hint} `operate-source create` adds a source.")


def _subtask(task: TaskConfig, instance: InstanceConfig, source: SourceConfig) -> SubTaskConfig:
    return SubTaskConfig(
        **_of_the_task(task),
        source_id=instance.source_id,
        from_=source.from_,
        to=task.target,
        flavor=source.flavor or "mysql",
        server_id=source.server_id,
        enable_gtid=source.enable_gtid,
        enable_relay=source.enable_relay,
        relay_dir=source.relay_dir,
        meta=instance.meta,
        case_sensitive=task.case_sensitive or source.case_sensitive,
        routes=instance.routes,
        filters=instance.filters + source.filters,
        expression_filters=instance.expression_filters,
        column_mappings=instance.column_mappings,
        block_allow_list=instance.block_allow_list,
        mydumper=instance.mydumper,
        loader=instance.loader,
        syncer=instance.syncer,
        validator=instance.validator,
    )


def _of_the_task(task: TaskConfig) -> dict[str, Any]:
    """The settings that are equal in all subtasks of a task."""
    own = {field.name for field in fields(SubTaskConfig)} - {"case_sensitive"}
    return {field.name: getattr(task, field.name) for field in fields(TaskConfig) if field.name in own}


def needs_start_position(subtask: SubTaskConfig) -> bool:
    """Whether the subtask starts at the upstream's current position, because neither file nor mode sets a start."""
    return subtask.task_mode == "incremental" and subtask.meta is None


def with_start_position(subtask: SubTaskConfig, meta: Meta) -> SubTaskConfig:
    return replace(subtask, meta=meta)


def target_session(known: Collection[str], upstream_sql_mode: str, task: TaskConfig) -> tuple[tuple[str, str], ...]:
    """The session variables of the target's writers: what the file gives, and defaults for the rest.

    ``known``: those of :data:`TARGET_DEFAULTS` that the target has. ``upstream_sql_mode`` is the upstream's global
    sql_mode. DM uses nearly all of it except strictness. This session is strict, because a value that does not fit
    must cause an error and must not be cut. Modes that change how literals are read, or that the target's family may
    not know, are left out. No time zone is set: rows travel in UTC, and a writer in another zone would shift every
    TIMESTAMP.
    """
    session = without_ignored(task.target.session)
    for name, value in TARGET_DEFAULTS.items():
        if name in known:
            session.setdefault(name, value)
    if "sql_mode" in session:
        modes = [*session["sql_mode"].upper().split(","), "NO_AUTO_VALUE_ON_ZERO"]
    else:
        modes = [*(mode for mode in upstream_sql_mode.upper().split(",") if mode in _KEPT_MODES), *_ADDED_MODES]
    session["sql_mode"] = ",".join(dict.fromkeys(filter(None, modes)))
    return tuple(session.items())
