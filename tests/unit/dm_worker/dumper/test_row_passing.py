"""Hazard: passing over rows loses a statement, or the position of the stream."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.dumper.row_passing import RowPassing
from pkg.binlog import constants as c
from pkg.binlog.events import end_position
from pkg.binlog.streams.framing import PacketFramer
from tests.compiled import required
from tests.harness import binlog_bytes
from tests.unit.pkg.native.scan_log import Writer
from tests.unit.pkg.native.test_scan import forms, writers

scan = required("scan")
#: What is left to the reader: statements, and what is not ordinary.
Seen = list[tuple[int, bytes, int]]


def read(raw: bytes, pieces: int, *, checksum: bool, passing: RowPassing | None) -> tuple[Seen, int]:
    framer, place, seen = PacketFramer(checksummed=checksum, file="bin.000001"), 4, Seen()
    step = max(len(raw) // pieces, 1)
    for at in range(0, len(raw), step):
        framer.feed(raw[at : at + step])
        while True:
            if passing is not None:
                passing.offset = place
                taken = framer.scan(passing)
                place = passing.offset
                if taken:
                    continue
            events = framer.split(1)
            if not events:
                break
            for event in events:
                place = 4 if event.type == c.ROTATE_EVENT else end_position(place, event)
                seen.append((event.type, event.data, place))
    return seen, place


def is_left(seen: tuple[int, bytes, int]) -> bool:
    kind, data, _ = seen
    control = kind == c.QUERY_EVENT and data.rpartition(b"\0")[2] in (b"BEGIN", b"COMMIT")
    passed = {c.TABLE_MAP_EVENT, c.XID_EVENT, c.GTID_EVENT, c.ANONYMOUS_GTID_EVENT, c.MARIADB_GTID_EVENT}
    return not control and kind not in passed | {c.ROWS_QUERY_EVENT, c.MARIADB_ANNOTATE_ROWS_EVENT, *c.ROWS_EVENTS}


@settings(deadline=None)
@given(log=forms.flatmap(writers), checksum=st.booleans(), pieces=st.integers(1, 9))
def test_what_is_left_and_the_place_are_the_same(log: Writer, checksum: bool, pieces: int) -> None:
    raw = binlog_bytes.packets(log.raws(checksum))
    everything, end = read(raw, pieces, checksum=checksum, passing=None)
    left, place = read(raw, pieces, checksum=checksum, passing=RowPassing(scan.pass_rows))
    assert place == end
    assert list(filter(is_left, left)) == list(filter(is_left, everything))
    if pieces == 1:
        # Behind an event that it does not take, the reader may take one itself.
        assert len(left) <= 2 * sum(map(is_left, left))


def test_it_stops_before_what_is_damaged_or_torn() -> None:
    log = Writer()
    log.begin("mysql")
    log.word("rows", 1)
    whole = binlog_bytes.packets(log.raws(True))
    taken, offset = scan.pass_rows(whole, 0, True, True, 4)
    assert (taken, offset) == (len(whole), log.offset)
    first = len(binlog_bytes.packets(log.raws(True)[:1]))
    assert scan.pass_rows(whole[:-1], first, True, True, 4)[0] < len(whole)
    damaged = bytearray(whole)
    damaged[first + 30] ^= 1
    assert scan.pass_rows(bytes(damaged), 0, True, True, 4) == (first, log.ends[0])
    with pytest.raises(ValueError, match="out of range"):
        scan.pass_rows(whole, len(whole) + 1, True, True, 4)


def test_offsets_go_on_beyond_four_gigabytes() -> None:
    log = Writer()
    log.word("rows", 1)
    _, offset = scan.pass_rows(b"".join(log.raws(True)), 0, False, True, (1 << 32) - 10)
    assert offset == (1 << 32) + log.offset
