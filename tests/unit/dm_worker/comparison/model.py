"""Tables in memory that answer a comparison's statements, and the text of a row's digest as a server builds it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from dm_worker.comparison import compare, row_reader, unpaired_reading
from dm_worker.comparison.compare import LIMITS, compare_chunk
from dm_worker.comparison.outcome import ChunkOutcome, ComparisonLimits, Difference
from dm_worker.comparison.pair import WHOLE, ComparedColumn, TablePair, TableSide, Way
from dm_worker.comparison.pair_making import SourceStructure, make_pair
from dm_worker.comparison.statements import RowLayout
from dm_worker.comparison.value_forms import ComparedServer
from dm_worker.table_reads.column_literals import FieldValue
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

Row = tuple[FieldValue, ...]
MARIADB = ComparedServer("mariadb")


def row_text(columns: Sequence[ComparedColumn], row: Row, *, nullable: bool = True) -> bytes:
    """The text whose SHA1 is the row's digest: :func:`~dm_worker.comparison.statements.row_digest` in SQL."""
    plain: list[bytes] = []
    lengths: list[bytes] = []
    texts: list[bytes] = []
    others: list[bytes] = []
    rest = next((one.name for one in reversed(columns) if one.free and not (one.bulky or one.utf8)), "")
    for column, value in zip(columns, row, strict=True):
        if column.bulky:
            plain.append(b"N" if value is None else hashlib.sha1(value).hexdigest().encode())
        elif column.utf8:
            texts += (b"\xfe" if value is None else value, b"\xff")
        elif column.free:
            if nullable or column.name != rest:
                lengths.append(b"N" if value is None else b"%d" % len(value))
            others.append(value or b"")
        else:
            plain.append(b"N" if value is None else value)
    heads = b"".join(field + b"," for field in (*plain, *lengths))
    return heads + b"".join([*texts, *others] if others else texts[:-1])


def row_digest(columns: Sequence[ComparedColumn], row: Row) -> bytes:
    return hashlib.sha1(row_text(columns, row)).hexdigest().encode()


def result_set(rows: Sequence[Row]) -> bytes:
    """The packets of rows and of their end, as a server numbers them."""
    bodies = [b"".join(map(wire_value, row)) for row in rows]
    packets = [len(body).to_bytes(3, "little") + bytes([n % 256]) + body for n, body in enumerate(bodies, 5)]
    return b"".join(packets) + b"\x05\x00\x00\x00\xfe\x00\x00\x02\x00"


def wire_value(value: FieldValue) -> bytes:
    if value is None:
        return b"\xfb"
    size = len(value)
    return (bytes([size]) if size < 0xFB else b"\xfc" + size.to_bytes(2, "little")) + value


def structure(name: str, *, keyed: bool, types: Sequence[str] = ("varchar", "varchar")) -> TableInfo:
    """A table with an integer ``id`` and more columns that may be NULL."""
    columns = [Column("id", "int", "int(11)", nullable=not keyed)]
    for number, kind in enumerate(types):
        text = kind in ("varchar", "text")
        column_type = "varchar(300)" if kind == "varchar" else kind
        charset = ("utf8mb4", "utf8mb4_bin") if text else ("", "")
        columns.append(Column(f"c{number}", kind, column_type, True, False, *charset))
    indexes = (Index("PRIMARY", (IndexPart("id"),), True),) if keyed else ()
    return TableInfo("d", name, tuple(columns), indexes)


def pair_of(sources: int, *, keyed: bool, types: Sequence[str] = ("varchar", "varchar"), way: Way) -> TablePair:
    upstream = [SourceStructure(0, structure(f"t{i}", keyed=keyed, types=types), MARIADB) for i in range(sources)]
    made = make_pair(upstream, structure("t", keyed=keyed, types=types), MARIADB)
    assert isinstance(made, TablePair)
    return replace(made, way=way)


@dataclass(frozen=True)
class Asked:
    """A statement: ``rows`` gives its answer for the side's rows, which has ``width`` columns."""

    side: TableSide
    rows: Callable[[Sequence[Row]], Sequence[Row]]
    width: int = 1


