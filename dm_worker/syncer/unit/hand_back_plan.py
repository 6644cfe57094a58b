"""Plans how a task is handed back to DM: which states allow it, and what is written. Pure.

DM continues from the checkpoint alone. So everything up to it must be applied and nothing after it, and each table
must have the structure of its next rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dm_worker.syncer.checkpoint.meta_store import DurableState
from dm_worker.syncer.checkpoint.protocol import IDLE, BatchProgress, same_place
from dm_worker.syncer.shard_ddl.source_groups import SourceGroups
from pkg import errors
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker import tidb_model_of

#: A message names at most this many tables.
_NAMED = 5

#: The names of a table's columns in lower case, in order.
ColumnNames = Sequence[str]


@dataclass(slots=True)
class HandBackPlan:
    """``structures`` are written in DM's form. ``gone``: rows that DM must not read. ``kept``: tables whose structure
    DM recorded itself. ``from_target``: tables whose structure DM reads from the target, where it is the same."""

    location: Location
    structures: dict[TableId, str] = field(default_factory=dict)
    gone: list[TableId] = field(default_factory=list)
    kept: int = 0
    from_target: int = 0
    online_changes: int = 0
    safe_until: Location | None = None


def ensure_possible(cfg: SubTaskConfig, durable: DurableState, groups: SourceGroups | None) -> Location:
    """The location from which DM can continue. Raises 40052 in any other state, with the operator action."""
    checkpoint, progress = durable.checkpoint, durable.progress
    if checkpoint is None:
        raise _refused(
            cfg,
            "replication has not begun here, so there is no checkpoint",
            f"`dmctl resume-task {cfg.name}`, wait until query-status shows unit Sync, `dmctl pause-task {cfg.name}`.",
        )
    if groups is not None:
        _ensure_settled(cfg, groups)
    if progress is not None and progress.state != IDLE:
        raise _refused(cfg, f"the changes after {progress.start} are applied in part", _again(cfg))
    if _is_dms(durable):
        return checkpoint
    if progress is None or not same_place(progress.end, checkpoint):
        raise _refused(
            cfg,
            f"the checkpoint {checkpoint} was not written by this program, and is not taken over yet",
            f"If DM wrote it, DM continues from it: `dmctl stop-task {cfg.name}`, and start the task in DM. "
            f"Otherwise: {_again(cfg)}",
        )
    if progress.end.rows_events:
        raise _refused(cfg, f"a part of the transaction after {checkpoint} is applied", _again(cfg))
    _ensure_no_prepared(cfg, progress)
    return checkpoint


def _is_dms(durable: DurableState) -> bool:
    """Whether nothing here is this program's: it has handed back already, or has not run since DM did."""
    progress, own = durable.progress, durable.structures
    begun = progress is not None and (progress.number or progress.end.position.name or progress.end.gtid_set)
    return not begun and not own.tables and not own.given_up


def _ensure_settled(cfg: SubTaskConfig, groups: SourceGroups) -> None:
    open_ = [group.name for group in groups.groups.values() if group.ddls or group.pending_acknowledgement]
    if open_ or groups.reread is not None or groups.inside:
        named = f" of {_listed(sorted(open_))}" if open_ else ""
        raise _refused(
            cfg,
            f"DDL of merged tables{named} is not resolved, so rows after it are not applied",
            f"`dmctl resume-task {cfg.name}`; wait until query-status shows no unresolvedGroups for any source "
            f"(`dmctl shard-ddl-lock` shows what each lock waits for); then `dmctl pause-task {cfg.name}`.",
        )


def _ensure_no_prepared(cfg: SubTaskConfig, progress: BatchProgress) -> None:
    if progress.prepared:
        first = min(str(start) for start in progress.prepared.values())
        raise _refused(
            cfg,
            f"{len(progress.prepared)} XA transactions are prepared and not committed (the first at {first}); DM would "
            "not apply their rows",
            "End them on the upstream (`XA RECOVER`, then `XA COMMIT` or `XA ROLLBACK`). Then: " + _again(cfg),
        )


def _again(cfg: SubTaskConfig) -> str:
    return (
        f"`dmctl resume-task {cfg.name}`, wait until query-status shows the task Running and a newer syncerBinlog, "
        f"`dmctl pause-task {cfg.name}`, and hand it back again."
    )


def _refused(cfg: SubTaskConfig, why: str, workaround: str) -> DMError:
    return errors.new(
        Code.WorkerUpdateTaskStage,
        f"task {cfg.name}, source {cfg.source_id} can't be handed back to DM: {why}; nothing was changed",
        workaround=workaround,
    )


