"""Hazard: the compiled code makes other statements than the Python code, for some values or splits of packets."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pymysql
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pymysql.connections import Connection

from dm_worker.dumper import file_names
from dm_worker.dumper.chunk_writer import ChunkWriter
from dm_worker.dumper.insert_statements import PythonStatements, StatementPiece, Statements
from dm_worker.loader import sql_file
from dm_worker.table_reads import row_stream
from dm_worker.table_reads.column_literals import ODD, TOO_LONG, FieldValue, LiteralKind, RowRenderer
from tests.compiled import required

Make = Callable[..., Statements]
_FULL = 0xFFFFFF
_END = b"\xfe\0\0\2\0"
_HEAD = b"INSERT INTO `t` VALUES\n"


def _introducers(kinds: Sequence[LiteralKind]) -> tuple[bytes, ...]:
    return tuple(b"_gbk x'" if kind is LiteralKind.FOREIGN else b"" for kind in kinds)


def _python(kinds: Sequence[LiteralKind], head: bytes, statement_size: int, *, backslash: bool) -> Statements:
    return PythonStatements(kinds, _introducers(kinds), head, statement_size, backslash=backslash)


def _native(kinds: Sequence[LiteralKind], head: bytes, statement_size: int, *, backslash: bool) -> Statements:
    letters = "".join(k.value for k in kinds).encode()
    made: Statements = required("dump").Statements(letters, _introducers(kinds), head, statement_size, backslash)
    return made


MAKERS = pytest.mark.parametrize("make", [_python, _native], ids=["python", "native"])


def _packets(payload: bytes) -> bytes:
    """The payload framed; a payload of a full packet's size or above takes several."""
    out = b""
    while len(payload) >= _FULL:
        out += b"\xff\xff\xff\1" + payload[:_FULL]
        payload = payload[_FULL:]
    return out + len(payload).to_bytes(3, "little") + b"\1" + payload


def _encoded(value: FieldValue) -> bytes:
    if value is None:
        return b"\xfb"
    size = len(value)
    if size < 251:
        return bytes([size]) + value
    if size < 1 << 16:
        return b"\xfc" + size.to_bytes(2, "little") + value
    return (b"\xfd" + size.to_bytes(3, "little") if size < 1 << 24 else b"\xfe" + size.to_bytes(8, "little")) + value


def _stream(rows: Sequence[Sequence[FieldValue]]) -> bytes:
    return b"".join(_packets(b"".join(map(_encoded, row))) for row in rows) + _packets(_END)


def _run(consumer: Statements, data: bytes, cuts: Sequence[int]) -> list[StatementPiece]:
    """Feeds ``data`` cut at ``cuts``; all pieces."""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    pieces = [piece for a, b in pairwise(edges) for piece in consumer.feed(memoryview(data)[a:b])]
    return pieces + (consumer.finish() if consumer.done and consumer.error is None else [])


def _text(pieces: Sequence[StatementPiece]) -> bytes:
    return b"".join(text for _, text in pieces)


_SIZES = st.sampled_from([0, 1, 31, 32, 33, 64, 249, 250, 251, 252, 500, 65535, 65536])
_BYTES = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.sampled_from([b"it's", b"\\", b"\0\n\r\x1a'", b"plain", b"''", b"NULL", b"\xfb\xfe\xff"]),
    st.tuples(_SIZES, st.sampled_from(["x", "'", "\\", "é", "\n"])).map(lambda pair: (pair[1] * pair[0]).encode()),
)
_DIGITS = st.one_of(
    st.none(), st.sampled_from([b"0", b"-0", b"-17", b"1.5", b"1e-7", b"18446744073709551615", b"2038-01-19"])
)
#: Texts as they are, and bytes behind ODD.
_FOREIGN = st.one_of(
    _BYTES.filter(lambda value: value is None or value[:1] not in (ODD, TOO_LONG)),
    _BYTES.map(lambda value: ODD + (value or b"")),
)
_VALUES = {kind: _BYTES if kind in (LiteralKind.TEXT, LiteralKind.HEX) else _DIGITS for kind in LiteralKind} | {
    LiteralKind.FOREIGN: _FOREIGN
}


@st.composite
def _tables(draw: st.DrawFn) -> tuple[list[LiteralKind], list[tuple[FieldValue, ...]]]:
    kinds = draw(st.lists(st.sampled_from(list(LiteralKind)), min_size=1, max_size=5))
    return kinds, draw(st.lists(st.tuples(*(_VALUES[kind] for kind in kinds)), max_size=12))


_CUTS = st.lists(st.integers(0, 1 << 30), max_size=30)


