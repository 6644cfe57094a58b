"""Random tables of every column type, their row images byte by byte, and plans for them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from hypothesis import strategies as st

from dm_worker.syncer.rows.plan_builder import PlanOptions
from dm_worker.syncer.rows.plan_builder import build as build_plan
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.binlog.charsets import encode_text
from pkg.binlog.rows.decimals import decimal_size
from pkg.binlog.rows.literals import TextInUtf8, marked
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from tests.harness import binlog_bytes


@dataclass(frozen=True)
class Kind:
    """One column type: its number and metadata in TABLE_MAP, its definition, and its values as bytes in an image."""

    number: int
    meta: bytes
    type_name: str
    column_type: str
    values: st.SearchStrategy[bytes]
    charset: str = ""
    unsigned: bool = False
    in_utf8: bool = False

    def column(self, name: str, *, nullable: bool) -> Column:
        column = Column(name, self.type_name, self.column_type, nullable, self.unsigned, self.charset)
        return marked(TextInUtf8, column) if self.in_utf8 else column


def sized(size: int) -> st.SearchStrategy[bytes]:
    """Any bytes, those at the edges more often."""
    edges = [bytes(size), b"\xff" * size, b"\x80" + bytes(size - 1), bytes(size - 1) + b"\x80"]
    return st.sampled_from(edges) | st.binary(min_size=size, max_size=size)


def prefixed(width: int, values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return values.map(lambda raw: len(raw).to_bytes(width, "little") + raw)


def packed_decimal(precision: int, scale: int) -> st.SearchStrategy[bytes]:
    """The server's bytes of a number with so many digits."""

    def pack(number: int) -> bytes:
        digits = f"{abs(number):0{precision}d}"
        whole, fraction = digits[: precision - scale], digits[precision - scale :]
        sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
        head = len(whole) % 9
        parts = [whole[:head], *(whole[i : i + 9] for i in range(head, len(whole), 9))]
        parts += [fraction[i : i + 9] for i in range(0, len(fraction), 9)]
        out = b"".join(int(part or "0").to_bytes(sizes[len(part)], "big") for part in parts)
        out = bytes([out[0] ^ 0x80]) + out[1:]
        return bytes(byte ^ 0xFF for byte in out) if number < 0 else out

    return st.integers(-(10**precision) + 1, 10**precision - 1).map(pack)


texts = st.text("a'\\é\0;,()\U0001f600", max_size=12).map(str.encode) | st.binary(max_size=12)


def _numbers_and_times() -> list[Kind]:
    kinds = []
    for number, size, name in (
        (1, 1, "tinyint"),
        (2, 2, "smallint"),
        (9, 3, "mediumint"),
        (3, 4, "int"),
        (8, 8, "bigint"),
    ):
        kinds.append(Kind(number, b"", name, name, sized(size)))
        kinds.append(Kind(number, b"", name, f"{name} unsigned", sized(size), unsigned=True))
    floats = st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda value: struct.pack("<f", value))
    doubles = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: struct.pack("<d", value))
    kinds += [
        Kind(4, b"\4", "float", "float", floats | sized(4)),
        Kind(5, b"\10", "double", "double", doubles | sized(8)),
        Kind(13, b"", "year", "year(4)", sized(1)),
        Kind(10, b"", "date", "date", sized(3)),
        Kind(11, b"", "time", "time", sized(3)),
        Kind(
            12,
            b"",
            "datetime",
            "datetime",
            st.integers(0, 99991231235959).map(lambda n: struct.pack("<Q", n)) | sized(8),
        ),
        Kind(7, b"", "timestamp", "timestamp", sized(4)),
    ]
    for precision, scale in ((1, 0), (5, 5), (10, 2), (18, 9), (38, 20), (65, 30), (65, 0)):
        values = packed_decimal(precision, scale) | sized(decimal_size(precision, scale))
        kinds.append(Kind(246, bytes([precision, scale]), "decimal", f"decimal({precision},{scale})", values))
    return kinds


def _fractions() -> list[Kind]:
    kinds = []
    for digits in range(7):
        text, more = (f"({digits})" if digits else ""), (digits + 1) // 2
        fractions = st.integers(0, 10**digits - 1).map(
            lambda n, digits=digits, more=more: (n * 10 ** (digits & 1)).to_bytes(more, "big")  # type: ignore[misc]
        )
        meta = bytes([digits])
        kinds += [
            Kind(17, meta, "timestamp", f"timestamp{text}", st.builds(bytes.__add__, sized(4), fractions)),
            Kind(18, meta, "datetime", f"datetime{text}", st.builds(bytes.__add__, sized(5), fractions)),
            Kind(18, meta, "datetime", f"datetime{text}", sized(5 + more).map(lambda raw: b"\x99" + raw[1:])),
            Kind(19, meta, "time", f"time{text}", sized(3 + more)),
        ]
    for digits, sizes in ((1, (4, 6, 5)), (4, (5, 7, 6)), (6, (6, 8, 7))):
        for number, name, size in zip((11, 12, 7), ("time", "datetime", "timestamp"), sizes, strict=True):
            kinds.append(Kind(number, b"", name, f"{name}({digits})", sized(size)))
    return kinds


