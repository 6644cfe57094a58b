"""Hazard: the way the network cuts bytes changes the events, or damage passes without an error with the position."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkg import errors
from pkg.binlog import events as ev
from pkg.binlog.streams.framing import DumpEnded, PacketFramer, ServerErrorPacket
from pkg.errors import Code
from tests.harness import binlog_bytes
from tests.sweeps import examples
from tests.unit.pkg.binlog.file_stream import FileStream

bodies = st.lists(st.tuples(st.sampled_from([2, 16, 19, 23, 162, 160]), st.binary(max_size=60)), max_size=8)


def _feed(framer: PacketFramer, stream: bytes, cuts: list[int], max_bytes: int = 1 << 30) -> list[ev.Event]:
    found: list[ev.Event] = []
    points = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    for start, stop in itertools.pairwise(points):
        framer.feed(stream[start:stop])
        while events := framer.split(max_bytes):
            found += events
    return found


@given(bodies, st.lists(st.integers(0, 2000)), st.booleans(), st.integers(1, 400))
def test_cuts_of_the_network_do_not_matter(
    parts: list[tuple[int, bytes]], cuts: list[int], checksum: bool, max_bytes: int
) -> None:
    raws = [binlog_bytes.raw(kind, body, checksum=checksum, log_pos=n + 1) for n, (kind, body) in enumerate(parts)]
    start = [binlog_bytes.rotate(b"b.000007", checksum=checksum), binlog_bytes.format_description(checksum=checksum)]
    framer = PacketFramer(checksummed=checksum)
    found = _feed(framer, binlog_bytes.packets([*start, *raws]), cuts, max_bytes)
    assert [event.type for event in found] == [4, 15, *(kind for kind, _ in parts)]
    assert [event.data[19:] for event in found[2:]] == [body for _, body in parts]
    assert [event.log_pos for event in found[2:]] == [n + 1 for n in range(len(parts))]
    assert framer.file == "b.000007"


@given(st.integers(0, 3), st.integers(-2, 2), st.booleans())
@settings(max_examples=examples(20))
def test_events_of_several_packets_are_joined(whole: int, more: int, checksum: bool) -> None:
    """Sizes around multiples of 16 MiB - 1, where a last empty packet follows, and plain ones in between."""
    size = max(whole * 0xFFFFFF - 1 + more, 30)
    body = bytes(size - 19 - (4 if checksum else 0))
    stream = binlog_bytes.packets(
        [binlog_bytes.raw(23, body, checksum=checksum), binlog_bytes.raw(16, bytes(8), checksum=checksum)]
    )
    found = _feed(PacketFramer(checksummed=checksum), stream, list(range(0, len(stream), 1 << 20)))
    assert [(event.type, len(event.data) - 19) for event in found] == [(23, len(body)), (16, 8)]


def test_checksums_follow_the_format_description() -> None:
    plain, summed = binlog_bytes.raw(16, bytes(8)), binlog_bytes.raw(16, bytes(8), checksum=True)
    raws = [
        binlog_bytes.format_description(checksum=True),
        summed,
        binlog_bytes.format_description(checksum=False),
        plain,
    ]
    found = _feed(PacketFramer(checksummed=False), binlog_bytes.packets(raws), [])
    assert [len(event.data) for event in found if event.type == 16] == [27, 27]


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_byte_is_found(at: int, flip: int) -> None:
    first = binlog_bytes.raw(16, bytes(8), checksum=True, log_pos=50)
    second = bytearray(binlog_bytes.raw(2, b"x" * 50, checksum=True, log_pos=123))
    # The event's length decides what is read at all; everything else is covered by the checksum.
    at = at % len(second)
    if 9 <= at < 13:
        return
    second[at] ^= flip
    framer = PacketFramer(checksummed=True, file="b.000007")
    framer.feed(binlog_bytes.packets([first, bytes(second)]))
    assert len(framer.split(1 << 20)) == 1, "the event before the damage is still good"
    with pytest.raises(errors.DMError) as caught:
        framer.split(1 << 20)
    assert caught.value.kind is Code.BinlogParseSingleEv or at == 4
    assert "b.000007" in caught.value.message


def test_server_error_comes_after_the_events_before_it() -> None:
    framer = PacketFramer(checksummed=False)
    body = b"\xff" + struct.pack("<H", 1236) + b"#HY000Could not find first log file name"
    framer.feed(binlog_bytes.packets([binlog_bytes.raw(16, bytes(8))]) + len(body).to_bytes(3, "little") + b"\1" + body)
    assert [event.type for event in framer.split(1 << 20)] == [16]
    for _ in range(2):
        with pytest.raises(ServerErrorPacket) as caught:
            framer.split(1 << 20)
        assert (caught.value.code, caught.value.sql_state) == (1236, "HY000")
        assert caught.value.text == "Could not find first log file name"


def test_orderly_end_is_distinguished() -> None:
    framer = PacketFramer(checksummed=False)
    framer.feed(b"\x05\0\0\x01\xfe\0\0\x02\0")
    with pytest.raises(DumpEnded):
        framer.split(1 << 20)


def test_nothing_to_split_is_no_error() -> None:
    framer = PacketFramer(checksummed=False)
    assert framer.split(1 << 20) == []
    framer.feed(b"\x1c\0")
    assert framer.split(1 << 20) == []


def _write(path: Path, raws: list[bytes]) -> Path:
    path.write_bytes(b"\xfebin" + b"".join(raws))
    return path


def _read_all(stream: FileStream) -> tuple[list[ev.Event], errors.DMError]:
    found: list[ev.Event] = []
    while True:
        try:
            found += stream.read(100, 0)
        except errors.DMError as exc:
            return found, exc


def test_file_from_the_middle_knows_its_format(tmp_path: Path) -> None:
    head = binlog_bytes.format_description(checksum=True)
    raws = [binlog_bytes.raw(16, bytes([n]) * 8, checksum=True) for n in range(5)]
    path = _write(tmp_path / "b.000003", [head, *raws])
    found, end = _read_all(FileStream(path, offset=4 + len(head) + 2 * len(raws[0])))
    assert [event.data[19] for event in found[1:]] == [2, 3, 4]
    assert found[0].type == 15
    assert end.kind is Code.ReaderReachEndOfFile


def test_torn_tail_names_file_and_offset(tmp_path: Path) -> None:
    head, one = binlog_bytes.format_description(checksum=True), binlog_bytes.raw(16, bytes(8), checksum=True)
    path = _write(tmp_path / "b.000003", [head, one, one[:-3]])
    found, end = _read_all(FileStream(path))
    assert len(found) == 2
    assert end.kind is Code.BinlogParseSingleEv
    assert f"offset {4 + len(head) + len(one)}" in end.message
    assert "b.000003" in end.message


@pytest.mark.parametrize(("content", "word"), [(b"\xfdbin", "encrypted"), (b"text", "begin"), (b"", "begin")])
def test_other_files_are_refused(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "b.1").write_bytes(content)
    with pytest.raises(errors.DMError, match=word) as caught:
        FileStream(tmp_path / "b.1")
    assert caught.value.kind is Code.BinlogFileNotValid


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.DMError) as caught:
        FileStream(tmp_path / "none")
    assert caught.value.kind is Code.BinlogFileNotValid


def test_aborted_file_stops(tmp_path: Path) -> None:
    stream = FileStream(_write(tmp_path / "b.1", [binlog_bytes.format_description(checksum=False)]))
    stream.abort()
    with pytest.raises(errors.DMError) as caught:
        stream.read(1, 0)
    assert caught.value.kind is Code.SyncClosed
    stream.close()
    stream.close()


def test_small_events_after_a_big_one_do_not_wait() -> None:
    """What the big event needed must not hold back the ones after it."""
    big, small = (
        binlog_bytes.packets([binlog_bytes.raw(23, bytes(10_000))]),
        binlog_bytes.packets([binlog_bytes.raw(16, bytes(8))]),
    )
    framer = PacketFramer(checksummed=False)
    framer.feed(big[:5000])
    assert framer.split(1) == []
    framer.feed(big[5000:] + small)
    assert [event.type for event in framer.split(1) + framer.split(1)] == [23, 16]
    framer.feed(small)
    assert [event.type for event in framer.split(1)] == [16]
