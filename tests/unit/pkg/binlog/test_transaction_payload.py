"""Hazards: a compressed transaction loses, doubles or reorders events, eats memory, or hides its damage."""

from __future__ import annotations

import itertools
import struct
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.events import Event, event_from_bytes
from pkg.binlog.streams.stream import RawScan
from pkg.binlog.streams.transaction_payload import ExpandingStream, TransactionPayload
from pkg.errors import Code
from tests.harness import binlog_bytes

inner_events = st.lists(st.tuples(st.sampled_from([2, 16, 19, 29, 30, 31]), st.binary(max_size=60)), max_size=6)


def _packed(number: int) -> bytes:
    return bytes([number]) if number < 251 else b"\xfe" + struct.pack("<Q", number)


def _field(kind: int, value: int) -> bytes:
    return _packed(kind) + _packed(len(_packed(value))) + _packed(value)


def payload(inner: bytes, *, algorithm: int = 0, size: int = -1, body: bytes = b"", tail: bytes = b"") -> bytes:
    """A TRANSACTION_PAYLOAD as MySQL 8 writes it: algorithm, plain size, compressed size, then the transaction."""
    body = body or (zstandard.compress(inner) if algorithm == 0 else inner)
    head = _field(2, algorithm) + (_field(3, len(inner) if size < 0 else size) if algorithm == 0 else b"")
    # A field that a later version may add is passed over.
    return binlog_bytes.raw(40, head + _field(1, len(body)) + _field(9, 5) + b"\0" + body + tail, log_pos=5000)


def _raws(parts: list[tuple[int, bytes]]) -> list[bytes]:
    return [binlog_bytes.raw(kind, body, log_pos=0) for kind, body in parts]


class Given:
    """A stream of prepared reads."""

    def __init__(self, reads: list[list[Event]]) -> None:
        self.file = "b.000001"
        self.closed = False
        self._reads = iter(reads)

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        events = next(self._reads, [])
        if any(event.type == 4 for event in events):
            self.file = "b.000002"
        return events

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


def _all(stream: ExpandingStream, max_bytes: int) -> list[Event]:
    found: list[Event] = []
    while events := stream.read(max_bytes, 0):
        found += events
    return found


@given(st.lists(inner_events | st.none(), max_size=6), st.sets(st.integers(0, 6)), st.integers(1, 300), st.booleans())
def test_the_stream_is_the_same_as_without_compression(
    groups: list[list[tuple[int, bytes]] | None], cuts: set[int], max_bytes: int, plain: bool
) -> None:
    """Groups are transactions; None is an event between them. However reads are cut, order and bytes are the same."""
    outer: list[Event] = []
    wanted: list[bytes] = []
    for group in groups:
        if group is None:
            outer.append(binlog_bytes.event(33, b"gtid", log_pos=77))
            wanted.append(outer[-1].data)
        else:
            raws = _raws(group)
            outer.append(event_from_bytes(payload(b"".join(raws), algorithm=255 if plain else 0)))
            wanted += raws
    points = sorted({0, len(outer), *(cut for cut in cuts if cut < len(outer))})
    reads = [outer[low:high] for low, high in itertools.pairwise(points)]
    found = _all(ExpandingStream(Given(reads)), max_bytes)
    assert [event.data for event in found] == wanted
    assert all(event.log_pos == (77 if event.type == 33 else 5000) for event in found)
    assert all(event.size == len(event.data) for event in found)


def test_inner_events_belong_to_the_file_and_are_not_artificial() -> None:
    rotate = binlog_bytes.event(4, struct.pack("<Q", 4) + b"b.000002", log_pos=6000)
    stream = ExpandingStream(Given([[event_from_bytes(payload(b"".join(_raws([(30, b"x")])))), rotate]]))
    (inner,) = stream.read(1, 0)
    assert (inner.artificial, stream.file) == (False, "b.000001")
    assert stream.read(1, 0) == [rotate]
    assert stream.file == "b.000002"


def test_what_precedes_a_damaged_payload_is_still_given_out() -> None:
    before = binlog_bytes.event(16, bytes(8))
    stream = ExpandingStream(Given([[before, event_from_bytes(payload(b"", body=b"no zstd", size=9))]]))
    assert stream.read(1, 0) == [before]
    assert binlog_bytes.error_code(lambda: stream.read(1, 0)) == 11071


