"""Hazard: the relay's files differ from the upstream's after events that are extra, missing, repeated or split."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.relay.layout import RelayDir, RelayMeta
from dm_worker.relay.readable_end import ReadableEnd, RelayLogEnd
from dm_worker.relay.recovery import recover
from dm_worker.relay.relay_writer import PIECE, BlockCounts, RelayWriter
from dm_worker.relay.scan import Scanned
from dm_worker.relay.stream_follower import LARGEST_DUMMY, StreamFollower, dummies, dummy, nearest, smallest_dummy
from pkg.binlog.streams.framing import RawFramer
from pkg.errors import Code, DMError
from tests.harness import binlog_bytes
from tests.sweeps import examples
from tests.unit.dm_worker.relay.server_files import MAGIC, Upstream, Work, fake_rotate, files_of_works, sent
from tests.unit.pkg.binlog.file_stream import FileStream

flavors = st.sampled_from(["mysql", "mariadb"])
SERVER_ID = 7
ONE = [Work("dml", 0, (10,)), Work("ddl", 0, (1,)), Work("dml", 0, (20, 30))]


@contextmanager
def writer(flavor: str, gtid_set: str = "") -> Iterator[RelayWriter]:
    with tempfile.TemporaryDirectory() as folder:
        subdir = RelayDir(Path(folder)).create_subdir("uuid", RelayMeta("", 4, gtid_set))
        made = RelayWriter(subdir, StreamFollower(flavor=flavor, gtid_set=gtid_set), ReadableEnd(), BlockCounts())
        try:
            yield made
        finally:
            made.abandon()


def receive(made: RelayWriter, events: list[bytes], *, piece: int = 1 << 20, blocks: bool = True) -> None:
    """One connection, its bytes in pieces of ``piece``; ``blocks``: through the scan."""
    made.connected(SERVER_ID)
    framer = RawFramer(checksummed=False)
    stream = binlog_bytes.packets(events)
    for at in range(0, len(stream), piece):
        framer.feed(stream[at : at + piece])
        while True:
            if blocks and framer.scan(made.take):
                made.publish()
                continue
            taken = framer.split(1)
            if not taken:
                break
            made.event(taken[0].data)
            made.publish()


def read_to_the_end(stream: FileStream) -> None:
    while True:
        stream.read(1 << 20, 0)


def written(made: RelayWriter) -> dict[str, bytes]:
    return {name: (made.subdir.path / name).read_bytes() for name in made.subdir.files()}


@settings(max_examples=examples(60))
@given(
    flavor=flavors, checksum=st.booleans(), placeless=st.booleans(), contents=files_of_works,
    piece=st.integers(1, 400), blocks=st.booleans(), odd=st.booleans(),
)  # fmt: skip
def test_files_equal_the_upstreams(
    *, flavor: str, checksum: bool, placeless: bool, contents: list[list[Work]], piece: int, blocks: bool, odd: bool
) -> None:
    upstream = Upstream(flavor, checksum, contents, placeless=placeless)
    with writer(flavor) as made:
        # Made-up ROTATEs follow the server's settings, not the file's.
        receive(made, sent(upstream, "", 4, checksum_of_fake=odd), piece=piece, blocks=blocks)
        assert written(made) == {file.name: file.data for file in upstream.files}
        assert str(made.follower.gtids) == str(upstream.executed)
        assert made.follower.boundary == len(upstream.files[-1].data)


def test_blocks_are_written_in_short_pieces_whatever_the_system_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long write costs several times the CPU; one that is cut short by the system goes on."""
    lengths: list[int] = []
    write = os.write

    def cut_short(descriptor: int, data: memoryview) -> int:
        lengths.append(len(data))
        return write(descriptor, data[: max(1, len(data) - 7)])

    upstream = Upstream("mysql", True, [[Work("dml", 0, (300_000, 50_000))]])
    with writer("mysql") as made:
        monkeypatch.setattr(os, "write", cut_short)
        receive(made, sent(upstream, "", 4))
        monkeypatch.undo()
        assert written(made) == {file.name: file.data for file in upstream.files}
    assert max(lengths) == PIECE


@settings(max_examples=examples(60))
@given(flavors, st.booleans(), st.booleans(), files_of_works, st.lists(st.floats(0, 1), max_size=4), st.booleans())
def test_connections_that_break_anywhere_leave_no_trace(
    flavor: str, checksum: bool, placeless: bool, contents: list[list[Work]], breaks: list[float], restart: bool
) -> None:
    upstream = Upstream(flavor, checksum, contents, placeless=placeless)
    first = upstream.files[0].name
    with writer(flavor) as made:
        current = made
        for part in [*sorted(breaks), 1.0]:
            follower = current.follower
            events = sent(upstream, follower.file or first, max(follower.boundary, 4))
            receive(current, events[: round(len(events) * part)])
            if restart:
                current.abandon()
                recovered = recover(current.subdir, flavor=flavor)
                assert str(recovered.gtids) == str(follower.gtids)
                # A file that was only begun is started again.
                assert not follower.begun or (recovered.file, recovered.boundary) == (follower.file, follower.boundary)
                current = RelayWriter(current.subdir, recovered, ReadableEnd(), BlockCounts())
        assert written(current) == {file.name: file.data for file in upstream.files}
        assert str(current.follower.gtids) == str(upstream.executed)
        current.abandon()


