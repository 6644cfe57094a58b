"""Looks ahead in the binlog: is a table altered between the rows being read and now?"""

from __future__ import annotations

import re
from collections.abc import Callable

from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.events import Event
from pkg.binlog.position import Position
from pkg.binlog.streams.stream import BinlogStream

#: The limit of the look-ahead: for a task that lags more, an operator can set the structure.
MOST_BYTES = 64 * 1024 * 1024
_READ_BYTES, _WAIT = 1024 * 1024, 1.0
#: They change no table, whatever names they contain.
_CONTROL = (b"begin", b"commit")


def is_unaltered(stream: BinlogStream, end: Position, table: str, should_stop: Callable[[], bool]) -> bool:
    """Whether certainly no statement in ``stream`` up to ``end`` refers to a table of this name.

    Raises DMError as the stream does.
    """
    seen, file = 0, stream.file
    while seen < MOST_BYTES and not should_stop():
        events = stream.read(_READ_BYTES, _WAIT)
        if not events:
            return False
        for event in events:
            seen += event.size
            if event.type == c.ROTATE_EVENT:
                file = ev.parse_rotate(event, file).file
            elif event.type in c.QUERY_EVENTS and may_alter(event, table):
                return False
            elif event.log_pos and not event.artificial and not Position(file, event.log_pos) < end:
                return True
    return False


def may_alter(event: Event, table: str) -> bool:
    """Whether the statement of a QUERY event may change the structure of a table of this name.

    Statements are in the client's charset, in which non-ASCII names look different.
    """
    statement = ev.parse_query(event).statement.strip().lower()
    if statement in _CONTROL:
        return False
    if not table.isascii():
        return True
    name = re.escape(table.lower().encode())
    word = rb"(?<![0-9a-z_$\x80-\xff])(?:" + name + rb"|database|schema)(?![0-9a-z_$\x80-\xff])"
    return re.search(word, statement.replace(b"``", b"`")) is not None