def _bytes() -> list[Kind]:
    kinds = []
    for bits in (1, 8, 13, 64):
        kinds.append(Kind(16, bytes([bits % 8, bits // 8]), "bit", f"bit({bits})", sized((bits + 7) // 8)))
    kinds.append(Kind(254, bytes([247, 1]), "enum", "enum('a','b')", sized(1)))
    kinds.append(Kind(254, bytes([247, 2]), "enum", "enum('a','b')", sized(2)))
    for size in (1, 2, 3, 4, 8):
        members = ",".join(f"'m{i}'" for i in range(8 * size))
        kinds.append(Kind(254, bytes([248, size]), "set", f"set({members})", sized(size)))
    for charset, characters in (
        ("latin1", "a'\\é\x81€"),
        ("armscii8", "a\\Աֆ"),
        ("swe7", "a'å"),
        ("utf16", "a'\\😀"),
    ):
        encoded = st.text(characters, max_size=12).map(lambda text, charset=charset: encode_text(text, charset))  # type: ignore[misc]
        values = prefixed(1, encoded | st.binary(max_size=12) if charset in ("latin1", "armscii8") else encoded)
        kinds.append(Kind(15, struct.pack("<H", 80), "varchar", "varchar(20)", values, charset, in_utf8=True))
    encoded = st.text("a'\\中\x40", max_size=12).map(lambda text: encode_text(text, "gbk"))
    kinds.append(Kind(252, b"\2", "text", "text", prefixed(2, encoded), "gbk", in_utf8=True))
    for charset in ("utf8mb4", "ascii", "latin1", "gbk", "utf16"):
        kinds.append(Kind(15, struct.pack("<H", 80), "varchar", "varchar(20)", prefixed(1, texts), charset))
        kinds.append(Kind(254, bytes([0xFE ^ 0x10, 0]), "char", "char(100)", prefixed(2, texts), charset))
    for width, word in ((1, "tiny"), (2, ""), (3, "medium"), (4, "long")):
        kinds.append(Kind(252, bytes([width]), f"{word}text", f"{word}text", prefixed(width, texts), "utf8mb4"))
        kinds.append(Kind(252, bytes([width]), f"{word}blob", f"{word}blob", prefixed(width, texts)))
    kinds += [
        Kind(15, struct.pack("<H", 300), "varbinary", "varbinary(300)", prefixed(2, texts)),
        Kind(254, bytes([254, 14]), "binary", "binary(14)", prefixed(1, texts)),
        Kind(254, bytes([254, 16]), "uuid", "uuid", prefixed(1, st.binary(max_size=16))),
        Kind(254, bytes([254, 16]), "inet6", "inet6", prefixed(1, st.binary(max_size=16))),
        Kind(254, bytes([254, 4]), "inet4", "inet4", prefixed(1, st.binary(max_size=4))),
        Kind(242, b"\2", "vector", "vector(3)", prefixed(2, texts)),
        Kind(255, b"\4", "geometry", "geometry", prefixed(4, texts)),
        Kind(245, b"\4", "json", "json", prefixed(4, st.sampled_from([b"\4\0", b"\4\1", b"\5\7\0", b"\x0c\2it"]))),
        Kind(252, b"\4", "json", "json", prefixed(4, texts), "utf8mb4"),
    ]
    deflated = st.binary(max_size=9).map(lambda raw: bytes([0x81, len(raw)]) + zlib.compress(raw))
    kinds.append(Kind(141, struct.pack("<H", 80), "varchar", "varchar(20)", prefixed(1, deflated), "utf8mb4"))
    kinds.append(Kind(140, b"\2", "blob", "blob", prefixed(2, deflated)))
    return kinds


KINDS = [*_numbers_and_times(), *_fractions(), *_bytes()]


@dataclass(frozen=True)
class Shape:
    """A table: the kinds of its columns, which may be NULL, and which make the key."""

    kinds: tuple[Kind, ...]
    nullable: tuple[bool, ...]
    key: tuple[int, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        flags = zip(self.kinds, self.nullable, strict=True)
        return tuple(kind.column(f"c{i}", nullable=null) for i, (kind, null) in enumerate(flags))

    @property
    def table_map(self) -> bytes:
        mask = sum(1 << i for i, null in enumerate(self.nullable) if null)
        types = bytes(kind.number for kind in self.kinds)
        return binlog_bytes.table_map(types, b"".join(kind.meta for kind in self.kinds), mask).data

    def plan(self, number: int, target: int, *, spread: bool = True) -> TablePlan:
        parts = tuple(IndexPart(f"c{i}") for i in self.key)
        table = TableInfo("s", "t", self.columns, (Index("PRIMARY", parts, unique=True),) if parts else ())
        made = build_plan(number, target, self.table_map, table, table.renamed("d", f"t{target}"), PlanOptions())
        object.__setattr__(made, "spread", spread and bool(parts))
        return made

    def image(self, values: list[bytes | None]) -> bytes:
        count = len(self.kinds)
        nulls = sum(1 << i for i, value in enumerate(values) if value is None) | -1 << count
        bitmap = (nulls & (1 << 8 * ((count + 7) // 8)) - 1).to_bytes((count + 7) // 8, "little")
        return bitmap + b"".join(value for value in values if value is not None)


@st.composite
def shapes(draw: st.DrawFn, *, most: int = 12) -> Shape:
    kinds = tuple(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=most)))
    nullable = tuple(draw(st.booleans()) for _ in kinds)
    key = draw(st.lists(st.integers(0, len(kinds) - 1), unique=True, max_size=min(3, len(kinds))))
    return Shape(kinds, nullable, tuple(key))


@st.composite
def rows(draw: st.DrawFn, shape: Shape) -> list[bytes | None]:
    flags = zip(shape.kinds, shape.nullable, strict=True)
    return [None if null and draw(st.integers(0, 3)) == 0 else draw(kind.values) for kind, null in flags]