@settings(max_examples=examples(60))
@given(flavors, st.booleans(), st.booleans(), files_of_works, st.data())
def test_holes_keep_every_event_in_its_position(
    flavor: str, checksum: bool, placeless: bool, contents: list[list[Work]], data: st.DataObject
) -> None:
    """A server leaves out what a GTID set has, and MariaDB the annotations when nobody asks for them."""
    upstream = Upstream(flavor, checksum, contents, placeless=placeless)
    events = sent(upstream, "", 4)
    # Events that name no end may have the same bytes in several places.
    skipped: set[int] = set()
    for file in upstream.files:
        for numbers in file.transactions:
            if data.draw(st.booleans()):
                skipped.update(id(file.events[number]) for number in numbers)
    with writer(flavor) as made:
        receive(made, [event for event in events if id(event) not in skipped])
        for name, found in written(made).items():
            (file,) = [file for file in upstream.files if file.name == name]
            assert len(found) <= len(file.data)
            for at, event in zip(file.starts(), file.events, strict=True):
                if id(event) not in skipped:
                    assert found[at : at + len(event)] == event
            # Readers find whole events with right checksums, and nothing between them.
            stream = FileStream(made.subdir.path / name)
            with pytest.raises(DMError) as end:
                read_to_the_end(stream)
            assert end.value.kind is Code.ReaderReachEndOfFile
            stream.close()


@settings(max_examples=examples(60))
@given(flavors, st.booleans(), files_of_works)
def test_readers_see_whole_transactions_only(flavor: str, placeless: bool, contents: list[list[Work]]) -> None:
    upstream = Upstream(flavor, True, contents, placeless=placeless)
    ends = {file.name: {offset for offset, _ in file.boundaries} for file in upstream.files}
    with writer(flavor) as made:
        seen: list[RelayLogEnd] = []

        class Watched(ReadableEnd):
            def moved(self, subdir: str, file: str, size: int) -> None:
                seen.append(RelayLogEnd(subdir, file, size))
                # What a reader is notified of is in the file already.
                assert (made.subdir.path / file).stat().st_size >= size

        made._readable_end = Watched()
        receive(made, sent(upstream, "", 4), piece=60)
        assert all(end.size in ends[end.file] for end in seen)
        assert seen[-1] == RelayLogEnd("uuid.000001", upstream.files[-1].name, len(upstream.files[-1].data))


def test_messages_name_the_position_of_an_event_that_does_not() -> None:
    """What MariaDB 11.8 sends is damaged on the way."""
    upstream = Upstream("mariadb", True, [ONE], placeless=True)
    (file,) = upstream.files
    events = sent(upstream, "", 4)
    at = next(number for number, event in enumerate(events) if event[4] == 19)
    broken = bytearray(events[at])
    broken[30] ^= 4
    place = file.starts()[at - 1] + len(broken)
    with writer("mariadb") as made, pytest.raises(DMError, match=rf"ends at \({file.name}, {place}\)"):
        receive(made, [*events[:at], bytes(broken), *events[at + 1 :]])


def test_another_file_of_the_same_name_is_found_out() -> None:
    """The upstream was reset, and its new file is longer than the old one was."""
    upstream = Upstream("mysql", True, [ONE])
    with writer("mysql") as made:
        receive(made, sent(upstream, "", 4))
        again = sent(upstream, "", made.follower.boundary)
        later = bytearray(again[1])
        later[:4] = struct.pack("<I", 1_800_000_000)
        later[-4:] = struct.pack("<I", crc32(bytes(later[:-4])))
        with pytest.raises(DMError, match="another file") as caught:
            receive(made, [again[0], bytes(later), *again[2:]])
        assert caught.value.kind is Code.RelayCheckIsDuplicateEvent
        assert not caught.value.retryable


def test_what_is_sent_again_must_be_what_is_here() -> None:
    upstream = Upstream("mysql", True, [ONE])
    other = Upstream("mysql", True, [[Work("dml", 1, (10,)), *ONE[1:]]])
    with writer("mysql") as made:
        receive(made, sent(upstream, "", 4))
        receive(made, sent(upstream, "", 4))
        assert written(made) == {"bin.000001": upstream.files[0].data}
        with pytest.raises(DMError, match="has a different event") as caught:
            receive(made, sent(other, "", 4))
        assert caught.value.kind is Code.RelayCheckIsDuplicateEvent
        assert written(made) == {"bin.000001": upstream.files[0].data}


