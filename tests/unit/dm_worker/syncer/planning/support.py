"""Binlogs for tests of the planner, and what planners make of them."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence

from hypothesis import strategies as st

from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import BatchLimits
from dm_worker.syncer.planning.instructions import Advance, PlannerInstruction
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.planning.table_resolution import Resolve, feed_events
from dm_worker.syncer.rows.table_plan import COMPACT, TablePlan
from pkg.binlog import constants as c
from pkg.binlog.events import HEADER, Event
from pkg.binlog.position import Location, Position

ROWS = b"rows"

SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


class Log:
    """Writes events as a MySQL 5.6 without GTID does: BEGIN, TABLE_MAP, rows, XID.

    ``placeless``: as MariaDB 11.4 and later, where what is inside a transaction does not name its end.
    """

    def __init__(self, file: str = "bin.000001", offset: int = 4, *, placeless: bool = False) -> None:
        self.file, self.offset = file, offset
        self.placeless = placeless
        self.events: list[Event] = []
        #: Where they end, named or not.
        self.ends: list[int] = []

    def add(self, kind: int, body: bytes, *, pad: int = 0, timestamp: int = 100, flags: int = 0) -> None:
        body += bytes(pad)
        size = 19 + len(body) + 4
        self.offset += size
        log_pos = 0 if self.placeless and self._is_inside(kind, body) else self.offset
        header = HEADER.pack(timestamp, kind, 1, size, log_pos, flags)
        self.events.append(Event(timestamp, kind, 1, size, log_pos, flags, header + body))
        self.ends.append(self.offset)

    @staticmethod
    def _is_inside(kind: int, body: bytes) -> bool:
        word = kind == c.QUERY_EVENT and body.rpartition(b"\0")[2].startswith((b"SAVEPOINT", b"ROLLBACK TO", b"XA END"))
        return word or kind in (c.TABLE_MAP_EVENT, c.MARIADB_ANNOTATE_ROWS_EVENT, *c.ROWS_EVENTS)

    def mysql_gtid(self, number: int) -> None:
        self.add(c.GTID_EVENT, b"\1" + uuid.UUID(SOURCE).bytes + number.to_bytes(8, "little"))

    def query(self, sql: bytes, schema: bytes = b"d", *, thread_id: int = 7) -> None:
        head = struct.pack("<IIBHH", thread_id, 0, len(schema), 0, 0)
        self.add(c.QUERY_EVENT, head + schema + b"\0" + sql)

    def table_map(self, table: bytes, number: int = 1) -> None:
        self.add(c.TABLE_MAP_EVENT, number.to_bytes(6, "little") + b"\1\0" + table)

    def rows(self, tag: int, number: int = 1) -> None:
        body = number.to_bytes(6, "little") + b"\1\0" + b"%06d" % tag
        self.add(c.WRITE_ROWS_EVENT_V1, body)

    def transaction(self, tags: list[int], *, table: bytes = b"t", timestamp: int = 100) -> None:
        self.query(b"BEGIN")
        for tag in tags:
            self.table_map(table)
            self.rows(tag)
        self.add(c.XID_EVENT, bytes(8), timestamp=timestamp)

    def compressed(self, tags: list[int]) -> None:
        """The same as one event."""
        inner = Log()
        inner.transaction(tags)
        # Sizes inside are without checksums, and positions are not set.
        plain = b"".join(HEADER.pack(e.timestamp, e.type, 1, len(e.data), 0, 0) + e.data[19:] for e in inner.events)
        self.add(c.ANONYMOUS_GTID_EVENT, bytes(25))
        self.add(c.TRANSACTION_PAYLOAD_EVENT, b"\2\3\xfc\xff\0\0" + plain)

    def rotate(self, file: str) -> None:
        self.add(c.ROTATE_EVENT, (4).to_bytes(8, "little") + file.encode())
        self.file, self.offset = file, 4


def plan_of(table: bytes) -> TablePlan:
    names = ("d", table.decode())
    return TablePlan(len(table), 1, names, names, b"", (), COMPACT, (0,), ("id",), (0,), ("id",), (), True)


class Counted:
    """A table whose rows are held back."""

    def __init__(self, table: bytes) -> None:
        self.table = ("d", table.decode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and other.table == self.table

    def count(self, event: bytes, file: str) -> int:
        assert event[27:33].isdigit()
        return 1


def resolve(data: bytes, place: Position) -> tuple[TablePlan | Counted | None, bool]:
    """Tables x… are not migrated, and h… are held back."""
    table = data[27:]
    if table.startswith(b"h"):
        return Counted(table), False
    return (None, False) if table.startswith(b"x") else (plan_of(table), False)


def start(offset: int = 4, rows_events: int = 0, file: str = "bin.000001") -> Location:
    return Location(Position(file, offset), "", rows_events)


def tags(instructions: list[PlannerInstruction]) -> list[int]:
    found: list[int] = []
    for batch in instructions:
        if isinstance(batch, Batch):
            assert [part.order for part in batch.slices] == list(range(len(batch.slices)))
            data = [event for part in batch.slices for event, _, _ in part.events()]
            assert len(data) == batch.rows_events
            found.extend(int(event[27:33]) for event in data)
    return found


def held(instructions: list[PlannerInstruction]) -> int:
    return sum(sum(item.held.values()) for item in instructions if isinstance(item, Advance | Batch))


def held_in(log: Log) -> int:
    """The rows events after TABLE_MAPs of held back tables."""
    maps = [event.data[27:] for event in log.events if event.type == c.TABLE_MAP_EVENT]
    return sum(table == b"h" for table in maps)


def tail(log: Log, location: Location) -> list[Event]:
    """What a server sends from ``location`` on (one file)."""
    return [event for event, end in zip(log.events, log.ends, strict=True) if end > location.position.pos]


@st.composite
def logs(draw: st.DrawFn) -> tuple[Log, list[int]]:
    """Transactions of migrated tables (t, uu) and others (x, h), and the tags that must come out, in order."""
    log, wanted, tag = Log(placeless=draw(st.booleans())), [], 0
    for _ in range(draw(st.integers(0, 8))):
        table = draw(st.sampled_from([b"t", b"uu", b"x", b"h"]))
        mine = list(range(tag, tag + draw(st.integers(0, 9))))
        tag += len(mine)
        log.transaction(mine, table=table)
        if table in (b"t", b"uu"):
            wanted += mine
    return log, wanted


LIMITS = BatchLimits(batch_bytes=200, batch_events=4, slice_bytes=80)


def by_server(log: Log, server_id: int) -> list[Event]:
    """What a server sends of ``log``: the FORMAT_DESCRIPTION says that it wrote it."""
    header = HEADER.pack(0, c.FORMAT_DESCRIPTION_EVENT, server_id, 19, 0, 0)
    return [Event(0, c.FORMAT_DESCRIPTION_EVENT, server_id, 19, 0, 0, header), *log.events]


def feed(planner: Planner, events: Sequence[Event], resolving: Resolve = resolve) -> int:
    """Feeds a planner, and answers what it needs to know of tables."""
    return feed_events(planner, events, resolving)
