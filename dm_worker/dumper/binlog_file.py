"""Identifies the binlog file of a dump's position, so replication notices another file of that name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pkg.binlog.position import FileIdentity, Location
from pkg.binlog.streams.server_stream import identity_of, replica_id
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.mysql.retry import retrying
from pkg.process.log import get_logger
from pkg.settings.connections import DBConfig

log = get_logger("dumper")


def identified(cfg: SubTaskConfig, upstream: DBConfig, location: Location, should_stop: Callable[[], bool]) -> Location:
    """``location`` with the identity of its file, as the upstream has it now. Raises DMError when the user may not read
    the binlog, as replication must."""

    def ask() -> FileIdentity:
        server_id = replica_id(cfg.name, cfg.source_id, f"{cfg.server_id}dump")
        return identity_of(upstream, location.position.name, flavor=cfg.flavor, server_id=server_id)

    return replace(location, file=retrying(ask, should_stop=should_stop))


def snapshot_identified(
    cfg: SubTaskConfig, upstream: DBConfig, begin: Location, snapshot: Location, should_stop: Callable[[], bool]
) -> Location:
    """The ``snapshot``'s location with the identity of its file. ``begin``: the binlog's end before the dump."""
    if snapshot.position.name == begin.position.name:
        return replace(snapshot, file=begin.file)
    try:
        return identified(cfg, upstream, snapshot, should_stop)
    except DMError as exc:
        # The file may be purged by now, but be in the relay log. The dump is valid.
        log.warning("a reset of the upstream's binlog before replication begins will not be noticed", error=str(exc))
        return snapshot
