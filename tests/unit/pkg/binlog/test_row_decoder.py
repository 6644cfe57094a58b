"""Hazard: row images that are not what they seem become rows, or right ones come out changed."""

from __future__ import annotations

import itertools
import pickle
import struct
import zlib
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg import errors
from pkg.binlog.rows.decimals import decimal_decoder, decimal_size
from pkg.binlog.rows.literals import escape, float_literal, inflate_column
from pkg.binlog.rows.row_decoder import RowDecoder
from pkg.binlog.rows.table_check import fits
from pkg.binlog.table_map import TableMap, parse_table_map
from pkg.errors import Code
from pkg.errors.workarounds import way_on
from pkg.mysql.schema import Column
from tests.both_decoders import BothDecoders
from tests.compiled import kernels
from tests.harness import binlog_bytes
from tests.unit.pkg.binlog.support import pack_decimal

ID = Column("id", "int", "int(11)", nullable=False)
NAME = Column("name", "varchar", "varchar(20)", charset="utf8mb4", collation="utf8mb4_bin")
NOTE = Column("note", "varchar", "varchar(20)", charset="utf8mb4", collation="utf8mb4_bin")


def _map() -> TableMap:
    return parse_table_map(binlog_bytes.table_map(bytes([3, 15, 15]), struct.pack("<HH", 80, 80), 0b110))


def _image(number: int, name: str | None, note: str | None) -> bytes:
    nulls = (name is None) << 1 | (note is None) << 2 | 0b11111000
    texts = b"".join(bytes([len(text.encode())]) + text.encode() for text in (name, note) if text is not None)
    return bytes([nulls]) + struct.pack("<i", number) + texts


def _decoder(key: tuple[int, ...] = (0,), write: tuple[int, ...] = (0, 1, 2)) -> BothDecoders:
    return BothDecoders(_map(), [ID, NAME, NOTE], key=key, write=write)


def _lit(text: str | None) -> bytes:
    return b"NULL" if text is None else b"'%b'" % text.replace("\\", "\\\\").replace("'", "\\'").encode()


texts = st.none() | st.text("a'\\é\0;", max_size=5)
row = st.tuples(st.integers(-(2**31), 2**31 - 1), texts, texts)


@given(st.lists(row, max_size=4), st.sampled_from([23, 30, 25, 32]))
def test_inserts_and_deletes(rows: list[tuple[int, str | None, str | None]], kind: int) -> None:
    data = binlog_bytes.rows(kind, 3, b"".join(_image(*values) for values in rows))
    literals = [[b"%d" % number, _lit(name), _lit(note)] for number, name, note in rows]
    insert = kind in (23, 30)
    assert _decoder().changes(data) == [
        (0, lits[0], b"(%b)" % b",".join(lits), b"") if insert else (2, lits[0], b"", b"") for lits in literals
    ]
    assert _decoder().images(data) == [(0, None, lits) if insert else (2, lits, None) for lits in literals]


@given(st.lists(st.tuples(row, row), max_size=4), st.sampled_from([24, 31]))
def test_updates_show_whether_the_key_changed(
    pairs: list[tuple[tuple[int, str | None, str | None], tuple[int, str | None, str | None]]], kind: int
) -> None:
    data = binlog_bytes.rows(kind, 3, b"".join(_image(*before) + _image(*after) for before, after in pairs))
    found = _decoder(key=(1, 0), write=(2, 0)).changes(data)
    assert found == [
        (1, b"%b,%d" % (_lit(after[1]), after[0]), b"(%b,%d)" % (_lit(after[2]), after[0]),
         b"%b,%d" % (_lit(before[1]), before[0]))
        for before, after in pairs
    ]  # fmt: skip
    by_id = _decoder().changes(data)
    assert [(key, old) for _, key, _, old in by_id] == [(b"%d" % a[0], b"%d" % b[0]) for b, a in pairs]


