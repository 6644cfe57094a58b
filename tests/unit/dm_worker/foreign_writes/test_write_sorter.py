"""Hazard: a transaction of others is taken for the task's own, or the reverse; or a restart misses one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.foreign_writes.log_reading import LogReading, OtherFileError
from dm_worker.foreign_writes.suspects import RowKey, Suspects
from dm_worker.foreign_writes.write_sorter import WriteSorter
from pkg import native
from pkg.binlog import constants as c
from pkg.binlog.events import Event, end_position, event_from_bytes, parse_rotate
from pkg.binlog.position import FileIdentity, Position
from pkg.binlog.streams.framing import PacketFramer
from pkg.binlog.streams.stream import RawScan
from pkg.mysql.names import TableId
from tests.compiled import required
from tests.harness import binlog_bytes
from tests.unit.dm_worker.foreign_writes.support import FILE, MARKER, META, TargetLog, sorter, target_logs
from tests.unit.pkg.native.scan_log import Writer

scan = required("scan")
Found = list[tuple[dict[TableId, set[RowKey]], list[str]]]


def shown(found: Suspects) -> tuple[dict[TableId, set[RowKey]], list[str]]:
    return {target: writes.keys for target, writes in found.tables.items()}, found.statements


def expected(log: TargetLog, after: Position | None = None) -> Found:
    return [(tables, texts) for end, tables, texts in log.foreign if after is None or after < end]


def placed(log: TargetLog) -> Iterable[tuple[Event, Position, Position]]:
    """The events with where each begins and ends."""
    here = Position(FILE, 4)
    for event in log.log.events:
        if event.type == c.ROTATE_EVENT:
            rotate = parse_rotate(event)
            here = Position(rotate.file, rotate.position)
            continue
        end = Position(here.name, end_position(here.pos, event))
        yield event, here, end
        here = end


def sort(log: TargetLog, made: WriteSorter, start: Position, stop: int) -> Found:
    found: list[Suspects | None] = []
    for number, (event, begin, end) in enumerate(placed(log)):
        if begin < start or number >= stop:
            continue
        if begin.name != made.boundary.name:
            found.append(made.begin_file(begin))
        found.append(made.take(event, end))
    return [shown(one) for one in found if one is not None]


@settings(deadline=None)
@given(log=target_logs(), data=st.data())
def test_exactly_the_transactions_of_others_are_found_also_after_a_restart(log: TargetLog, data: st.DataObject) -> None:
    whole, start = len(log.log.events), Position(FILE, 4)
    assert sort(log, sorter(), start, whole) == expected(log)

    first, stop = sorter(), data.draw(st.integers(0, whole))
    before = sort(log, first, start, stop)
    again = sort(log, sorter(first.safe), first.safe, whole)
    assert first.safe <= first.boundary
    for one in expected(log):
        assert one in before or one in again


class Stream:
    """The bytes of a server in pieces, read as :class:`ServerStream` reads them."""

    def __init__(self, raws: list[bytes], pieces: int, *, checksum: bool) -> None:
        raw = binlog_bytes.packets(raws)
        step = max(len(raw) // pieces, 1)
        self._waiting = [raw[at : at + step] for at in range(0, len(raw), step)]
        self._framer = PacketFramer(checksummed=checksum, file=FILE)
        self.events = 0

    @property
    def file(self) -> str:
        return self._framer.file

    @property
    def is_done(self) -> bool:
        return not self._waiting

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        if scan is not None and self._framer.scan(scan):
            return []
        events = self._framer.split(max_bytes if scan is None else 1)
        self.events += len(events)
        if not events and self._waiting:
            self._framer.feed(self._waiting.pop(0))
        return events

    def close(self) -> None: ...

    def abort(self) -> None: ...


def read_all(stream: Stream, made: WriteSorter) -> Found:
    reading = LogReading(stream, made, {})
    found: Found = []
    idle = 0
    while idle < 3:
        before = (made.boundary, stream.events, stream.is_done)
        one = reading.read(0)
        if one:
            found.append(shown(one))
        idle = idle + 1 if stream.is_done and before == (made.boundary, stream.events, True) else 0
    return found


@settings(deadline=None)
@given(log=target_logs(), checksum=st.booleans(), pieces=st.integers(1, 9), compiled=st.booleans())
def test_bytes_that_are_skipped_change_nothing(log: TargetLog, checksum: bool, pieces: int, compiled: bool) -> None:
    with pytest.MonkeyPatch.context() as patched:
        if not compiled:
            patched.setattr(native, "load", lambda _: None)
        made = sorter()
        found = read_all(Stream(log.log.raws(checksum), pieces, checksum=checksum), made)
    # Transactions that arrive together are reported together.
    assert _merged(found) == _merged(expected(log))
    reference = sorter()
    sort(log, reference, Position(FILE, 4), len(log.log.events))
    if reference.boundary.name != log.log.file:
        reference.begin_file(Position(log.log.file, 4))
    assert (made.boundary, made.safe) == (reference.boundary, reference.safe)


def _merged(found: Found) -> tuple[dict[TableId, set[RowKey]], list[str]]:
    tables: dict[TableId, set[RowKey]] = {}
    for keys, _ in found:
        for target, some in keys.items():
            tables.setdefault(target, set()).update(some)
    return tables, [text for _, texts in found for text in texts]


def test_own_transactions_make_no_events_once_their_tables_are_known() -> None:
    log = TargetLog("mariadb", Writer())
    for _ in range(50):
        log.write([MARKER, ("d", "t"), ("d", "k")], [], "xid")
        log.write([("app", "t"), ("app", "t")], [], "xid")
    stream, made = Stream(log.log.raws(True), 1, checksum=True), sorter()
    assert read_all(stream, made) == []
    assert made.boundary == log.end
    # The first transaction of each kind is read event by event.
    assert stream.events <= 2


def test_a_table_of_the_task_is_looked_at_again_after_a_statement_of_it() -> None:
    log = TargetLog("mariadb", Writer())
    log.write([("app", "t")], [], "xid")
    half = len(log.log.events)
    log.write([("app", "t")], [], "xid")
    made = sorter()
    raws = log.log.raws(True)
    assert read_all(Stream(raws[:half], 1, checksum=True), made) == []
    made.known.forget()
    assert read_all(Stream(raws[half:], 1, checksum=True), made) == [({("app", "t"): {(b"000002",)}}, [])]


def test_names_are_compared_in_lower_case_where_the_target_folds_them() -> None:
    log = TargetLog("mysql", Writer())
    log.write([("D", "T")], [], "xid")
    log.write([("App", "T")], [], "xid")
    made = sorter()
    made.known.folds = True
    assert read_all(Stream(log.log.raws(True), 1, checksum=True), made) == [({("d", "t"): {(b"000001",)}}, [])]


def test_another_file_of_the_same_name_is_noticed() -> None:
    description = binlog_bytes.format_description(checksum=True)
    server_id, created = event_from_bytes(description[:-4]).server_id, event_from_bytes(description[:-4]).timestamp
    known = {FILE: FileIdentity(FILE, server_id, created)}
    LogReading(Stream([description], 1, checksum=True), sorter(), known).read(0)
    reading = LogReading(Stream([description], 1, checksum=True), sorter(), {FILE: FileIdentity(FILE, 99, created)})
    reading.read(0)
    with pytest.raises(OtherFileError, match="another one"):
        reading.read(0)


def pass_known(raw: bytes, pos: int, own: bytes, others: bytes) -> Any:
    return scan.pass_known(raw, pos, True, True, 4, 4, False, False, own, others)


@pytest.mark.parametrize("cut", [lambda raw: raw[:-1], lambda raw: raw[:40] + bytes([raw[40] ^ 1]) + raw[41:]])
def test_what_is_torn_or_damaged_is_left_to_the_reader(cut: Callable[[bytes], bytes]) -> None:
    log = TargetLog("mysql", Writer())
    log.write([MARKER], [], "xid")
    raw = binlog_bytes.packets(log.log.raws(True))
    own = b"\0\0\x07dm_meta\0\x0ft_syncer_marker\0"
    after, offset, boundary, in_own, inside = pass_known(raw, 0, own, b"")
    assert (after, offset, boundary, in_own, inside) == (len(raw), log.end.pos, log.end.pos, False, False)
    after, _, boundary, _, _ = pass_known(cut(raw), 0, own, b"")
    assert after < len(raw)
    assert boundary == 4
    with pytest.raises(ValueError, match="out of range"):
        pass_known(raw, len(raw) + 1, own, b"")


def test_a_name_that_is_a_part_of_a_known_one_is_not_known() -> None:
    log = TargetLog("mysql", Writer())
    log.write([(META, "t_syncer_marke")], [], "xid")
    raw = binlog_bytes.packets(log.log.raws(True))
    for names in (b"\0\0\x07dm_meta\0\x0ft_syncer_marker\0", b"\0\0\x08xdm_meta\0\x0et_syncer_marke\0"):
        assert pass_known(raw, 0, b"", names)[0] < len(raw)


@pytest.mark.parametrize("names", [b"", b"\x01", b"\x01d\0", b"\x01d\0\x01t", b"\xffd\0\x01t\0"])
def test_a_torn_table_map_is_left_to_the_reader(names: bytes) -> None:
    log = Writer()
    log.add(c.TABLE_MAP_EVENT, bytes(8) + names)
    raw = binlog_bytes.packets(log.raws(True))
    assert pass_known(raw, 0, b"\0\0" + names, b"\0\0" + names)[0] == 0
