"""How far a relay log is behind the upstream's end, and why. Pure."""

from __future__ import annotations

from dm_worker.relay.upstream_end import BinlogTail
from pkg.binlog.position import Position
from pkg.status.lag import AWAY, READ, RETRY, SOURCE_IDLE, STOPPED, UNKNOWN, StreamLag


def relay_lag(
    upstream: BinlogTail | None, here: Position | None, newest: int, *, running: bool, connected: bool
) -> StreamLag:
    """``upstream``: its end, None when it does not answer. ``here``: the relay log's end, None while unknown.
    ``newest``: upstream time of the newest event there, 0 for none. ``connected``: the upstream sends its binlog."""
    seconds, unread = UNKNOWN, UNKNOWN
    if upstream is not None and here is not None:
        found = upstream.bytes_after(here)
        unread = UNKNOWN if found is None else found
        seconds = 0 if unread == 0 else max(0, int(upstream.at - newest)) if newest else UNKNOWN
    if not running:
        return StreamLag(seconds, unread, STOPPED)
    if not connected:
        return StreamLag(seconds, unread, RETRY)
    if upstream is None:
        return StreamLag(seconds, unread, AWAY)
    return StreamLag(seconds, unread, SOURCE_IDLE if unread == 0 else READ)