@given(st.lists(row, min_size=1, max_size=3), st.data())
def test_torn_rows_are_errors(rows: list[tuple[int, str | None, str | None]], data: st.DataObject) -> None:
    images = [_image(*values) for values in rows]
    cut = data.draw(st.integers(1, len(images[-1]) - 1))
    with pytest.raises(errors.DMError) as caught:
        _decoder().changes(binlog_bytes.rows(23, 3, b"".join(images)[:-cut]), "b.000009")
    assert caught.value.kind is Code.BinlogParseSingleEv
    assert "(b.000009, 1000)" in caught.value.message
    assert "`s`.`t`" in caught.value.message


@given(st.binary(max_size=60), st.sampled_from([23, 24, 25, 30, 31, 32, 166, 170]))
def test_random_images_never_escape_as_other_errors(images: bytes, kind: int) -> None:
    for read in (_decoder().changes, _decoder().images):
        assert binlog_bytes.error_code(lambda read=read: read(binlog_bytes.rows(kind, 3, images))) in (0, 11071)  # type: ignore[misc]


@given(st.binary(max_size=80))
def test_random_table_maps_never_escape_as_other_errors(body: bytes) -> None:
    assert binlog_bytes.error_code(lambda: parse_table_map(binlog_bytes.event(19, body))) in (0, 11071)


@pytest.mark.parametrize(("present", "after"), [(0b011, -1), (0b011, 0b001), (0b110, 0b110)])
def test_images_without_all_columns_are_refused(present: int, after: int) -> None:
    with pytest.raises(errors.DMError) as caught:
        _decoder().changes(binlog_bytes.rows(31, 3, b"", present=present, after=after))
    assert caught.value.kind is Code.BinlogNotLogColumn
    assert "binlog_row_image=FULL" in caught.value.workaround
    # The image of a session in MIXED may be partial in spite of it.
    assert "binlog_format=ROW" in caught.value.workaround


def test_an_image_after_an_update_may_hold_what_changed_alone() -> None:
    before, after = _image(1, "a", "b"), bytes([0b0]) + _image(0, "c", None)[5:]
    data = binlog_bytes.rows(31, 3, before + after + before + after, present=0b111, after=0b010)
    assert _decoder().changes(data) == [(1, b"1", b"(1,'c','b')", b"1")] * 2
    assert _decoder().images(data) == [(1, [b"1", b"'a'", b"'b'"], [b"1", b"'c'", b"'b'"])] * 2


