"""Hazard: the compiled scan gives other batches, positions or GTID sets than the planner in Python."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import struct
import threading
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import BatchLimits
from dm_worker.syncer.planning.event_buffer import PythonEventBuffer
from dm_worker.syncer.planning.gtid_tracker import ExecutedGtids
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement
from dm_worker.syncer.planning.planner import Planner
from pkg.binlog import constants as c
from pkg.binlog.position import Location
from pkg.binlog.streams.framing import DumpEnded, FileFramer, PacketFramer, ServerErrorPacket
from pkg.errors import DMError
from tests.compiled import required
from tests.harness import binlog_bytes
from tests.sweeps import examples
from tests.unit.dm_worker.syncer.planning.support import feed, start
from tests.unit.pkg.native.scan_log import WORDS, Writer

scan = required("scan")


@st.composite
def writers(draw: st.DrawFn, form: str) -> Writer:
    log = Writer(placeless=draw(st.booleans()))
    tags = itertools.count()
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["rows", "rows", "rows", "rows", "ddl", "rotate", "other", "standalone"]))
        if kind == "ddl":
            log.query(b"ALTER TABLE t ADD c INT")
        elif kind == "standalone" and form == "mariadb":
            log.begin(form, flags=1, extra=draw(st.sampled_from([0, 2])))
            log.query(b"DROP TABLE t")
        elif kind == "rotate":
            log.rotate(f"bin.{len(log.events) + 2:06}")
        elif kind == "other":
            log.add(draw(st.sampled_from([c.STOP_EVENT, c.MARIADB_ANNOTATE_ROWS_EVENT])), bytes(8))
        else:
            log.begin(form, flags=draw(st.sampled_from([0, 2, 8])) if form == "mariadb" else 0)
            words = draw(st.lists(st.sampled_from(WORDS), max_size=7))
            for word in words:
                log.word(word, next(tags))
            if "savepoint" in words and draw(st.booleans()):
                log.word("back", 0)
            end = draw(st.sampled_from(["xid", "xid", "xid", "commit", "rollback"]))
            when = draw(st.integers(0, 200))
            if end == "xid":
                log.add(c.XID_EVENT, bytes(8), timestamp=when)
            else:
                log.query(end.upper().encode())
    return log


forms = st.shared(st.sampled_from(["mysql", "anonymous", "mariadb", "none"]), key="form")


class Side:
    """A planner with its framer, fed with the same bytes as the other."""

    def __init__(
        self,
        framer: PacketFramer | FileFramer,
        form: str,
        limits: BatchLimits,
        *,
        compiled: bool,
        limit: Location | None = None,
    ) -> None:
        self.framer = framer
        self.error: DMError | None = None
        flavor = "mariadb" if form == "mariadb" else "mysql"
        self.planner = Planner(
            start(),
            gtids=ExecutedGtids(flavor, "") if form != "none" else None,
            limits=limits,
            limit=limit,
            buffer=scan.EventBuffer() if compiled else PythonEventBuffer(),
        )
        self.scanned = 0

    def feed(self, chunk: bytes) -> None:
        self.framer.feed(chunk)
        try:
            while self.error is None and not self.planner.reached and (self._scan() or self._split()):
                pass
        except DMError as exc:
            self.error = exc

    def _scan(self) -> bool:
        before = self.planner.progress.bytes_read
        found = self.planner.can_scan and self.framer.scan(self.planner.scan)
        self.scanned += self.planner.progress.bytes_read - before
        return found

    def _split(self) -> bool:
        events = self.framer.split(1)
        assert feed(self.planner, events) == len(events) or self.planner.reached
        if self.planner.out and isinstance(self.planner.out[-1], BinlogStatement):
            self.planner.forget_tables()
        return bool(events)

    def look(self) -> object:
        planner, progress = self.planner, self.planner.progress
        return (
            progress.location, progress.read_to, progress.newest, progress.bytes_read, progress.has_rows,
            progress.has_pending, progress.oldest_commit, progress.waiting_bytes, planner.out,
            self.error and self.error.message,
        )  # fmt: skip


def _sides(
    log: Writer, form: str, limits: BatchLimits, packets: bool, checksum: bool, limit: Location | None = None
) -> tuple[bytes, Side, Side]:
    if packets:
        raw = binlog_bytes.packets(log.raws(checksum))
        framers: list[Any] = [PacketFramer(checksummed=checksum), PacketFramer(checksummed=checksum)]
    else:
        raw = b"".join(log.raws(checksum))
        framers = [FileFramer(file="bin.000001"), FileFramer(file="bin.000001")]
        for framer in framers:
            framer.checksummed = checksum
    fast = Side(framers[0], form, limits, compiled=True, limit=limit)
    return raw, fast, Side(framers[1], form, limits, compiled=False, limit=limit)


@given(
    forms.flatmap(writers), forms, st.lists(st.integers(0, 5000), max_size=6), st.booleans(), st.booleans(),
    st.sampled_from([BatchLimits(), BatchLimits(200, 4, 80), BatchLimits(120, 3, 1), BatchLimits(10**9, 2, 10**9)]),
    st.integers(0, 7),
)  # fmt: skip
@settings(max_examples=examples(300))
def test_compiled_scan_plans_as_the_planner_in_python(
    log: Writer, form: str, cuts: list[int], packets: bool, checksum: bool, limits: BatchLimits, close: int
) -> None:
    raw, fast, slow = _sides(log, form, limits, packets, checksum)
    points = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    for number, (low, high) in enumerate(itertools.pairwise(points)):
        for side in (fast, slow):
            side.feed(raw[low:high])
            if number % 8 == close:
                side.planner.close()
        assert fast.look() == slow.look()
    for side in (fast, slow):
        side.planner.close()
    assert fast.look() == slow.look()


@given(forms.flatmap(writers), forms, st.booleans(), st.booleans(), st.integers(0, 100))
@settings(max_examples=examples(200))
def test_a_pass_ends_at_its_limit_by_scan_too(
    log: Writer, form: str, packets: bool, checksum: bool, chosen: int
) -> None:
    limits = BatchLimits(200, 4, 80)
    raw, _, whole = _sides(log, form, limits, packets, checksum)
    whole.feed(raw)
    whole.planner.close()
    ends = [item.location if isinstance(item, Advance) else item.end for item in whole.planner.out]
    ends = [end for end in ends if not end.rows_events]
    if not ends:
        return
    limit = ends[chosen % len(ends)]
    _, fast, slow = _sides(log, form, limits, packets, checksum, limit)
    for side in (fast, slow):
        side.feed(raw)
        assert side.planner.reached or side.error
    assert fast.look() == slow.look()


@pytest.mark.parametrize("placeless", [False, True])
def test_ordinary_stretches_never_reach_the_planner(placeless: bool) -> None:
    """All is scanned but the first TABLE_MAP of each table and file: the speed rests on that."""
    log = Writer(placeless=placeless)
    for _ in range(50):
        log.begin("mariadb")
        log.word("note", 0)
        log.word("rows", 1)
        log.word("filtered", 2)
        log.add(c.XID_EVENT, bytes(8))
    raw, fast, slow = _sides(log, "mariadb", BatchLimits(), True, True)
    fast.feed(raw)
    slow.feed(raw)
    first = [event.size for event in log.events if event.type == c.TABLE_MAP_EVENT][:2]
    assert fast.scanned == len(b"".join(log.raws(True))) - sum(first)
    fast.planner.close()
    slow.planner.close()
    assert fast.look() == slow.look()
    assert [type(item) for item in fast.planner.out] == [Batch]


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_byte_is_no_event(at: int, flip: int) -> None:
    log = Writer()
    for tag in range(3):
        log.begin("mariadb")
        log.word("rows", tag)
        log.add(c.XID_EVENT, bytes(8))
    raw = bytearray(binlog_bytes.packets(log.raws(True)))
    raw[at % len(raw)] ^= flip
    _, fast, slow = _sides(log, "mariadb", BatchLimits(), True, True)
    for side in (fast, slow):
        try:
            side.feed(bytes(raw))
        except (DumpEnded, ServerErrorPacket):
            side.planner.close()
        side.planner.close()
    assert fast.look() == slow.look()
    assert all(isinstance(item, Batch | Advance) for item in fast.planner.out)


@given(st.binary(max_size=400), st.booleans(), st.booleans())
@settings(max_examples=examples(300))
def test_no_bytes_are_read_out_of_bounds(raw: bytes, packets: bool, checksum: bool) -> None:
    buffer = scan.EventBuffer()
    pos, why = buffer.scan(raw, 0, packets, checksum, 1 << 20, 1 << 20)
    assert 0 <= pos <= len(raw)
    assert why in (0, 1, 2)


@given(st.binary(max_size=300), st.integers(0, 0xFFFFFFFF))
def test_checksum_is_zlib_s(data: bytes, first: int) -> None:
    assert scan.crc32(data, first) == zlib.crc32(data, first)


def test_thousands_of_gtid_runs_are_fetched_in_time() -> None:
    """Several sources in turn make a run each; the room for them is bounded."""
    log = Writer()
    for number in range(9000):
        source = struct.pack(">QQ", 1, number % 20)
        log.add(c.GTID_EVENT, b"\1" + source + struct.pack("<Q", 1 + number // 20) + bytes(18))
        log.query(b"BEGIN")
        log.add(c.XID_EVENT, bytes(8))
    raw, fast, slow = _sides(log, "mysql", BatchLimits(), True, True)
    fast.feed(raw)
    slow.feed(raw)
    assert fast.look() == slow.look()
    assert fast.planner.progress.location.gtid_set.count("1-450") == 20


def test_misuse_is_an_error_and_no_crash() -> None:
    buffer = scan.EventBuffer()
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("scan", (b"", 1, True, True, 1, 1)), ("truncate", (1,)), ("cut", (-1,)), ("table", (b"short",)),
        ("set_table", (b"short", b"", 1)), ("begin_gtid", (b"123", 1)),
        ("begin_gtid", (bytes(49), 1)),
    ]  # fmt: skip
    for name, args in calls:
        with pytest.raises(ValueError, match=r"scan|events|table id|source"):
            getattr(buffer, name)(*args)
    buffer.append(1, b"event", 0)
    with pytest.raises(TypeError):
        buffer.slices(1, 1, ["first"])


def test_an_event_of_4_gib_is_refused_before_it_is_read() -> None:
    buffer = scan.EventBuffer()
    with mmap.mmap(-1, 1 << 32) as huge, pytest.raises(OverflowError, match="4 GiB"):
        buffer.append(1, huge, 0)
    assert (buffer.count, buffer.size) == (0, 0)


def test_a_tape_that_is_being_filled_is_left_alone() -> None:
    """The scan runs beside other threads: one that came in between would use memory that moves."""
    log = Writer()
    log.add(c.ANONYMOUS_GTID_EVENT, bytes(5))
    raw = b"".join(log.raws(False)) * 3_000_000
    missed = _not_refused(raw)
    # On a busy machine a scan may be over before this thread has its turn.
    for _ in range(50):
        if missed:
            missed &= _not_refused(raw)
    assert not missed


def _not_refused(raw: bytes) -> set[str]:
    """Which uses of an event buffer were not refused in the course of one scan of ``raw``."""
    buffer = scan.EventBuffer()
    thread = threading.Thread(target=buffer.scan, args=(raw, 0, False, False, 1 << 40, 1 << 40))
    refused: set[str] = set()
    uses: dict[str, Callable[[], object]] = {
        "scan": lambda: buffer.scan(raw, len(raw), False, False, 1, 1),
        "begin_gtid": lambda: buffer.begin_gtid(b"", 0),
        "append": lambda: buffer.append(1, b"event", 0),
        "take_gtids": buffer.take_gtids,
    }
    thread.start()
    while thread.is_alive() and len(refused) < len(uses):
        for name, use in uses.items():
            with contextlib.suppress(RuntimeError):
                use()
                continue
            refused.add(name)
    thread.join()
    return uses.keys() - refused
