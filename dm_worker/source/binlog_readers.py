"""Who needs the upstream's binlog files."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dm_worker.relay.source_relay import SourceRelay
from dm_worker.source import relay_needs
from dm_worker.source.purge_watch import BinlogReader
from dm_worker.subtask.subtask import SubTask
from pkg.binlog.position import Position, parse_position
from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as pb

#: The position in a location's text.
_POSITION = re.compile(r"\([^()]+, \d+\)")


def binlog_readers(relay: SourceRelay, subtasks: Iterable[SubTask]) -> list[BinlogReader]:
    """The relay, and those of ``subtasks`` that do not read from it. May wait for upstream and target."""
    status = relay.status()
    found = []
    if status is not None and status.relayBinlog:
        found.append(BinlogReader("relay", parse_position(status.relayBinlog)))
    for subtask in subtasks:
        sync = subtask.status().sync if subtask.state.unit == pb.Sync else None
        if sync is None or (sync.binlogType == "local" and relay.goes_on()):
            continue
        position = needed_from(sync) if sync.syncerBinlog else _stored_position(subtask)
        if position is not None:
            found.append(BinlogReader(f"task {subtask.name}", position, float(sync.secondsBehindMaster)))
    return found


def needed_from(sync: pb.SyncStatus) -> Position:
    """Where the oldest rows are that are not applied: rows of merged shards may be held back behind the checkpoint."""
    held = (_POSITION.search(group.firstLocation) for group in sync.unresolvedGroups)
    return min(parse_position(text) for text in (sync.syncerBinlog, *(found[0] for found in held if found)))


def _stored_position(subtask: SubTask) -> Position | None:
    """Of one that did not run since the worker began; None when it can't be told."""
    try:
        position = relay_needs.durable_location(subtask.config).position
    except DMError:
        return None
    return position if position.name else None
