"""Which part of the binlog is needed: where the relay log begins, which of its files stay, who reads the upstream."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from dm_worker.relay.layout import RelayDir
from dm_worker.relay.positions import find_gtids, find_position
from dm_worker.relay.purge import NeededFile
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.source_relay import SourceRelay
from dm_worker.source.purge_watch import BinlogReader
from dm_worker.subtask.subtask import SubTask
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.checkpoint.start_location import start_location
from dm_worker.syncer.shard_ddl.groups_snapshot import decode
from pkg import errors
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location, Position, parse_position
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger

log = get_logger(__name__)

#: Task modes that read the binlog.
_SYNCING = frozenset({"all", "incremental", "load&sync"})
#: Seconds to wait for a target that cannot be reached.
_TARGET_TIMEOUT = 15.0
#: The position in a location's string.
_POSITION = re.compile(r"\([^()]+, \d+\)")


def durable_location(cfg: SubTaskConfig) -> Location:
    """Where a subtask would continue to read: its checkpoint, or its start location. Raises DMError if that is unknown.

    If rows of merged shards are held back, it is the location of the oldest of them.
    """
    deadline = time.monotonic() + _TARGET_TIMEOUT
    store = MetaStore(cfg, should_stop=lambda: time.monotonic() > deadline)
    try:
        checkpoint, shards = store.peek()
        held = None if shards is None else decode(shards, lambda schema, table: (schema, table)).oldest_needed
        return held or checkpoint or start_location(cfg)[0]
    finally:
        store.close()


def earliest_location(subtasks: Iterable[SubTaskConfig]) -> Location | None:
    """Where the relay log has to begin for all ``subtasks``; those without a known location may read the upstream."""
    found: list[Location] = []
    for cfg in subtasks:
        if cfg.task_mode not in _SYNCING:
            continue
        try:
            location = durable_location(cfg)
        except DMError as exc:
            log.info("a subtask has no binlog position yet", task=cfg.name, reason=str(exc))
            continue
        if location.position.name:
            found.append(location)
    return min(found, key=lambda location: location.position.sort_key(), default=None)


def needed_files(relay: RelayDir, readable_end: ReadableEnd, subtasks: Iterable[SubTaskConfig]) -> list[NeededFile]:
    """The files where ``subtasks`` would continue. A subtask whose location is not in the relay log needs no file.

    Raises 30037 when a subtask's location cannot be determined.
    """
    end = readable_end.end()
    found: list[NeededFile] = []
    for cfg in subtasks:
        if cfg.task_mode not in _SYNCING or end is None:
            continue
        try:
            location = durable_location(cfg)
        except DMError as exc:
            raise errors.new(
                Code.RelayPurgeIsForbidden,
                f"which files task {cfg.name} still needs is not known: {exc.message}",
                raw=exc,
                workaround="Wait until the task's full copy is complete, or until the target can be reached.",
            ) from exc
        if cfg.enable_gtid and location.gtid_set:
            start = find_gtids(relay, end, parse_gtid_set(location.gtid_set, cfg.flavor))
        else:
            start = find_position(relay, end, location)
        if start is not None:
            found.append(NeededFile(start.subdir.name, start.file))
    return found


def binlog_readers(relay: SourceRelay, subtasks: Iterable[SubTask]) -> list[BinlogReader]:
    """The relay, and the ``subtasks`` that do not read from it. May wait for upstream and target."""
    status = relay.status()
    found = []
    if status is not None and status.relayBinlog:
        found.append(BinlogReader("", parse_position(status.relayBinlog)))
    for subtask in subtasks:
        sync = subtask.status().sync if subtask.state.unit == pb.Sync else None
        if sync is None or (sync.binlogType == "local" and relay.goes_on()):
            continue
        position = needed_from(sync) if sync.syncerBinlog else _stored_position(subtask)
        if position is not None:
            found.append(BinlogReader(subtask.name, position, float(max(sync.secondsBehindMaster, 0))))
    return found


def needed_from(sync: pb.SyncStatus) -> Position:
    """The position of the oldest rows that are not applied; rows of merged shards may be held back."""
    held = (_POSITION.search(group.firstLocation) for group in sync.unresolvedGroups)
    return min(parse_position(text) for text in (sync.syncerBinlog, *(found[0] for found in held if found)))


def _stored_position(subtask: SubTask) -> Position | None:
    """The position of a subtask that has not run since the worker started; None when unknown."""
    try:
        position = durable_location(subtask.config).position
    except DMError:
        return None
    return position if position.name else None