def _with_generated(kernel: object, **more: object) -> RowDecoder:
    """The last column is generated."""
    columns = [ID, NAME, replace(NOTE, generated="VIRTUAL")]
    return RowDecoder(_map(), columns, key=[0], write=[0, 1], kernel=kernel, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kernel", kernels())
def test_generated_columns_may_be_missing_where_nothing_reads_them(kernel: object) -> None:
    whole = _image(7, "x", None)
    image = bytes([0]) + whole[1:]
    deleted = binlog_bytes.rows(25, 3, image + image, present=0b011)
    assert _with_generated(kernel).changes(deleted) == [(2, b"7", b"", b"")] * 2
    updated = binlog_bytes.rows(31, 3, image + image, present=0b011, after=0b011)
    assert _with_generated(kernel).changes(updated) == [(1, b"7", b"(7,'x')", b"7")]
    assert _with_generated(kernel).images(updated) == [(1, [b"7", b"'x'", b"NULL"], [b"7", b"'x'", b"NULL"])]
    with pytest.raises(errors.DMError) as caught:
        _with_generated(kernel, needed=[2]).changes(updated)
    assert caught.value.kind is Code.BinlogNotLogColumn


def test_a_good_header_does_not_vouch_for_a_partial_one() -> None:
    decoder = _decoder()
    decoder.changes(binlog_bytes.rows(30, 3, _image(1, "a", "b")))
    with pytest.raises(errors.DMError) as caught:
        decoder.changes(binlog_bytes.rows(30, 3, bytes([0]) + bytes(4), present=0b001))
    assert caught.value.kind is Code.BinlogNotLogColumn


def test_extra_data_of_version_2_is_stepped_over() -> None:
    data = binlog_bytes.rows(30, 3, _image(5, "a", None), extra=b"\0\5abc")
    assert _decoder().changes(data) == [(0, b"5", b"(5,'a',NULL)", b"")]


def test_events_that_hold_no_rows_are_refused() -> None:
    for bad in (binlog_bytes.raw(2, bytes(40)), b"short"):
        with pytest.raises(errors.DMError):
            _decoder().changes(bad)


def test_compressed_rows_are_inflated() -> None:
    images = _image(1, "a" * 18, None) * 3
    block = bytes([0x81, len(images)]) + zlib.compress(images)
    plain = _decoder().changes(binlog_bytes.rows(23, 3, images))
    assert _decoder().changes(binlog_bytes.rows(166, 3, block)) == plain
    with pytest.raises(errors.DMError) as caught:
        _decoder().changes(binlog_bytes.rows(166, 3, block[:-5]))
    assert caught.value.kind is Code.BinlogParseSingleEv


def test_wrong_number_of_columns_names_the_table() -> None:
    with pytest.raises(errors.DMError) as caught:
        RowDecoder(_map(), [ID, NAME], key=[0], write=[0])
    assert caught.value.kind is Code.SyncerUnitDMLColumnNotMatch
    assert "`s`.`t`" in caught.value.message


@pytest.mark.parametrize(
    "wrong",
    [
        Column("id", "bigint", "bigint(20)"),
        Column("id", "varchar", "varchar(20)", charset="utf8mb4"),
        Column("id", "moneytype", "moneytype"),
    ],
)
def test_wrong_type_names_the_column(wrong: Column) -> None:
    with pytest.raises(errors.DMError) as caught:
        RowDecoder(_map(), [wrong, NAME, NOTE], key=[0], write=[0])
    assert caught.value.kind is Code.SyncerUnitDMLColumnNotMatch
    assert "`id`" in caught.value.message
    assert "binlog-schema update" in way_on(caught.value, "t", "s")


def _optional(kind: int, body: bytes) -> bytes:
    return bytes([kind, len(body)]) + body


def test_logged_metadata_is_checked_against_the_structure() -> None:
    """Sign, charset and names, which newer servers log."""
    extra = _optional(1, b"\x80") + _optional(2, b"\x21") + _optional(4, b"\2id\4name\4note")
    table_map = parse_table_map(
        binlog_bytes.table_map(bytes([3, 15, 15]), struct.pack("<HH", 80, 80), 0, optional=extra)
    )
    assert table_map.unsigned == (True, False, False)
    unsigned = Column("id", "int", "int(11) unsigned", unsigned=True)
    utf8 = Column("name", "varchar", "varchar(20)", charset="utf8mb3"), Column("note", "varchar", "x", charset="utf8")
    RowDecoder(table_map, [unsigned, *utf8], key=[0], write=[0])
    for columns, word in (
        ([ID, *utf8], "unsigned"),
        ([unsigned, NAME, utf8[1]], "character set"),
        ([unsigned, utf8[1], utf8[0]], "`name`"),
    ):
        with pytest.raises(errors.DMError, match=word) as caught:
            RowDecoder(table_map, columns, key=[0], write=[0])
        assert caught.value.kind is Code.SyncerUnitDMLColumnNotMatch


@pytest.mark.parametrize(
    ("kind", "meta", "good", "bad"),
    [
        (246, b"\x0a\x02", "decimal(10,2)", "decimal(10,3)"),
        (18, b"\x03", "datetime(3)", "datetime"),
        (16, b"\x05\x01", "bit(13)", "bit(12)"),
        (252, b"\x02", "text", "longtext"),
    ],
)
def test_shape_of_a_type_is_checked(kind: int, meta: bytes, good: str, bad: str) -> None:
    table_map = parse_table_map(binlog_bytes.table_map(bytes([kind]), meta))
    charset = "utf8mb4" if "text" in good else ""
    RowDecoder(table_map, [Column("a", good.split("(")[0], good, charset=charset)], key=[], write=[0])
    with pytest.raises(errors.DMError) as caught:
        RowDecoder(table_map, [Column("a", bad.split("(")[0], bad, charset=charset)], key=[], write=[0])
    assert caught.value.kind is Code.SyncerUnitDMLColumnNotMatch


def test_text_without_a_known_charset_is_not_guessed() -> None:
    with pytest.raises(errors.DMError, match="`name`") as caught:
        RowDecoder(_map(), [ID, Column("name", "varchar", "varchar(20)"), NOTE], key=[0], write=[0])
    assert caught.value.kind is Code.SyncerUnitDMLColumnNotMatch


def test_table_map_and_columns_travel_to_executors() -> None:
    table_map = _map()
    assert pickle.loads(pickle.dumps(table_map)) == table_map


@pytest.mark.parametrize("count", [250, 251, 255, 256, 257, 4096])
def test_packed_column_counts_and_long_null_bitmaps(count: int) -> None:
    size = (count + 7) // 8
    packed = bytes([count]) if count < 251 else b"\xfc" + struct.pack("<H", count)
    body = struct.pack("<IHH", 42, 0, 1) + b"\x01s\0\x01t\0" + packed + b"\3" * count
    table_map = parse_table_map(binlog_bytes.event(19, body + b"\0" + b"\xff" * size))
    columns = [Column(f"c{n}", "int", "int(11)") for n in range(count)]
    decoder = BothDecoders(table_map, columns, key=[count - 1], write=[0, count - 2, count - 1])
    head = struct.pack("<IHH", 42, 0, 1) + packed + b"\xff" * size
    last = count - 1
    everything = bytes(size) + struct.pack(f"<{count}i", *range(count))
    nulls = [n for n in range(last) if n % 3]
    bitmap = sum(1 << n for n in nulls).to_bytes(size, "little")
    some = bitmap + b"".join(struct.pack("<i", n) for n in range(count) if n not in set(nulls))
    second = b"NULL" if (count - 2) % 3 else b"%d" % (count - 2)
    for _ in range(2):
        assert decoder.changes(binlog_bytes.raw(23, head + everything + some)) == [
            (0, b"%d" % last, b"(0,%d,%d)" % (last - 1, last), b""),
            (0, b"%d" % last, b"(0,%b,%d)" % (second, last), b""),
        ]
    ((_, _, image),) = decoder.images(binlog_bytes.raw(23, head + some))
    assert image == [b"NULL" if n in set(nulls) else b"%d" % n for n in range(count)]


@given(st.data())
def test_decimals_are_exact(data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, 65))
    scale = data.draw(st.integers(0, min(precision, 38)))
    digits = data.draw(st.text("0123456789", min_size=precision, max_size=precision))
    text = digits[: precision - scale] + ("." + digits[precision - scale :] if scale else "")
    negative = data.draw(st.booleans()) and any(ch in "123456789" for ch in digits)
    packed = pack_decimal("-" + text if negative else text, precision, scale)
    assert len(packed) == decimal_size(precision, scale)
    decoded = decimal_decoder(precision, scale)(packed).decode()
    assert Decimal(decoded) == Decimal(("-" if negative else "") + (text if precision > scale else "0" + text))
    assert len(decoded.partition(".")[2]) == scale


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_approximate_numbers_of_the_same_bits(value: float) -> None:
    literal = float_literal(value).decode()
    assert struct.pack("<d", float(literal)) == struct.pack("<d", value)
    assert "e" in literal


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_floats_that_no_column_holds(value: float) -> None:
    with pytest.raises(ValueError):
        float_literal(value)


