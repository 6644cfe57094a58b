"""Hazard: an image that holds some columns becomes another row in the compiled code than in Python."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pkg.binlog import constants as c
from pkg.binlog.events import event_from_bytes
from pkg.binlog.rows.row_decoder import RowDecoder
from pkg.binlog.table_map import parse_table_map
from pkg.errors import DMError
from tests.compiled import required
from tests.harness import binlog_bytes
from tests.unit.pkg.native.shapes import Shape, rows, shapes

KERNEL = required("rows")
#: A value, None for NULL.
Row = list[bytes | None]


def decoders_of(shape: Shape) -> tuple[RowDecoder, RowDecoder]:
    table_map = parse_table_map(event_from_bytes(shape.table_map))
    compiled, plain = (RowDecoder(table_map, shape.columns, key=(0,), write=(0,), kernel=one) for one in (KERNEL, None))
    return compiled, plain


def bits(numbers: set[int]) -> int:
    return sum(1 << number for number in numbers)


def literals_or_code(decoder: RowDecoder, raw: bytes) -> object:
    try:
        return decoder.images(raw)
    except DMError as exc:
        return exc.code


def partial_image(row: Row, held: set[int]) -> bytes:
    values = [row[number] for number in sorted(held)]
    nulls = bits({index for index, value in enumerate(values) if value is None})
    return nulls.to_bytes((len(held) + 7) // 8, "little") + b"".join(value for value in values if value is not None)


@settings(deadline=None)
@given(st.data())
def test_an_image_after_an_update_takes_the_rest_from_the_image_before(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    everything = set(range(len(shape.kinds)))
    held = data.draw(st.sets(st.sampled_from(sorted(everything))))
    pairs = [(data.draw(rows(shape)), data.draw(rows(shape))) for _ in range(data.draw(st.integers(0, 3)))]
    partial, whole = b"", b""
    for before, after in pairs:
        partial += partial_image(before, everything) + partial_image(after, held)
        whole += shape.image(before) + shape.image([(after if n in held else before)[n] for n in sorted(everything)])
    count = len(shape.kinds)
    raw = binlog_bytes.rows(c.UPDATE_ROWS_EVENT, count, partial, after=bits(held))
    expected = binlog_bytes.rows(c.UPDATE_ROWS_EVENT, count, whole)
    for decoder in decoders_of(shape):
        completed, op, at = decoder.prepare(raw)
        # The size in the header stays that of the event in the binlog.
        assert (completed[c.HEADER_SIZE : at], op) == (expected[c.HEADER_SIZE : at], c.OP_UPDATE)
        assert literals_or_code(decoder, raw) == literals_or_code(decoder, expected)


@settings(deadline=None)
@given(st.data())
def test_any_columns_and_torn_bytes_have_the_same_outcome(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    size = (len(shape.kinds) + 7) // 8
    columns = st.sets(st.integers(0, len(shape.kinds) - 1))
    held = [data.draw(columns) for _ in range(data.draw(st.integers(1, 2)))]
    images = b"".join(partial_image(data.draw(rows(shape)), one) for _ in range(2) for one in held)
    if data.draw(st.booleans()):
        images = images[: data.draw(st.integers(0, len(images)))] + data.draw(st.binary(max_size=4))
    raw = bytes(30 + size * len(held)) + images
    before, *rest = (bits(one).to_bytes(size, "little") for one in held)
    after = rest[0] if rest else None

    def completed(decoder: RowDecoder) -> object:
        try:
            return decoder.readers.completed(before, after, raw, 30 + size * len(held))
        except ValueError as exc:
            return str(exc)

    compiled, plain = decoders_of(shape)
    assert completed(compiled) == completed(plain)