@given(_tables(), _CUTS, st.integers(30, 1200), st.booleans())
def test_compiled_and_python_code_give_identical_statements(
    table: tuple[list[LiteralKind], list[tuple[FieldValue, ...]]], cuts: list[int], limit: int, backslash: bool
) -> None:
    kinds, rows = table
    data = _stream(rows)
    python = _run(_python(kinds, _HEAD, limit, backslash=backslash), data, cuts)
    native = _run(_native(kinds, _HEAD, limit, backslash=backslash), data, [cut * 7 for cut in cuts])
    assert _text(native) == _text(python)
    # Where statements start decides where files end.
    assert [min(len(text), limit) for starts, text in native if starts] == [min(len(text), limit) for _, text in python]


@pytest.mark.parametrize("backslash", [False, True])
def test_text_is_escaped_alike_wherever_the_special_byte_is(*, backslash: bool) -> None:
    """Text is copied in blocks, the last of which overlaps the one before."""
    rows = [
        (b"a" * at + bytes([byte]) + b"b" * (size - at),)
        for size in range(70)
        for at in range(size + 1)
        for byte in b"\0\t\n\r\x1a\x1f '\\\xff"
    ]
    data = _stream(rows)
    python = _run(_python([LiteralKind.TEXT], _HEAD, 1 << 30, backslash=backslash), data, [])
    native = _run(_native([LiteralKind.TEXT], _HEAD, 1 << 30, backslash=backslash), data, [])
    assert _text(native) == _text(python)


@MAKERS
@given(table=_tables(), cuts=_CUTS, limit=st.integers(30, 1200), backslash=st.booleans())
def test_statements_hold_every_row_once_within_their_bound(
    make: Make,
    table: tuple[list[LiteralKind], list[tuple[FieldValue, ...]]],
    cuts: list[int],
    limit: int,
    backslash: bool,
) -> None:
    kinds, rows = table
    text = _text(_run(make(kinds, _HEAD, limit, backslash=backslash), _stream(rows), cuts))
    statements = [bytes(s.text) for s in sql_file.read_statements(io.BytesIO(text), 0, "f")]
    renderer = RowRenderer(kinds, _introducers(kinds), backslash=backslash)
    each = [renderer.render(list(row), 1) for row in rows]
    found = [row for s in statements for row in s[len(_HEAD) :].split(b",\n")]
    assert found == each
    for statement in statements:
        assert statement.startswith(_HEAD)
        assert len(statement) + 2 <= limit or b",\n" not in statement
    # No statement ends early: the first row of the next one would not have fitted.
    for one, following in pairwise(statements):
        assert len(one) + 2 + len(following[len(_HEAD) :].split(b",\n")[0]) + 2 > limit


def test_statements_are_cut_alike_at_every_size_that_just_fits() -> None:
    data = _stream([[b"x" * n, b"1"] for n in (1, 2, 3, 1, 9, 1, 1, 30, 2)])
    kinds = [LiteralKind.TEXT, LiteralKind.VERBATIM]
    for limit in range(1, 150):
        native = _text(_run(_native(kinds, _HEAD, limit, backslash=True), data, []))
        assert native == _text(_run(_python(kinds, _HEAD, limit, backslash=True), data, [])), limit


@MAKERS
@pytest.mark.parametrize("size", [_FULL - 308, _FULL - 5, _FULL, 2 * _FULL - 10])
def test_rows_of_several_packets_are_taken_whole(make: Make, size: int) -> None:
    # The packets end: with the row, so that an empty one follows; within the second column's length; within values.
    row: list[FieldValue] = [b"\n" + b"x" * (size - 2) + b"'", b"y" * 300, None]
    kinds = [LiteralKind.TEXT, LiteralKind.HEX, LiteralKind.VERBATIM]
    data = _stream([row, [b"1", b"2", b"3"], row])
    consumer = make(kinds, _HEAD, 1 << 20, backslash=True)
    pieces = _run(consumer, data, range(0, len(data), 256 * 1024))
    each = [RowRenderer(kinds).render(list(r), 1) for r in (row, [b"1", b"2", b"3"], row)]
    # Digests: a difference of such texts would take minutes to print.
    wanted = b"".join(_HEAD + text + b";\n" for text in each)
    assert hashlib.md5(_text(pieces)).digest() == hashlib.md5(wanted).digest()
    assert consumer.rows == 3


def test_a_row_above_the_statement_size_leaves_piece_by_piece() -> None:
    consumer = _native([LiteralKind.HEX], _HEAD, 1 << 20, backslash=True)
    data = _stream([[b"a"], [b"z" * (64 << 20)], [b"b"]])
    pieces = _run(consumer, data, range(0, len(data), 256 * 1024))
    assert max(len(text) for _, text in pieces) <= (1 << 20) + (1 << 20)
    assert [text[: len(_HEAD) + 4] for starts, text in pieces if starts] == [
        _HEAD + b"(x'6",
        _HEAD + b"(x'7",
        _HEAD + b"(x'6",
    ]
    assert len(_text(pieces)) == 3 * (len(_HEAD) + 7) + 2 * ((64 << 20) + 2)