def selected(layout: RowLayout, row: Row) -> Row:
    """The answer for a row: its values are both forms and texts of literals."""
    values = dict(enumerate(row)) | dict(zip(layout.literals, row, strict=True))
    return tuple(values[place] for place in range(len(layout.expressions)))


class FakeServers:
    """Answers the statements of one comparison from tables in memory, in pieces of ``piece`` bytes."""

    def __init__(self, pair: TablePair, tables: Mapping[str, Sequence[Row]], piece: int) -> None:
        self._pair = pair
        self._tables = tables
        self._piece = piece

    def checksums(self, _: TablePair, side: TableSide, __: object, *, grouped: bool) -> Asked:
        def rows(table: Sequence[Row]) -> list[Row]:
            buckets: dict[int, list[int]] = {}
            for row in table:
                digest = row_digest(self._pair.columns, row)
                halves = [zlib.crc32(digest[start : start + 10]) for start in range(0, 40, 10)]
                numbers = [high << 32 | low for high, low in zip(halves[::2], halves[1::2], strict=True)]
                sums = buckets.setdefault(int(digest[:2], 16) if grouped else 0, [0] * 6)
                xors = [one ^ another for one, another in zip(sums[2:4], numbers, strict=True)]
                totals = [one + another for one, another in zip(sums[4:], numbers, strict=True)]
                sums[:] = [sums[0] + 1, sums[1] + 1, *xors, *totals]
            return [tuple(b"%d" % number for number in (bucket, *sums)) for bucket, sums in buckets.items()]

        return Asked(side, rows)

    def digests(self, _: TablePair, side: TableSide, __: object, buckets: Sequence[int] | None) -> Asked:
        def rows(table: Sequence[Row]) -> list[Row]:
            found = []
            for row in table:
                digest = row_digest(self._pair.columns, row)
                if buckets is None or int(digest[:2], 16) in buckets:
                    found.append((*(row[number] for number in self._pair.key), digest))
            return found

        return Asked(side, rows)

    def forms(self, _: TablePair, side: TableSide, __: object) -> Asked:
        return Asked(side, lambda table: table)

    def keys(self, _: object, keys: Sequence[Row]) -> str:
        return repr(sorted(key[0] or b"" for key in keys))

    def whole(self, layout: RowLayout, side: TableSide, condition: str, leading: str = "") -> Asked:
        def rows(table: Sequence[Row]) -> list[Row]:
            chosen = [row for row in table if not condition or repr(row[0])[1:] in condition]
            heads: list[Row] = [(row_digest(self._pair.columns, row),) if leading else () for row in chosen]
            return [(*head, *selected(layout, row)) for head, row in zip(heads, chosen, strict=True)]

        return Asked(side, rows, len(layout.expressions) + bool(leading))

    def stream(
        self, _: object, asked: Any, begin: Callable[[int], Any], *, sent: bool = False
    ) -> Iterator[tuple[Any, int]]:
        answer = cast(Asked, asked).rows(self._tables[asked.side.name])
        consumer = begin(len(answer[0]) if answer else asked.width)
        data = result_set(answer)
        for start in range(0, len(data), self._piece):
            piece = data[start : start + self._piece]
            yield consumer.feed(memoryview(piece)), len(piece)
        assert consumer.done


def compared(
    monkeypatch: pytest.MonkeyPatch,
    pair: TablePair,
    tables: Mapping[str, Sequence[Row]],
    *,
    limits: ComparisonLimits = LIMITS,
    piece: int = 37,
    dense: bool = False,
) -> tuple[ChunkOutcome, list[Difference]]:
    """Runs :func:`compare_chunk` on tables in memory, by their names."""
    servers = FakeServers(pair, tables, piece)
    with monkeypatch.context() as patch:
        for name, made in (
            ("checksum_query", servers.checksums),
            ("digests_query", servers.digests),
            ("forms_query", servers.forms),
            ("lookup_condition", servers.keys),
            ("rows_query", servers.whole),
        ):
            patch.setattr(compare, name, made)
        for module in (compare, row_reader, unpaired_reading):
            patch.setattr(module, "stream", servers.stream)
            patch.setattr(module, "send", lambda *_: None)
        found: list[Difference] = []
        conn: Any = None
        outcome = compare_chunk([conn], conn, pair, WHOLE, limits, report=found.extend, whole=dense)
        return outcome, found
