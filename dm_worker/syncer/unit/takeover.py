"""What a run takes over from a checkpoint of DM: structures for the tracker, and a summary for operators. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dm_worker.syncer.checkpoint.meta_store import DurableState
from pkg import ddl
from pkg.binlog.position import Location
from pkg.errors import DMError
from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker import SchemaTracker, ServerDefaults, table_of_tidb_model
from pkg.task_meta.unsettled_ddl import obstacle

#: A message names at most this many tables.
_NAMED = 5


@dataclass(slots=True)
class TakeoverFacts:
    """``location``: of DM's checkpoint. ``unusable``: tables whose structure from DM is not understood, with
    the reason. ``ahead``: tables that DM had applied beyond its checkpoint."""

    location: Location
    structures: list[TableInfo] = field(default_factory=list)
    #: Ghost tables, whose structures follow from the real tables' and the statements on them; and the real tables.
    ghosts: dict[TableId, TableId] = field(default_factory=dict)
    unusable: list[tuple[TableId, str]] = field(default_factory=list)
    ahead: Sequence[TableId] = ()
    online_changes: int = 0
    unsettled: Sequence[str] = ()


def takeover_of(durable: DurableState, server: ServerDefaults, *, foreign: bool) -> TakeoverFacts | None:
    """What this or an earlier run takes over; None for neither. ``foreign``: another program wrote the checkpoint.

    Raises 36007 for shard DDL that can't begin again.
    """
    location = durable.checkpoint if foreign else durable.taken_over
    if location is None:
        return None
    for group in durable.unsettled:
        error = obstacle(group, location.position)
        if error is not None:
            raise error
    facts = TakeoverFacts(
        location,
        ahead=durable.structures.ahead,
        online_changes=len(durable.ghosts) if foreign else 0,
        unsettled=[group.target for group in durable.unsettled],
    )
    for one in durable.structures.foreign:
        try:
            facts.structures.append(table_of_tidb_model(one.data, *one.table, server))
        except ValueError as exc:
            facts.unusable.append((one.table, str(exc)))
    _add_ghosts(facts, durable, server)
    return facts


def _add_ghosts(facts: TakeoverFacts, durable: DurableState, server: ServerDefaults) -> None:
    """DM tracks no ghost table: it stores the statements. The tool created the ghost like the real table."""
    known = {(info.schema, info.name): info for info in (*durable.structures.tables, *facts.structures)}
    for name, record in durable.ghosts.items():
        real = known.get(record.other)
        left_by_dm = record.ddls and all(one.session is None for one in record.ddls)
        if real is None or name in known or not left_by_dm:
            continue
        try:
            statements = [
                ddl.parse(one.sql, default_schema=name[0], flavor=server.flavor, version=server.version)
                for one in record.ddls
            ]
            first = real.renamed(*name)
            made = [first, *SchemaTracker(server).stages(first, statements)][-1]
        except DMError as exc:
            facts.unusable.append((name, exc.message))
            continue
        if made is not None:
            facts.structures.append(made)
            facts.ghosts[name] = record.other


def takeover_text(facts: TakeoverFacts, until: Location | None) -> str:
    """The summary for log and status. ``until``: where safe mode ends; None out of safe mode."""
    parts = [f"the checkpoint {facts.location} of another program (DM)"]
    if facts.structures:
        parts.append(f"structures of {len(facts.structures)} tables")
    if facts.online_changes:
        parts.append(f"{facts.online_changes} running online changes")
    if facts.unsettled:
        parts.append(f"DDL of merged tables that begins again: {_listed(list(facts.unsettled))}")
    if facts.ahead:
        parts.append(f"rows applied beyond it: {_listed([qualified(*table) for table in facts.ahead])}")
    if facts.unusable:
        parts.append(
            f"structures not understood: {_listed([f'{qualified(*table)} ({why})' for table, why in facts.unusable])}"
        )
    parts.append("not in safe mode" if until is None else f"safe mode until {until}")
    return "; ".join(parts)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