@given(st.binary(max_size=30))
def test_escaped_text_ends_where_it_should(text: bytes) -> None:
    escaped = escape(text)
    out, i = b"", 0
    while i < len(escaped):
        assert escaped[i] != 0x27, "a bare quote would end the literal"
        i += escaped[i] == 0x5C
        out += escaped[i : i + 1]
        i += 1
    assert out == text


def test_compressed_columns_that_lie() -> None:
    good = bytes([0x81, 5]) + zlib.compress(b"hello")
    assert inflate_column(good) == b"hello"
    assert inflate_column(b"\0hello") == b"hello"
    assert inflate_column(b"") == b""
    for bad in (b"\x81\x04" + good[2:], b"\x31" + good[1:], good[:-4]):
        with pytest.raises(ValueError):
            inflate_column(bad)


@pytest.mark.parametrize("kind", [242, 15])
def test_vectors_of_both_servers_are_their_bytes(kind: int) -> None:
    """MySQL has a type for them, MariaDB logs them as VARBINARY."""
    table_map = parse_table_map(binlog_bytes.table_map(bytes([kind]), b"\4" if kind == 242 else struct.pack("<H", 12)))
    value = struct.pack("<3f", 1.5, -0.0, 3e38)
    length = struct.pack("<I", 12) if kind == 242 else b"\x0c"
    decoder = RowDecoder(table_map, [Column("v", "vector", "vector(3)")], key=[], write=[0])
    found = decoder.changes(binlog_bytes.rows(30, 1, b"\xfe" + length + value))
    assert found == [(0, b"", b"(x'%b')" % value.hex().encode(), b"")]


