"""The weights of a collation, as a table from code points to weights, read from the server that compares.

Two strings that the server treats as equal have equal sequences of weights. This holds for collations that weigh each
character alone. For those with contractions (``ch`` as one letter) the weights are coarser than the server's, see
:mod:`pkg.mysql.contractions`: still equal for strings that it treats as equal, and for some others.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.mysql.contractions import Points, candidates, coarse_weights, joined, longer, whole_script
from pkg.mysql.introspect import query

#: Code points with their own entries in collation tables: three planes, and the tags and variation selectors of plane
#: 14. The others are unassigned, for private use, or ideographs without compatibility forms.
NEAR = 0x30000
TAGS = range(0xE0000, 0xE1000)
_PLANE = 0x10000
_SPACE, _OTHER = 0x20, 0x21
#: The last code point of an extension: TiDB loses the connection when it weighs it by utf8mb4_0900_ai_ci.
_UNWEIGHABLE = 0x2CEA1
#: Far code points; a collation that gives all of these one weight does so for all far code points.
_FAR = (0x30000, 0x3FFFD, 0x40000, 0xE1000, 0xF0000, 0x10FFFD)
_DIGITS = " UNION ALL ".join(f"SELECT {i}{' AS d' if i == 0 else ''}" for i in range(16))
#: The part of a collation's name after charset and ``_``, without ``nopad_``: characters weigh the same at any
#: position.
_SIMPLE = frozenset(
    {
        *("general_ci", "general_mysql500_ci", "general1400_as_ci", "unicode_ci", "unicode_520_ci"),
        *("swedish_ci", "german2_ci", "spanish_ci"),
    }
)
_SIMPLE_OF_MULTI_BYTE = frozenset({"gbk_chinese_ci"})
#: The only single-byte charsets' collations with contractions.
_CZECH = "czech_cs"
#: Collations of Unicode 9 and 14. They compare several levels; _ai_ci compares only the first.
_UCA = re.compile(r"(?P<language>(?:\w+_)?0900|uca1400(?:_\w+)?)_(?P<kind>a[is]_c[is](?:_ks)?)")
#: These languages only have collations of all levels.
_ALL_LEVELS = ("ja_0900", "zh_0900")
#: The part after a Unicode charset and ``_`` in the collations of languages in earlier versions of Unicode.
_LANGUAGES = frozenset(
    {
        *("croatian_ci", "croatian_mysql561_ci", "czech_ci", "danish_ci", "esperanto_ci", "estonian_ci"),
        *("hungarian_ci", "icelandic_ci", "latvian_ci", "lithuanian_ci", "myanmar_ci", "persian_ci", "polish_ci"),
        *("roman_ci", "romanian_ci", "sinhala_ci", "slovak_ci", "slovenian_ci", "spanish2_ci", "thai_520_w2"),
        *("turkish_ci", "vietnamese_ci"),
    }
)
_UNICODE = frozenset({"utf8", "utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32"})
#: Two levels; only MariaDB's function can return the first alone.
_OF_TWO_LEVELS = "thai_520_w2"
#: Separates the levels in the weights of MySQL's collations.
_LEVEL_END = b"\0\0"
#: Longer sequences are not searched.
_LONGEST = 4
#: Weights of two bytes, so that they can be split as characters.
_UNIT, _UNITS = 2, "utf-16-be"
_TOGETHER = 10_000
#: Separates sequences in one query for weights: a character that no language contracts.
_SEPARATOR = 0x30
#: Sequences that Unicode's default table or a language contracts: letters with marks, vowels before consonants,
#: digraphs.
_MARKS = (0x300, 0x301, 0x306, 0x308, 0x30A, 0x327, 0x653, 0x654, 0x655, 0xB7, 0x387)
_LETTERS = (*range(0x41, 0x5B), *range(0x61, 0x7B), *range(0x400, 0x460), *range(0x621, 0x64B))
_CONTRACTED = (
    *((a, b) for a in (*range(0x61, 0x7B), *range(0x41, 0x5B)) for b in range(0x61, 0x7B)),
    *((a, b) for a in _LETTERS for b in _MARKS),
    *((a, b) for a in range(0xE40, 0xE45) for b in range(0xE01, 0xE2F)),
    *((a, b) for a in range(0xEC0, 0xEC5) for b in (0xE81, 0xE82, 0xE84, 0xE87, 0xE8A, 0xE99, 0xEA1, 0xEAB)),
    *((0x9C7, 0x9BE), (0xBC6, 0xBBE), (0xCC6, 0xCC2), (0xD46, 0xD3E), (0xDD9, 0xDCA), (0x1025, 0x102E)),
)


@dataclass(frozen=True, slots=True, repr=False)
class CollationWeights:
    """The weights of a collation's characters.

    ``packed`` expands to a tuple of byte strings, see :func:`weights`. ``far`` is the weight of every code point beyond
    the table; b'' when each of them equals only itself.
    """

    collation: str
    packed: bytes
    far: bytes = b""

    def __repr__(self) -> str:
        """Part of the fingerprints in the meta tables, so this text must never change."""
        return f"Folding({self.collation!r}, {zlib.crc32(self.packed):08x}, {self.far.hex()!r})"

    @classmethod
    def of(cls, collation: str, table: Sequence[bytes], far: bytes = b"") -> CollationWeights:
        """Packs the weights of code points 0, 1, …: lengths first, then all first bytes, all second bytes, …"""
        lengths = bytes(map(len, table))
        columns = [bytes(w[i] for w in table if len(w) > i) for i in range(max(lengths, default=0))]
        return cls(collation, zlib.compress(lengths + b"".join(columns), 6) + len(table).to_bytes(4, "little"), far)


@lru_cache(maxsize=64)
def weights(folding: CollationWeights) -> tuple[bytes, ...]:
    """The weights by code point; those of :data:`TAGS` follow at :data:`NEAR`. Cached in the process."""
    lengths, data = lengths_and_bytes(folding)
    columns, at = [], 0
    for i in range(max(lengths, default=0)):
        size = sum(length > i for length in lengths)
        columns.append(iter(data[at : at + size]))
        at += size
    known: dict[bytes, bytes] = {}
    table = []
    for length in lengths:
        weight = bytes([next(columns[i]) for i in range(length)])
        table.append(known.setdefault(weight, weight))
    return tuple(table)


def lengths_and_bytes(folding: CollationWeights) -> tuple[bytes, bytes]:
    """The lengths of the weights by code point, as of :func:`weights`; all their first bytes, all second bytes, …"""
    count = int.from_bytes(folding.packed[-4:], "little")
    data = zlib.decompress(folding.packed[:-4])
    return data[:count], data[count:]


def fetch_collation_weights(conn: Connection[Any], charset: str, collation: str) -> CollationWeights | None:
    """The weights of a collation on this server; None when too little is known of it, or the server can't answer. Takes
    0.3 s per plane, and 2 s for contractions. Raises ``pymysql.Error`` only when the connection is lost."""
    try:
        asked = _first_level(charset, collation, single=_bytes_per_character(conn, charset) == 1)
        if not asked:
            return None
        scale = _Scale(conn, charset, asked)
        independent = _is_simple(charset, collation) and scale.is_independent()
        if not independent and charset not in _UNICODE:
            return None
        table, far = _table(scale)
        if not independent:
            table = _coarse(scale, asked, table)
        return CollationWeights.of(collation, table, far) if table else None
    except (pymysql.ProgrammingError, pymysql.NotSupportedError, pymysql.DataError):
        return None
    except (pymysql.OperationalError, pymysql.InternalError) as exc:
        if conn.open and exc.args and int(exc.args[0]) < 2000:
            return None
        raise


def _table(scale: _Scale) -> tuple[list[bytes], bytes]:
    """The weights of the single characters, and that of those beyond the table."""
    table = scale.plane(0)
    if not table[_SPACE]:
        # A single space is at the end, where it may be ignored.
        table[_SPACE] = scale.weight((_SPACE, _OTHER)).removesuffix(table[_OTHER])
    far = {scale.weight((point,)) for point in _FAR}
    if len(far) == 1 and {scale.weight((point,)) for point in (0x1F600, 0x20000)} == far:
        return table, far.pop()
    for plane in range(1, NEAR // _PLANE):
        table += scale.plane(plane)
    return table + scale.plane(TAGS.start // _PLANE, len(TAGS)), b""


def _coarse(scale: _Scale, collation: str, table: list[bytes]) -> list[bytes]:
    """The table that maps contractions to their characters' weights; empty where that is unknown."""
    if any(len(weight) % _UNIT for weight in table):
        return []
    known: dict[Points, bytes] = {}
    asked: Sequence[Points] = [points for points in candidates() if max(points) < len(table)]
    while asked:
        answers = scale.together(asked)
        if answers is None:
            return []
        pairs = zip(asked, answers, strict=True)
        found = {points: weight for points, weight in pairs if weight not in joined(points, table, known)}
        known |= found
        asked = longer(found) if len(asked[0]) < _LONGEST else ()
    unequal = [(weight, b"".join(table[point] for point in points)) for points, weight in known.items()]
    form = coarse_weights(unequal, [table[point] for point in whole_script(collation)])
    return [form(weight) for weight in table]