_TORN = [
    b"\0\0\0\1",  # an empty packet
    b"\3\0\0\1\5ab",  # a value longer than its packet
    b"\2\0\0\1\1a",  # too few columns
    b"\6\0\0\1\1a\1b\1c",  # too many
    b"\4\0\0\1\1a\xff\0",  # no length
    b"\3\0\0\1\1a\xfc",  # a length that the packet breaks off
    b"\2\0\0\1\xff\1",  # an error without a number
    b"\x0a\0\0\1\xfe" + b"\0" * 9,  # neither end nor row
    _packets(_END) + b"\1",  # more after the end
    b"\x0b\0\0\1\xfc\xff\xff" + b"x" * 8,
]


@MAKERS
@pytest.mark.parametrize("torn", _TORN)
def test_bytes_that_no_server_sends_are_an_error(make: Make, torn: bytes) -> None:
    good = _packets(b"\1a\1b")
    for cut in range(len(good), len(good + torn)):
        consumer = make([LiteralKind.TEXT, LiteralKind.HEX], _HEAD, 100, backslash=True)
        with pytest.raises(ValueError, match="after row"):
            _run(consumer, good + torn, [cut])


@MAKERS
def test_rows_without_their_end_make_no_statement(make: Make) -> None:
    consumer = make([LiteralKind.TEXT], _HEAD, 100, backslash=True)
    consumer.feed(_packets(b"\1a"))
    assert not consumer.done
    with pytest.raises(ValueError, match="incomplete"):
        consumer.finish()


@MAKERS
def test_an_error_of_the_server_between_rows_is_its_error(make: Make) -> None:
    consumer = make([LiteralKind.TEXT], _HEAD, 100, backslash=True)
    packet = b"\xff\x25\x05#70100Query execution was interrupted"
    data = _packets(b"\1a") + _packets(packet)
    for i in range(len(data)):
        consumer.feed(data[i : i + 1])
    assert consumer.error == packet
    with pytest.raises(ValueError, match="incomplete"):
        consumer.finish()


def _outcome(consumer: Statements, data: bytes, cuts: Sequence[int]) -> tuple[bytes, bool, bytes | None] | None:
    """What came of it; None for an error."""
    try:
        return _text(_run(consumer, data, cuts)), consumer.done, consumer.error
    except ValueError:
        return None


def _assert_same(kinds: list[LiteralKind], data: bytes, cuts: Sequence[int]) -> None:
    python = _outcome(_python(kinds, _HEAD, 90, backslash=True), data, cuts)
    native = _outcome(_native(kinds, _HEAD, 90, backslash=True), data, cuts)
    if python is None or python[1]:
        assert native == python
    else:  # not at its end: the compiled code may see by a packet's beginning that it can't be one
        assert native is None or native[1] is False


_HARMLESS = [
    LiteralKind.TEXT,
    LiteralKind.HEX,
    LiteralKind.FOREIGN,
]  # the other kinds are the server's digits, taken as they are


@given(st.lists(st.sampled_from(_HARMLESS), min_size=1, max_size=3), st.binary(max_size=80), _CUTS)
@example([LiteralKind.TEXT], b"\xff\xff\xff\1" + b"\xfe" + b"\xff" * 8, [])
@example([LiteralKind.TEXT], b"\xff\xff\xff\1" + b"\xfd\0\0\x80" + b"x" * 20, [5, 6, 7])
def test_random_bytes_are_an_error_and_never_a_crash(kinds: list[LiteralKind], data: bytes, cuts: list[int]) -> None:
    _assert_same(kinds, data, cuts)


@given(_tables(), st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=4), _CUTS)
def test_rows_with_damaged_bytes_are_read_alike_or_refused(
    table: tuple[list[LiteralKind], list[tuple[FieldValue, ...]]], damage: list[tuple[int, int]], cuts: list[int]
) -> None:
    data = bytearray(_stream(table[1]))
    for place, byte in damage:
        data[place % len(data)] = byte
    _assert_same([LiteralKind.TEXT] * len(table[0]), bytes(data), cuts)


@given(_tables(), st.integers(0, 1 << 30), _CUTS)
def test_rows_that_break_off_make_no_end(
    table: tuple[list[LiteralKind], list[tuple[FieldValue, ...]]], stop: int, cuts: list[int]
) -> None:
    data = _stream(table[1])
    for make in (_python, _native):
        consumer = make(table[0], _HEAD, 90, backslash=False)
        _run(consumer, data[: stop % len(data)], cuts)
        assert not consumer.done