def test_a_transaction_that_unpacks_to_much_is_unpacked_bit_by_bit() -> None:
    raw = binlog_bytes.raw(30, bytes(1 << 20), log_pos=0)
    packed = zstandard.ZstdCompressor().compressobj()
    body = b"".join(packed.compress(raw) for _ in range(200)) + packed.flush()
    assert len(body) < 1 << 16
    stream = ExpandingStream(Given([[event_from_bytes(payload(b"", body=body, size=200 * len(raw)))]]))
    tracemalloc.start()
    try:
        count = 0
        while events := stream.read(1 << 20, 0):
            count += len(events)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert count == 200


def test_several_frames_are_read_as_one() -> None:
    first, second = _raws([(30, bytes(500)), (31, bytes(40))])
    body = zstandard.compress(first[:300]) + zstandard.compress(first[300:] + second)
    found = TransactionPayload(event_from_bytes(payload(first + second, body=body))).read(1 << 20)
    assert [event.data for event in found] == [first, second]


@pytest.mark.parametrize(
    "damaged",
    [
        payload(binlog_bytes.raw(30, b"abc"), size=21),
        payload(binlog_bytes.raw(30, b"abc"), size=23),
        payload(binlog_bytes.raw(30, b"abc")[:-1]),
        payload(binlog_bytes.raw(30, b"abc") + bytes(7)),
        payload(binlog_bytes.raw(30, b"abc") + bytes(25)),
        payload(b"", body=zstandard.compress(binlog_bytes.raw(30, bytes(90)))[:-4], size=109),
        payload(binlog_bytes.raw(30, b"abc"), tail=b"?"),
        binlog_bytes.raw(40, _field(2, 0) + b"\0" + zstandard.compress(binlog_bytes.raw(30, b"abc"))),
        binlog_bytes.raw(40, _field(2, 0) + _field(1, 99) + b"\0"),
        binlog_bytes.raw(40, b"\xff"),
    ],
)
def test_damage_is_an_error_with_its_position(damaged: bytes) -> None:
    stream = ExpandingStream(Given([[event_from_bytes(damaged)]]))
    with pytest.raises(errors.DMError, match=r"\(b\.000001, \d+\)") as caught:
        _all(stream, 1 << 20)
    assert caught.value.kind is Code.BinlogParseSingleEv


@pytest.mark.parametrize("kind", [4, 15, 33, 34, 40, 162])
def test_what_never_is_inside_is_refused(kind: int) -> None:
    with pytest.raises(errors.DMError, match=r"\(b\.000001, 5000\)") as caught:
        _all(ExpandingStream(Given([[event_from_bytes(payload(binlog_bytes.raw(kind, bytes(30))))]])), 1 << 20)
    assert caught.value.kind is Code.BinlogUnexpectedEv


def test_unknown_compression_is_refused_with_a_way_out() -> None:
    stream = ExpandingStream(Given([[event_from_bytes(payload(b"abc", algorithm=1))]]))
    with pytest.raises(errors.DMError, match="algorithm 1") as caught:
        stream.read(1, 0)
    assert caught.value.kind is Code.BinlogUnexpectedEv
    assert "binlog_transaction_compression=OFF" in caught.value.workaround


@given(st.binary(max_size=80), st.data())
def test_mutations_never_escape_as_other_errors(noise: bytes, data: st.DataObject) -> None:
    whole = bytearray(payload(b"".join(_raws([(30, b"rows"), (16, bytes(8))]))))
    at = data.draw(st.integers(c.HEADER_SIZE, len(whole)))
    whole[at : at + data.draw(st.integers(0, 9))] = noise
    code = binlog_bytes.error_code(lambda: _all(ExpandingStream(Given([[event_from_bytes(bytes(whole))]])), 1 << 20))
    assert code in (0, 11070, 11071)


def test_a_closed_stream_raises_though_events_are_held() -> None:
    raw = b"".join(_raws([(30, b"a"), (30, b"b")]))
    for end in (ExpandingStream.abort, ExpandingStream.close):
        inner = Given([[event_from_bytes(payload(raw))]])
        stream = ExpandingStream(inner)
        stream.read(1, 0)
        end(stream)
        assert inner.closed
        assert binlog_bytes.error_code(lambda stream=stream: stream.read(1, 0)) == binlog_bytes.error_code(  # type: ignore[misc]
            lambda: (_ for _ in ()).throw(errors.new(Code.SyncClosed, ""))
        )