def test_a_stream_of_another_server_is_not_followed() -> None:
    upstream = Upstream("mysql", True, [ONE])
    with writer("mysql") as made:
        made.connected(SERVER_ID + 1)
        with pytest.raises(DMError) as caught:
            made.event(fake_rotate(upstream.files[0].name))
        assert caught.value.kind is Code.RotateEventWithDifferentServerID
        assert caught.value.retryable


@pytest.mark.parametrize("at", [0, 30, -1])
def test_damage_on_the_way_is_fetched_again(at: int) -> None:
    upstream = Upstream("mariadb", True, [ONE])
    events = sent(upstream, "", 4)
    broken = bytearray(events[8])
    broken[at] ^= 4
    with writer("mariadb") as made:
        with pytest.raises(DMError) as caught:
            receive(made, [*events[:8], bytes(broken), *events[9:]])
        assert caught.value.retryable
        receive(made, sent(upstream, made.follower.file, made.follower.boundary))
        assert written(made) == {"bin.000001": upstream.files[0].data}


def test_a_full_disk_leaves_what_was_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Upstream("mysql", True, [ONE])
    with writer("mysql") as made:
        with monkeypatch.context() as patch:
            patch.setattr("os.write", _small_disk(len(upstream.files[0].data) - 30))
            with pytest.raises(DMError, match="No space left") as caught:
                receive(made, sent(upstream, "", 4), piece=50)
        assert caught.value.kind is Code.RelayWriterFileOperate
        assert made.torn
        made.abandon()
        follower = recover(made.subdir, flavor="mysql")
        assert follower.boundary == upstream.files[0].boundaries[-2][0]


def _small_disk(left: int) -> Callable[[int, bytes], int]:
    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        nonlocal left
        if left <= 0:
            raise OSError(28, "No space left on device")
        count = real(descriptor, data[:left])
        left -= count
        return count

    return write


@given(st.integers(4, 1 << 40), st.integers(-(1 << 31) + 1, (1 << 31) - 1))
def test_offsets_beyond_4_gib_are_found_from_32_bits(expected: int, away: int) -> None:
    if expected + away >= 0:
        assert nearest(expected, (expected + away) & 0xFFFFFFFF) == expected + away


@pytest.mark.parametrize("end", [(1 << 32) - 100, 1 << 32, (1 << 32) + 100])
def test_a_file_grows_beyond_4_gib(end: int) -> None:
    """Also with an event that ends exactly there: its end reads 0, as if the server had made it up."""
    upstream = Upstream("mysql", True, [ONE])
    events = sent(upstream, "", 4)
    follower = StreamFollower(flavor="mysql")
    follower.connected(SERVER_ID)
    for event in events[:3]:
        follower.event(event)
    query = binlog_bytes.raw(2, b"\0" * 50, checksum=True, log_pos=end & 0xFFFFFFFF)
    # As if one transaction had filled the file so far.
    follower.scanned(Scanned(0, b"", 0, end - len(query), None, []), end - len(query) - follower.size)
    decision = follower.event(query)
    assert (decision.data, decision.hole) == (query, 0)
    assert follower.size == follower.boundary == end
    after = binlog_bytes.raw(2, b"\0" * 50, checksum=True, log_pos=(end + 73) & 0xFFFFFFFF)
    assert len(after) == 73
    assert follower.event(after).hole == 0
    assert follower.size == end + 73


@given(st.integers(23, 5 * LARGEST_DUMMY), st.booleans())
def test_dummies_fill_a_hole_exactly(size: int, checksummed: bool) -> None:
    sizes = dummies(size, checksummed)
    assert sum(sizes) == size
    assert all(smallest_dummy(checksummed) <= part <= LARGEST_DUMMY for part in sizes)


def test_a_dummy_says_nothing_and_is_whole() -> None:
    for checksummed in (False, True):
        data = dummy(5 << 32 | 1000, 40, checksummed, 7)
        assert len(data) == 40
        _, kind, server, size, log_pos, flags = struct.unpack_from("<IBIIIH", data)
        assert (kind, server, size, log_pos, flags) == (28, 7, 40, 1000, 0x80)
        if checksummed:
            assert crc32(data[:-4]) == struct.unpack("<I", data[-4:])[0]


def test_a_hole_too_small_for_an_event_is_an_error() -> None:
    upstream = Upstream("mysql", True, [ONE])
    events = sent(upstream, "", 4)
    shifted = binlog_bytes.raw(16, bytes(8), checksum=True, log_pos=len(upstream.files[0].events[0]) + 4 + 31 + 5)
    with writer("mysql") as made:
        with pytest.raises(DMError) as caught:
            receive(made, [*events[:2], shifted])
        assert caught.value.kind is Code.BinlogDummyEvSizeTooSmall
        assert written(made)["bin.000001"] == MAGIC + upstream.files[0].events[0]