def test_kinds_and_sizes_that_make_no_sense_are_refused() -> None:
    native = required("dump").Statements
    for kinds, size in ((b"", 10), (b"z", 10), (b"v\0", 10), (b"v", 0), (b"v", -1)):
        with pytest.raises(ValueError, match="kind"):
            native(kinds, (b"",) * len(kinds), _HEAD, size, True)
    for introducers in ((), (b"", b""), (b"x" * 30,), ("",)):
        with pytest.raises(ValueError, match="introducer"):
            native(b"c", introducers, _HEAD, 100, True)


@MAKERS
@pytest.mark.parametrize("backslash", [True, False])
def test_text_that_unicode_can_not_express_is_written_as_its_bytes(make: Make, *, backslash: bool) -> None:
    # The prefix alone is number 0 of an ENUM.
    rows: list[list[FieldValue]] = [["中'".encode()], [b"\xff\xa1\x40"], [None], [b""], [b"\xff"]]
    quoted = "中\\'" if backslash else "中''"
    wanted = _HEAD + f"('{quoted}'),\n(_gbk x'a140'),\n(NULL),\n(''),\n(0)".encode() + b";\n"
    data = _stream(rows)
    for cut in range(len(data)):
        assert _text(_run(make([LiteralKind.FOREIGN], _HEAD, 1000, backslash=backslash), data, [cut])) == wanted


@MAKERS
def test_text_that_the_server_made_no_value_of_is_an_error(make: Make) -> None:
    data = _stream([[b"a"], [b"\xfe"]])
    for cut in range(len(data)):
        with pytest.raises(ValueError, match="max_allowed_packet"):
            _run(make([LiteralKind.FOREIGN], _HEAD, 1000, backslash=True), data, [cut])


class _Driver:
    """A result set in a buffer, served in small pieces, in the place of :mod:`pkg.mysql.driver`."""

    def __init__(self, width: int, data: bytes, piece: int) -> None:
        self._width, self._piece = width, piece
        self._stream = io.BytesIO(data)
        self.dropped = False

    def rows(self) -> list[FieldValue]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_stream, "driver", self)
            return row_stream.read_values(Connection(defer_connect=True), "SELECT 1")

    def command(self, *_: Any) -> None: ...

    def read_packet(self, _: Any) -> _Driver:
        return self

    def reader(self, _: Any) -> _Driver:
        return self

    def drop(self, _: Any) -> None:
        self.dropped = True

    def is_ok_packet(self) -> bool:
        return False

    def read_length_encoded_integer(self) -> int:
        return self._width

    def read1(self, size: int) -> bytes:
        return self._stream.read(min(size, self._piece))

    def readinto1(self, view: memoryview) -> int:
        return self._stream.readinto(view[: self._piece])


@given(st.lists(st.tuples(_BYTES, _BYTES), max_size=20), st.integers(1, 5000))
def test_rows_are_read_whole_however_the_network_cuts_them(rows: list[tuple[FieldValue, ...]], piece: int) -> None:
    assert _Driver(2, _stream(rows), piece).rows() == [value for row in rows for value in row]


def test_a_connection_with_broken_framing_is_closed() -> None:
    for data, error in ((b"\0\0\0\1", pymysql.err.InternalError), (b"\5\0", pymysql.err.OperationalError)):
        driver = _Driver(1, data, 100)
        with pytest.raises(error):
            driver.rows()
        assert driver.dropped


@MAKERS
def test_files_and_statements_stay_within_their_bounds(make: Make, tmp_path: Path) -> None:
    rows: list[list[FieldValue]] = [[bytes([n]) * (40 if n % 50 else 2000)] for n in range(250)]
    writer = ChunkWriter(tmp_path, "s", "t", 2, statement_size=500, file_size=3000)
    for starts, text in _run(make([LiteralKind.HEX], _HEAD, 500, backslash=True), _stream(rows), range(0, 20_000, 700)):
        writer.write(starts, text)
    writer.close()
    assert len(writer.sizes) > 3
    found = 0
    for name, size in writer.sizes.items():
        assert file_names.parse(name) is not None
        with (tmp_path / name).open("rb") as file:
            texts = [bytes(s.text) for s in sql_file.read_statements(file, 0, name) if s.kind == "rows"]
        over = [len(text) - 500 for text in texts if len(text) > 500]
        assert (tmp_path / name).stat().st_size == size <= 3000 + sum(over)
        assert len(over) <= 5
        assert all(text.count(b"x'") == 1 for text in texts if len(text) > 500)
        found += sum(text.count(b"x'") for text in texts)
    assert found == 250
