"""The SELECT statements of a comparison: digests of rows by the servers, and rows. Pure.

A row's digest is the SHA1 (the cheapest; where a server has none, as many digits of the SHA-256) of a text from which
every field can be read back, so that rows with one digest are one row: fields of known alphabets end with commas, then
come the lengths of those of any bytes. Then follows text in UTF-8, each ended by a byte that no such text has, and then
the fields of any bytes, without separators. The last of all is what remains: it needs no end, and no length unless it
may be NULL. NULL is ``N``, which no field is; in UTF-8 it is another byte that no text has. The digest of a long value
stands for the value.

A checksum of rows is, for both numbers of 64 bits made of their digests, the exclusive or and the sum, beside the
number of rows: in a sum, equal rows do not cancel each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dm_worker.comparison.pair import KeyLookup, KeyRange, TablePair, TableSide
from dm_worker.comparison.value_forms import read_whole
from dm_worker.table_reads.chunks import range_conditions
from pkg.mysql.names import quote

#: The number of groups of rows, by the first digits of their digests.
BUCKETS = 256
#: A digest's hexadecimal digits, and those of which half a number is made: CRC32 is the cheapest way from digits to a
#: number, and of ten digits of a digest it gives each number of 32 bits equally often.
_DIGITS, _HALF_DIGITS = 40, 10
#: Bytes that UTF-8 does not have: the end of a text, and NULL. The collation keeps a server from converting them.
_END, _NULL = (f"_binary x'{byte}' COLLATE `binary`" for byte in ("FF", "FE"))
_ALL_ROWS = "LIMIT 18446744073709551615"


def row_digest(pair: TablePair, side: TableSide) -> str:
    """A row's digest in hexadecimal digits; NULL if the server can't build its text."""
    plain: list[str] = []
    lengths: list[str] = []
    texts: list[str] = []
    others: list[str] = []
    rest = next((one.name for one in reversed(pair.columns) if one.free and not (one.bulky or one.utf8)), "")
    for column, form, null in zip(pair.columns, side.forms, side.nulls, strict=True):
        if column.bulky:
            plain.append(_or_null(_digest(pair, form), null, "'N'", guarded=column.guarded))
        elif column.utf8:
            texts += (_or_null(form, null, _NULL, guarded=column.guarded), _END)
        elif column.free:
            if null or column.name != rest:
                lengths.append(_or_null(f"LENGTH({form})", null, "'N'", guarded=column.guarded))
            others.append(_or_null(form, null, "''", guarded=column.guarded))
        else:
            plain.append(_or_null(form, null, "'N'", guarded=column.guarded))
    heads = [part for field in (*plain, *lengths) for part in (field, "','")]
    fields = [*heads, *texts, *others] if others else [*heads, *texts[:-1]]
    # Bytes: a server takes four times as long to copy and to cut text. A MariaDB may regard the text as never NULL, and
    # then counts a digest that is; of ELT it does not.
    digest = _digest(pair, f"CONCAT({','.join(fields)})")
    return f"ELT(1,CAST({digest} AS BINARY({_DIGITS})))"


def _digest(pair: TablePair, form: str) -> str:
    return f"SHA1({form})" if pair.sha1 else f"LEFT(SHA2({form},256),{_DIGITS})"


def _or_null(form: str, null: str, shown: str, *, guarded: bool) -> str:
    if not null:
        return form
    return f"IF({null} IS NULL,{shown},{form})" if guarded else f"IFNULL({form},{shown})"


def checksum_query(pair: TablePair, side: TableSide, part: KeyRange, *, grouped: bool) -> str:
    """Rows of a group, number of rows, of digests, and the exclusive ors and sums. All rows are in group 0, or each is
    in one of :data:`BUCKETS`."""
    source = f"{side.qualified}{where(range_condition(pair, side, part))}"
    # Without a limit, servers merge the inner SELECT into the outer one, and compute each digest several times.
    digests = f"SELECT {row_digest(pair, side)} d FROM {source} {_ALL_ROWS}"
    halves = [f"CRC32(SUBSTR(d,{start},{_HALF_DIGITS}))" for start in range(1, _DIGITS, _HALF_DIGITS)]
    numbers = [f"{high}<<32|{low}" for high, low in zip(halves[::2], halves[1::2], strict=True)]
    sums = ",".join(f"{function}({number})" for function in ("BIT_XOR", "SUM") for number in numbers)
    group, by = ("CONV(LEFT(d,2),16,10)", " GROUP BY 1") if grouped else ("0", "")
    return f"SELECT {group},COUNT(*),COUNT(d),{sums} FROM ({digests}) digests{by}"


def digests_query(pair: TablePair, side: TableSide, part: KeyRange, buckets: Iterable[int] | None) -> str:
    """Rows of the key's forms and the row's digest, for the rows of some buckets; None for all."""
    keys = ",".join(f"{side.forms[number]} k{i}" for i, number in enumerate(pair.key))
    heads = f"{keys}," if keys else ""
    rows = f"SELECT {heads}{row_digest(pair, side)} d FROM {side.qualified}{where(range_condition(pair, side, part))}"
    if buckets is None:
        return rows
    wanted = ",".join(f"'{bucket:02x}'" for bucket in sorted(buckets))
    return f"SELECT * FROM ({rows} {_ALL_ROWS}) digests WHERE LEFT(d,2) IN ({wanted})"


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The columns of a SELECT of whole rows: first the forms of the compared columns, then what their literals need
    beside them."""

    expressions: tuple[str, ...]
    #: The number of forms among them.
    forms: int
    #: The index of each literal's text; -1 for a constant.
    literals: tuple[int, ...]