def _tail(charset: str, collation: str) -> str:
    """The part of a collation's name after the charset."""
    tail = collation.removeprefix(f"{charset}_").replace("nopad_", "")
    return tail.removeprefix("utf8_") if charset == "utf8mb3" else tail


def _is_simple(charset: str, collation: str) -> bool:
    """Whether the collation's name guarantees that it has no contractions."""
    tail = _tail(charset, collation)
    return tail not in _LANGUAGES and (not (uca := _UCA.fullmatch(tail)) or uca["language"] == "0900")


def _first_level(charset: str, collation: str, *, single: bool) -> str:
    """The collation to query, '' for one of which too little is known."""
    tail = _tail(charset, collation)
    if uca := _UCA.fullmatch(tail):
        return collation if uca["language"] in _ALL_LEVELS else f"{charset}_{uca['language']}_ai_ci"
    simple = tail in _SIMPLE or collation in _SIMPLE_OF_MULTI_BYTE or (single and tail != _CZECH)
    return collation if simple or (tail in _LANGUAGES and charset in _UNICODE) else ""


def _bytes_per_character(conn: Connection[Any], charset: str) -> int:
    """The maximum bytes of a character; 0 for a charset that the server does not have."""
    rows = query(conn, "SELECT MAXLEN FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME = %s", (charset,))
    return int(rows[0][0]) if rows else 0


