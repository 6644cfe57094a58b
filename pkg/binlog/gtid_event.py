"""The parts of GTID events that the planner reads: which transaction begins, and of what kind it is. Pure."""

from __future__ import annotations

from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.events import Event, parsing

GTID_EVENTS = frozenset({c.GTID_EVENT, c.GTID_TAGGED_EVENT, c.ANONYMOUS_GTID_EVENT, c.MARIADB_GTID_EVENT})
#: MariaDB's GTID event: the offset of its flags (after sequence and domain), and the flag for "no COMMIT follows".
MARIADB_FLAGS = c.HEADER_SIZE + 12
_FL_STANDALONE = 1
#: A commit id of 8 bytes follows the flags.
_FL_GROUP_COMMIT_ID = 2
#: With binlog_alter_two_phase an ALTER is logged at its begin and at its end; only its COMMIT has an effect.
_FL_START_ALTER, _FL_ROLLBACK_ALTER = 2, 8
#: MariaDB's flags for a transaction that XA PREPARE ends, and for the statement that completes it later.
_FL_PREPARED_XA, _FL_COMPLETED_XA = 64, 128


def is_standalone(event: Event) -> bool:
    """Whether the event implies no BEGIN: MariaDB flags single statements and logs no BEGIN. MySQL logs BEGIN
    itself."""
    return event.type != c.MARIADB_GTID_EVENT or bool(event.data[MARIADB_FLAGS] & _FL_STANDALONE)


def is_prepared_xa(gtid: bytes) -> bool:
    """Whether XA PREPARE ends the transaction, by MariaDB's GTID event."""
    return bool(gtid[MARIADB_FLAGS] & _FL_PREPARED_XA)


def is_void_alter(gtid: bytes) -> bool:
    """Whether the statement after MariaDB's GTID event is an ALTER that only begins, or was rolled back."""
    if gtid[MARIADB_FLAGS] & (_FL_PREPARED_XA | _FL_COMPLETED_XA):
        # In an XA transaction, the id is at the offset of an ALTER's flags.
        return False
    at = behind_commit_id(gtid)
    return len(gtid) > at and bool(gtid[at] & (_FL_START_ALTER | _FL_ROLLBACK_ALTER))


def behind_commit_id(gtid: bytes) -> int:
    """The offset after the flags, and the commit id if there is one, in MariaDB's GTID event."""
    return MARIADB_FLAGS + (9 if gtid[MARIADB_FLAGS] & _FL_GROUP_COMMIT_ID else 1)


def gtid_of(event: Event, file: str) -> tuple[bytes, int]:
    """Source and number of a GTID event, see :meth:`EventBuffer.begin_gtid`. Raises 11071 when it is torn."""
    if event.type == c.ANONYMOUS_GTID_EVENT:
        return b"", 0
    if event.type == c.MARIADB_GTID_EVENT:
        ev.parse_gtid(event, file)
        data = event.data
        return data[27:31] + event.server_id.to_bytes(4, "little"), int.from_bytes(data[19:27], "little")
    return parsing(event, file, lambda: ev.mysql_gtid(event))