def plan_of(
    cfg: SubTaskConfig,
    location: Location,
    durable: DurableState,
    *,
    dumped: Callable[[TableId], TableInfo | None],
    upstream: Mapping[TableId, ColumnNames],
    target: Mapping[TableId, ColumnNames],
    route: Callable[[str, str], TableId],
) -> HandBackPlan:
    """Builds the plan: what is written for DM.

    ``upstream`` are the migrated tables as they are now, ``target`` the target's tables by their names there;
    ``dumped`` is the structure in the full copy's files. Raises 44019 for tables that DM would read wrongly.
    """
    ghosts = {name for name, record in durable.ghosts.items() if not record.moved}
    known = {(info.schema, info.name): info for info in durable.structures.tables}
    by_dm = {one.table for one in durable.structures.foreign} | set(durable.structures.ahead)
    given_up = set(durable.structures.given_up)
    plan = HandBackPlan(location, gone=sorted(given_up | (ghosts & set(known))), kept=len(by_dm))
    plan.online_changes, plan.safe_until = len(ghosts), durable.exit_safe
    unknown: list[TableId] = []
    for name in sorted(set(upstream) - set(known) - by_dm):
        copied = None if name in given_up or (name[0], "") in given_up else dumped(name)
        if copied is not None:
            known[name] = copied
        elif target.get(route(*name), upstream[name]) == upstream[name]:
            plan.from_target += 1
        else:
            unknown.append(name)
    if unknown:
        raise _not_known(cfg, unknown)
    plan.structures = _described(cfg, (info for name, info in known.items() if name not in ghosts))
    return plan


def _described(cfg: SubTaskConfig, tables: Iterable[TableInfo]) -> dict[TableId, str]:
    described, others = {}, []
    for info in tables:
        try:
            described[info.schema, info.name] = json.dumps(tidb_model_of(info), separators=(",", ":"))
        except ValueError as exc:
            others.append(f"{qualified(info.schema, info.name)}: {exc}")
    if others:
        raise errors.new(
            Code.SchemaTrackerCannotFetchDownstreamCreateTableStmt,
            f"task {cfg.name}, source {cfg.source_id} can't be handed back to DM: DM can't replicate {_listed(others)}"
            "; nothing was changed",
            workaround=f"Leave these tables out of the task (block-allow-list): `dmctl stop-task {cfg.name}`, change "
            "the task's file, `dmctl start-task FILE`, and hand it back then. Or keep the task here.",
        )
    return described


def _not_known(cfg: SubTaskConfig, tables: Collection[TableId]) -> DMError:
    schema, table = next(iter(tables))
    return errors.new(
        Code.SchemaTrackerCannotFetchDownstreamCreateTableStmt,
        f"task {cfg.name}, source {cfg.source_id} can't be handed back to DM: no structure is recorded of "
        f"{_listed([qualified(*name) for name in tables])}, and the target table has other columns or another order; "
        "DM would take its structure from the target, and put values into other columns; nothing was changed",
        workaround=f"Record the structure of each: `dmctl binlog-schema update {cfg.name} {schema} {table} -s "
        f"{cfg.source_id} --from-source` if the upstream table was not altered after the checkpoint, otherwise with a "
        "file of the CREATE TABLE that it had there.",
    )


def plan_text(plan: HandBackPlan, *, done: bool) -> str:
    """The message for operators. ``done``: the plan is already written."""
    parts = [
        f"{'DM continues' if done else 'DM would continue'} at {plan.location}",
        f"structures {'written' if done else 'to write'} in DM's form: {_listed(_names(plan.structures))}"
        if plan.structures
        else "no structure is to be written",
    ]
    if plan.kept:
        parts.append(f"structures that DM recorded itself and that stay: {plan.kept}")
    if plan.from_target:
        parts.append(
            f"tables whose structure DM takes from the target, where it has the same columns: {plan.from_target}"
        )
    if plan.online_changes:
        parts.append(f"running online changes that DM continues: {plan.online_changes}")
    if plan.gone:
        parts.append(f"rows of tables that are gone: {len(plan.gone)} {'removed' if done else 'to remove'}")
    if plan.safe_until is not None:
        parts.append(f"DM is in safe mode up to {plan.safe_until}")
    return "; ".join(parts)


def _names(tables: Iterable[TableId]) -> list[str]:
    return [qualified(*name) for name in sorted(tables)]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