class _Scale:
    """A server's answers about the weights of one collation."""

    def __init__(self, conn: Connection[Any], charset: str, collation: str) -> None:
        self._conn = conn
        self._charset = charset
        self._collation = collation
        self._levels = any(language in collation for language in _ALL_LEVELS)
        self._level = " LEVEL 1" if collation.endswith(_OF_TWO_LEVELS) else ""
        # TiDB does not have this function.
        self._utf32 = _bytes_per_character(conn, "utf32") > 0

    def plane(self, plane: int, count: int = _PLANE) -> list[bytes]:
        """The weights of the code points of one plane, or of its first ``count``."""
        first = plane * _PLANE
        n = f"{first} + a.d * 4096 + b.d * 256 + c.d * 16 + e.d"
        tables = ", ".join(f"({_DIGITS}) {name}" for name in "abce")
        asked = f"n < {first + count}" if self._utf32 else f"n < {first + count} AND n <> {_UNWEIGHABLE}"
        rows = query(
            self._conn,
            f"SELECT n, {self._weight(self._computed(plane))} FROM (SELECT {n} AS n FROM {tables}) x WHERE {asked}",
        )
        found = {int(number): self._read(weight) for number, weight in rows}
        found.setdefault(_UNWEIGHABLE, b"\0" + _UNWEIGHABLE.to_bytes(3, "big"))
        return [found[point] for point in range(first, first + count)]

    def weight(self, points: Sequence[int]) -> bytes:
        return self._read(query(self._conn, f"SELECT {self._weight(self._written(points))}")[0][0])

    def together(self, asked: Sequence[Points]) -> list[bytes] | None:
        """The weights of sequences, many in one query; None when the answers can't be separated."""
        separator = self.weight((_SEPARATOR,)).decode(_UNITS, "surrogatepass")
        found: list[bytes] = []
        for start in range(0, len(asked), _TOGETHER):
            part = asked[start : start + _TOGETHER]
            text = [point for points in part for point in (*points, _SEPARATOR)]
            answers = self.weight(text).decode(_UNITS, "surrogatepass").split(separator)
            if not separator or len(answers) != len(part) + 1:
                return None
            found += [answer.encode(_UNITS, "surrogatepass") for answer in answers[:-1]]
        return found

    def _read(self, weight: str | None) -> bytes:
        """The first level of the server's answer in hexadecimal digits."""
        weights = bytes.fromhex(weight or "")
        if not self._levels:
            return weights
        levels = (at for at in range(0, len(weights), _UNIT) if weights[at : at + _UNIT] == _LEVEL_END)
        return weights[: next(levels, len(weights))]

    def is_independent(self) -> bool:
        """Whether every sequence that some collation contracts weighs the same as its characters."""

        def weight(points: Sequence[int]) -> str:
            return self._weight(self._written(points))

        for start in range(0, len(_CONTRACTED), 500):
            pairs = _CONTRACTED[start : start + 500]
            unequal = ",".join(f"{weight(pair)} <> CONCAT({weight(pair[:1])}, {weight(pair[1:])})" for pair in pairs)
            if any(map(int, query(self._conn, f"SELECT {unequal}")[0])):
                return False
        return True

    def _weight(self, encoded: str) -> str:
        text = f"CONVERT({encoded} USING {'utf32' if self._utf32 else 'utf8mb4'})"
        return f"HEX(WEIGHT_STRING(CONVERT({text} USING {self._charset}) COLLATE {self._collation}{self._level}))"

    def _written(self, points: Sequence[int]) -> str:
        if self._utf32:
            return f"x'{''.join(f'{point:08x}' for point in points)}'"
        return f"x'{''.join(map(chr, points)).encode().hex()}'"

    def _computed(self, plane: int) -> str:
        """The code point ``n`` of a plane."""
        if self._utf32:
            return "UNHEX(LPAD(HEX(n), 8, '0'))"
        last, middle = "(n & 63)", "((n >> 6 & 63) << 8)"
        if plane:
            return f"UNHEX(HEX({0xF0808080} + (n >> 18 << 24) + ((n >> 12 & 63) << 16) + {middle} + {last}))"
        two = f"HEX({0xC080} + (n >> 6 << 8) + {last})"
        three = f"HEX({0xE08080} + (n >> 12 << 16) + {middle} + {last})"
        return f"UNHEX(IF(n < 128, LPAD(HEX(n), 2, '0'), IF(n < 2048, {two}, {three})))"


def fetch_characters(conn: Connection[Any], charset: str) -> str | None:
    """The 256 characters of a single-byte charset as this server converts them; None for other charsets."""
    if charset in ("binary", "ascii") or _bytes_per_character(conn, charset) != 1:
        return None
    each = [f"HEX(CONVERT(CONVERT(x'{byte:02x}' USING {charset}) USING utf32))" for byte in range(256)]
    return "".join(chr(int(point or "3f", 16)) for point in query(conn, f"SELECT {','.join(each)}")[0])