def test_fractional_digits_that_no_server_has_are_refused() -> None:
    table_map = parse_table_map(binlog_bytes.table_map(bytes([11]), b""))
    with pytest.raises(errors.DMError) as caught:
        RowDecoder(table_map, [Column("t", "time", "time(7)")], key=[], write=[0])
    assert caught.value.kind is Code.BinlogColumnTypeNotSupport


@pytest.mark.parametrize(
    ("extra", "collations"),
    [
        # char, geometry, varchar, char: as MySQL counts, as MariaDB does, and what both agree on.
        (_optional(3, bytes([8, 28, 33])), (8, 0, 28, 33)),
        (_optional(3, bytes([8, 63, 28, 33])), (8, 63, 28, 33)),
        (_optional(2, bytes([33, 2, 8])), (33, 0, 0, 0)),
        (_optional(2, bytes([33, 0, 8])), (8, 0, 33, 33)),
        (_optional(2, bytes([33])), (33, 0, 33, 33)),
    ],
)
def test_geometry_does_not_shift_the_collations_of_others(extra: bytes, collations: tuple[int, ...]) -> None:
    meta = b"\xfe\x50\4\x50\0\xfe\x50"
    table_map = parse_table_map(binlog_bytes.table_map(bytes([254, 255, 15, 254]), meta, optional=extra))
    assert table_map.collations == collations


@pytest.mark.parametrize(
    ("flags", "signs"),
    [
        # int, year, int, int: MariaDB and MySQL 8.4 log a flag for the year, MySQL 8.0.12 does not.
        (b"\x60", (False, None, True, None)),
        (b"\x40", (False, None, None, False)),
        (b"\x20", (False, False, False, True)),
    ],
)
def test_a_year_does_not_shift_the_signedness_of_others(flags: bytes, signs: tuple[bool | None, ...]) -> None:
    types = bytes([3, 13, 3, 3])
    table_map = parse_table_map(binlog_bytes.table_map(types, b"", optional=_optional(1, flags)))
    assert table_map.unsigned == signs
    year = Column("y", "year", "year(4)")
    for tracked in itertools.product((False, True), repeat=3):
        columns = [Column("n", "int", "int", unsigned=sign) for sign in tracked]
        certain = [sign in (None, mine) for sign, mine in zip((signs[0], *signs[2:]), tracked, strict=True)]
        assert fits(table_map, [columns[0], year, *columns[1:]]) is all(certain)


@pytest.mark.parametrize("flags", [b"\xff", b"\xff\x80"])
def test_the_number_of_bytes_shows_whether_a_year_has_a_sign(flags: bytes) -> None:
    """Eight numbers and a year: one byte for the numbers alone."""
    types = bytes([13] + [3] * 8)
    table_map = parse_table_map(binlog_bytes.table_map(types, b"", optional=_optional(1, flags)))
    assert table_map.unsigned == (len(flags) == 2,) + (True,) * 8
    assert (
        binlog_bytes.error_code(
            lambda: parse_table_map(binlog_bytes.table_map(types, b"", optional=_optional(1, bytes(3))))
        )
        == 11071
    )


def test_torn_collations_are_errors() -> None:
    for extra in (_optional(3, bytes([8, 8])), _optional(2, b""), _optional(2, bytes([8, 1])), _optional(11, b"")):
        event = binlog_bytes.table_map(bytes([254, 254]), b"\xf7\1\xfe\x50", optional=extra)
        assert binlog_bytes.error_code(lambda event=event: parse_table_map(event)) == 11071  # type: ignore[misc]