def row_layout(pair: TablePair, side: TableSide) -> RowLayout:
    """Forms and texts of literals; a text that is a form too is read once."""
    mark = "00" if side is pair.target else "01"
    forms = [
        read_whole(form, null or "0", guarded=column.guarded, mark=mark)
        for column, form, null in zip(pair.columns, side.forms, side.nulls, strict=True)
    ]
    places = {form: number for number, form in enumerate(forms)}
    more = dict.fromkeys(literal.expression for literal in side.literals if literal.expression not in ("", *places))
    places |= {expression: number for number, expression in enumerate(more, len(forms))}
    return RowLayout(
        (*forms, *more), len(forms), tuple(places[one.expression] if one.expression else -1 for one in side.literals)
    )


def forms_query(pair: TablePair, side: TableSide, part: KeyRange) -> str:
    """All rows of a part, as forms."""
    layout = row_layout(pair, side)
    chosen = ",".join(layout.expressions[: layout.forms])
    return f"SELECT {chosen} FROM {side.qualified}{where(range_condition(pair, side, part))}"


def rows_query(layout: RowLayout, side: TableSide, condition: str, leading: str = "") -> str:
    """Whole rows, forms and literals, under a condition; with ``leading`` before them."""
    expressions = (leading, *layout.expressions) if leading else layout.expressions
    return f"SELECT {','.join(expressions)} FROM {side.qualified}{where(condition)}"


def where(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


def range_condition(pair: TablePair, side: TableSide, part: KeyRange) -> str:
    """The rows of a part, by the side's own columns; '' for all. Of all parts, the last one whose lower end a row with
    NULL is not below has this row: another side's key may allow NULL."""
    if part.points:
        return _points_condition(side, part.points)
    lower, upper = (_own(end, side.bases) for end in (part.lower, part.upper))
    names = [name for name, _ in side.bases][: max(len(lower), len(upper))]
    conditions = []
    if lower:
        above = range_conditions(names, [lower])[1]
        gaps = [
            " AND ".join(
                [*(f"{quote(names[i])} = {lower[i].decode()}" for i in range(number)), f"{quote(name)} IS NULL"]
            )
            for number, name in enumerate(names)
            if side.nulls[pair.ranged[number]]
        ]
        conditions.append(f"({' OR '.join((above, *gaps))})" if gaps else above)
    if upper:
        conditions.append(range_conditions(names, [upper])[0])
    return " AND ".join(conditions)


def _points_condition(side: TableSide, points: Sequence[Sequence[bytes]]) -> str:
    columns = side.point_columns[: len(points[0])]
    names = [quote(name) for name, _ in columns]
    own = [[value.decode() for value in _own(point, columns)] for point in points]
    if len(names) == 1:
        return f"{names[0]} IN ({','.join(point[0] for point in own)})"
    terms = (" AND ".join(f"{name} = {value}" for name, value in zip(names, point, strict=True)) for point in own)
    return " OR ".join(f"({term})" for term in terms)


def _own(end: Sequence[bytes], bases: Sequence[tuple[str, int]]) -> tuple[bytes, ...]:
    """A range's end without what column mapping adds."""
    return tuple(
        b"%d" % (int(literal) - base) if base else literal for literal, (_, base) in zip(end, bases, strict=False)
    )


def lookup_condition(lookups: Sequence[KeyLookup], keys: Sequence[Sequence[bytes]]) -> str:
    """The rows with one of the keys, given as forms, and perhaps more: a collation calls more of them equal."""
    if len(lookups) == 1:
        found = ",".join(lookups[0].literal(key[0]).decode() for key in keys)
        return f"{quote(lookups[0].name)} IN ({found})"
    terms = (
        " AND ".join(
            f"{quote(lookup.name)} = {lookup.literal(form).decode()}" for lookup, form in zip(lookups, key, strict=True)
        )
        for key in keys
    )
    return " OR ".join(f"({term})" for term in terms)
