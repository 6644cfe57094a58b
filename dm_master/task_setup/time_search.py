"""Finds a place by time in a binlog: where the first transaction begins that has an event which is not older. Pure."""

from __future__ import annotations

from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.events import Event
from pkg.binlog.gtid import MariaDBGTIDSet, MySQLGTIDSet, parse_gtid_set
from pkg.binlog.gtid_event import GTID_EVENTS, is_standalone
from pkg.binlog.position import Location, Position

_GTID_LISTS = (c.PREVIOUS_GTIDS_EVENT, c.MARIADB_GTID_LIST_EVENT)
#: They are before the first transaction of a file: only after them the executed GTID set is known.
_HEAD = (*_GTID_LISTS, c.FORMAT_DESCRIPTION_EVENT, c.MARIADB_START_ENCRYPTION_EVENT)


class TimeSearch:
    """Takes the events of a binlog from the start of ``file`` on, in order. ``moment`` in unix seconds."""

    def __init__(self, file: str, moment: int, flavor: str) -> None:
        self._moment = moment
        self._file = file
        self._offset = len(c.MAGIC)
        #: Where the current transaction begins; None between transactions.
        self._begin: Position | None = None
        #: Whether an end of its own follows: XID, COMMIT, ROLLBACK, XA PREPARE.
        self._is_open = False
        self._gtid = ""
        self._executed: MySQLGTIDSet | MariaDBGTIDSet = parse_gtid_set("", flavor)

    @property
    def read_to(self) -> Position:
        """The end of the last event."""
        return Position(self._file, self._offset)

    def take(self, event: Event) -> Location | None:
        """The place if this event is the first that is not older. Raises 11071 for a torn event."""
        if event.type == c.ROTATE_EVENT:
            self._rotate(event)
            return None
        if event.artificial:
            return None
        end = ev.end_position(self._offset, event)
        if self._begin is None:
            self._begin = Position(self._file, end - event.size)
            self._is_open = False
        if event.timestamp >= self._moment and event.type not in _HEAD:
            return Location(self._begin, str(self._executed))
        self._offset = end
        self._follow(event)
        return None

    def _rotate(self, event: Event) -> None:
        position, name = ev.parse_rotate(event, self._file)
        if not (event.artificial and name == self._file):
            self._file, self._offset, self._begin, self._gtid = name, position, None, ""

    def _follow(self, event: Event) -> None:
        if event.type in GTID_EVENTS:
            self._gtid = ev.parse_gtid(event, self._file).text
            self._is_open = not is_standalone(event)
        elif event.type in c.QUERY_EVENTS:
            self._query(ev.parse_query(event, self._file).statement.strip().rstrip(b";").upper())
        elif event.type in (c.XID_EVENT, c.XA_PREPARE_EVENT):
            self._end()
        elif event.type in _GTID_LISTS:
            self._executed.update(ev.parse_previous_gtids(event, self._file))  # type: ignore[arg-type]
            self._end()
        elif not (self._is_open or self._gtid):
            self._end()

    def _query(self, statement: bytes) -> None:
        if statement == b"BEGIN" or statement.startswith((b"XA START", b"XA BEGIN")):
            self._is_open = True
        elif statement in (b"COMMIT", b"ROLLBACK") or not self._is_open:
            self._end()

    def _end(self) -> None:
        if self._gtid:
            self._executed.add(self._gtid)
        self._begin, self._gtid, self._is_open = None, "", False
