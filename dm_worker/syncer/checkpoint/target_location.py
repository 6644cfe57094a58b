"""Where the rows of the target are in a source's binlog, as another session than the syncer's reads it.

The session must read all of it in one snapshot, and the rows that it compares too: ``START TRANSACTION WITH CONSISTENT
SNAPSHOT`` at REPEATABLE READ. It reads three tables of the task's meta schema, each in the rows with ``id`` = the
source:

- ``<task>_syncer_checkpoint``, the row with ``is_global = 1``: ``binlog_name``, ``binlog_pos``, ``binlog_gtid`` are the
  checkpoint; ``exit_safe_binlog_name`` or ``exit_safe_binlog_gtid`` is set while the target may be ahead of it.
- ``<task>_syncer_batch``: ``state`` is ``idle`` where all up to ``end_*`` is applied and nothing after it. Otherwise
  ``start_*`` is where the batch ``batch`` begins, of which some buckets may be applied; ``safe`` is 0 at the first
  attempt.
- ``<task>_syncer_marker``: ``batch`` is the last batch that a bucket holds; it is committed together with the rows.

So the rows are exactly at a location L if the checkpoint is L and either the batch row is idle with its end at L, or a
first attempt is open that begins at L, and no marker has its number. Rows of merged shards that are held back for a DDL
are not in the target, whatever the location.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from pymysql.connections import Connection

from dm_worker.syncer.checkpoint.meta_connection import stored_location
from dm_worker.syncer.checkpoint.protocol import IDLE, OPEN
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location
from pkg.mysql.introspect import query
from pkg.mysql.names import qualified


class Whereabouts(Enum):
    """Where the target's rows are, seen from a location. UNCERTAIN: some rows may be behind it, and some ahead."""

    EXACT = "exact"
    BEHIND = "behind"
    AHEAD = "ahead"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class TargetLocation:
    """The checkpoint in the session's snapshot, None where there is none, and how the rows are placed."""

    checkpoint: Location | None
    where: Whereabouts
    reason: str = ""


def location_in(
    session: Connection[Any], *, meta_schema: str, task: str, source: str, location: Location, flavor: str
) -> TargetLocation:
    """Whether the target's rows of ``source`` are exactly at ``location`` in the session's snapshot.

    ``location`` is as :class:`HoldState` names it. Raises ``pymysql.Error``, also where the task has no meta tables.
    """
    prefix = f"{task}_syncer_"
    rows = query(
        session,
        "SELECT binlog_name, binlog_pos, binlog_gtid, exit_safe_binlog_name, exit_safe_binlog_gtid"
        f" FROM {qualified(meta_schema, prefix + 'checkpoint')} WHERE id = %s AND is_global = 1",
        (source,),
    )
    if not rows:
        return TargetLocation(None, Whereabouts.UNCERTAIN, "the source has no checkpoint")
    *stored, exit_name, exit_gtid = rows[0]
    checkpoint = stored_location(*stored)
    if exit_name or exit_gtid:
        return TargetLocation(checkpoint, Whereabouts.UNCERTAIN, "the target may be ahead of the checkpoint: safe mode")
    problem = _problem(session, qualified(meta_schema, prefix + "batch"), source, checkpoint)
    problem = problem or _marker_problem(session, meta_schema, prefix, source)
    side = _side(checkpoint, location, flavor)
    if problem and side is not Whereabouts.AHEAD:
        # What is applied beyond the checkpoint may be before the location or after it.
        return TargetLocation(checkpoint, Whereabouts.UNCERTAIN, problem)
    return TargetLocation(checkpoint, side, "" if side is Whereabouts.EXACT else f"the checkpoint is {checkpoint}")


def _problem(session: Connection[Any], table: str, source: str, checkpoint: Location) -> str:
    start, end = (f"{name}_name, {name}_pos, {name}_gtid, {name}_rows" for name in ("start", "end"))
    rows = query(session, f"SELECT state, {start}, {end}, safe FROM {table} WHERE id = %s", (source,))
    if not rows:
        return "the source has no batch row"
    state, *locations, safe = rows[0]
    there = stored_location(*locations[4:]) if state == IDLE else stored_location(*locations[:4])
    if there != checkpoint:
        return f"all before {there} is applied, which is not the checkpoint"
    if state == IDLE or (state == OPEN and not safe):
        return ""
    return f"the state of the batch row is {state}, and a part of it may be applied"


def _marker_problem(session: Connection[Any], meta_schema: str, prefix: str, source: str) -> str:
    batches, markers = qualified(meta_schema, f"{prefix}batch"), qualified(meta_schema, f"{prefix}marker")
    sql = (
        f"SELECT COUNT(*) FROM {markers} m JOIN {batches} b ON b.id = m.id"
        " WHERE m.id = %s AND (m.batch > b.batch OR (b.state <> %s AND m.batch = b.batch))"
    )
    ahead = int(query(session, sql, (source, IDLE))[0][0])
    return f"{ahead} buckets are applied beyond the checkpoint" if ahead else ""


def _side(checkpoint: Location, location: Location, flavor: str) -> Whereabouts:
    if location.gtid_set and checkpoint.gtid_set:
        there, wanted = (parse_gtid_set(one.gtid_set, flavor) for one in (checkpoint, location))
        if there == wanted:
            return Whereabouts.EXACT
        if there.contains(wanted):  # type: ignore[arg-type]
            return Whereabouts.AHEAD
        return Whereabouts.BEHIND if wanted.contains(there) else Whereabouts.UNCERTAIN  # type: ignore[arg-type]
    if checkpoint.position == location.position:
        return Whereabouts.EXACT
    return Whereabouts.BEHIND if checkpoint.position < location.position else Whereabouts.AHEAD
