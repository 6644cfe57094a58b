"""Makes the pair of a target table and the upstream tables that merge into it, from structures and the task's rules.
Pure.

A table is refused, with a reason, if some value that the task writes can't be compared. Columns that the task does not
write are left out, each with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dm_worker.comparison.pair import (
    ComparedColumn,
    KeyLookup,
    LiteralSource,
    LookupKind,
    NotCompared,
    TablePair,
    TableSide,
    Way,
)
from dm_worker.comparison.value_forms import ColumnForms, ComparedServer, Reading, SideColumn, column_forms
from dm_worker.syncer.rows.row_shape import NO_RULES, RowShape, TableRules
from dm_worker.table_reads.column_literals import introducer_of, kind_of, select_expression
from pkg.binlog.charsets import UTF8
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import Column, Index, TableInfo
from pkg.mysql.session_expressions import variables_of
from pkg.rules.column_mapping import PartitionId, Transform

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
#: Types whose order is the same on all servers.
_ORDERED = _INTEGERS | {"decimal", "date", "datetime", "timestamp", "binary", "varbinary"}
_TEXTS = frozenset({"char", "varchar"})
_MOST_REASONS = 3
#: Engines whose tables a transaction reads as of its snapshot. '' is one that the server does not name.
_WITH_SNAPSHOTS = frozenset({"innodb", "rocksdb", "tokudb", ""})
#: Why columns are left out; of the first two, values of the upstream are not compared.
_ONLY_UPSTREAM, _ONLY_SOME = "only the upstream has it", "not all upstream tables have it"
_COMPUTED_ONLY_UPSTREAM = "only the upstream has it, which computes it"


@dataclass(frozen=True, slots=True)
class SourceStructure:
    """An upstream table with its rules; ``connection`` is the index of the session that reads it."""

    connection: int
    info: TableInfo
    server: ComparedServer
    rules: TableRules = NO_RULES


@dataclass(frozen=True, slots=True)
class _PairColumn:
    """A compared column; ``mapped`` are the numbers that column mapping adds, for each upstream table."""

    there: Column
    heres: tuple[SideColumn, ...]
    forms: ColumnForms
    literals: tuple[LiteralSource, ...]
    nulls: tuple[str, ...]
    mapped: tuple[tuple[str, int] | None, ...]


def make_pair(
    upstream: Sequence[SourceStructure], target: TableInfo, server: ComparedServer
) -> TablePair | NotCompared:
    """The pair, or why the table can't be compared. Raises 36027 for a rule that does not fit the tables."""
    name = (target.schema, target.name)
    left_out_rows = _left_out_rows(upstream)
    if isinstance(left_out_rows, str):
        return NotCompared(name, left_out_rows)
    maker = _PairMaker(upstream, target, server)
    columns, left_out, refused = maker.columns()
    if refused:
        shown = "; ".join(refused[:_MOST_REASONS])
        more = f"; and {len(refused) - _MOST_REASONS} more" if len(refused) > _MOST_REASONS else ""
        return NotCompared(name, f"{shown}{more}")
    if not columns:
        return NotCompared(name, "upstream and target have no column in common")
    return maker.pair(columns, left_out, left_out_rows)


@dataclass(frozen=True, slots=True)
class _LeftOutRows:
    """Which rows only one side may have, because of filters: see :class:`TablePair`."""

    may_keep: bool
    may_lack: bool
    unjudged: str


def _left_out_rows(upstream: Sequence[SourceStructure]) -> _LeftOutRows | str:
    """What filters leave out; or why the values of the target's rows depend on past changes, because of them.

    A change of a row that the target lacks has no effect. So while only inserts are left out, each of the target's rows
    is one of the upstream; and the other way round while only deletes are.
    """
    inserts, updates, deletes = ([_left_out(table, kind) for table in upstream] for kind in _KINDS)
    if any(updates) or (any(inserts) and any(deletes)):
        found = [*updates, *inserts, *deletes]
        return f"{next(filter(None, found))}: what the target must have depends on past values"
    # Without any DELETE the target keeps what the upstream deletes, which is what such a task is for.
    some = next((one for one in deletes if one.startswith("an expression")), "")
    lacks = next(filter(None, inserts), "")
    unjudged = f"rows that only the target has are not judged: {some}" if some else ""
    unjudged = f"rows that the target lacks are not judged: {lacks}" if lacks else unjudged
    return _LeftOutRows(any(deletes), bool(lacks), unjudged)


def _left_out_values(left_out: Sequence[tuple[str, str]]) -> str:
    """The columns of which values of the upstream are not compared, as text; '' for none."""
    named = [f"{quote(name)}: {reason}" for name, reason in left_out if reason in (_ONLY_UPSTREAM, _ONLY_SOME)]
    return f"not all columns were compared: {'; '.join(named)}" if named else ""


#: The kinds of changes that filters leave out.
_KINDS: tuple[Literal["insert", "update", "delete"], ...] = ("insert", "update", "delete")


def _left_out(table: SourceStructure, kind: Literal["insert", "update", "delete"]) -> str:
    """The filter that leaves out changes of this kind, as text; '' for none."""
    rows = table.rules.filter
    name = qualified(table.info.schema, table.info.name)
    if kind in rows.kinds.ignored:
        return f"a binlog event filter leaves out each {kind} of {name}"
    expressions = {"insert": rows.insert, "update": rows.update, "delete": rows.delete}[kind]
    return f"an expression filter leaves out {kind}s of {name}" if expressions else ""


class _PairMaker:
    """``upstream`` and ``target`` as for :func:`make_pair`."""

    def __init__(self, upstream: Sequence[SourceStructure], target: TableInfo, server: ComparedServer) -> None:
        self._upstream = upstream
        self._target = target
        self._server = server
        self._json_types = server.json_types and all(table.server.json_types for table in upstream)
        self._shapes = [RowShape(table.info, target, table.rules) for table in upstream]

    def columns(self) -> tuple[list[_PairColumn], list[tuple[str, str]], list[str]]:
        """The compared columns; those left out, with the reasons; and what makes the table incomparable."""
        found: list[_PairColumn] = []
        left_out: list[tuple[str, str]] = []
        refused: list[str] = []
        for there in self._target.columns:
            reason = self._not_written(there)
            if reason:
                left_out.append((there.name, reason))
                continue
            made = self._column(there)
            if isinstance(made, _PairColumn):
                found.append(made)
            else:
                refused.append(f"column {quote(there.name)}: {made}")
        return found, [*left_out, *self._only_upstream()], refused

    def pair(
        self, columns: Sequence[_PairColumn], left_out: Sequence[tuple[str, str]], rows: _LeftOutRows
    ) -> TablePair:
        names = [column.there.name.lower() for column in columns]
        key = self._key(columns, names)
        ranged = self._ranged([columns[number] for number in key])
        way, why = _way(columns, key)
        return TablePair(
            target=TableSide(
                self._target.schema,
                self._target.name,
                0,
                tuple(column.forms.target for column in columns),
                tuple(_literal_in(column.there, column.there, json_types=self._json_types) for column in columns),
                tuple(_null_test(column.there) for column in columns),
                tuple((columns[number].there.name, 0) for number in key[:ranged]),
                tuple(_lookup(columns[number].there, self._server, columns[number], 0) for number in key),
            ),
            sources=tuple(self._side(i, columns, key, ranged) for i in range(len(self._upstream))),
            columns=tuple(_compared(column) for column in columns),
            key=key,
            ranged=key[:ranged],
            way=way,
            why=why,
            left_out=tuple(left_out),
            may_keep=rows.may_keep,
            may_lack=rows.may_lack,
            unjudged="; ".join(filter(None, (_left_out_values(left_out), rows.unjudged))),
            in_snapshots=all(
                info.engine.lower() in _WITH_SNAPSHOTS
                for info in (self._target, *(table.info for table in self._upstream))
            ),
            sha1=all(server.sha1 for server in (self._server, *(table.server for table in self._upstream))),
        )

    def _side(self, number: int, columns: Sequence[_PairColumn], key: Sequence[int], ranged: int) -> TableSide:
        table = self._upstream[number]
        bases = [columns[i].mapped[number] for i in key[:ranged]]
        return TableSide(
            table.info.schema,
            table.info.name,
            table.connection,
            tuple(column.forms.upstream[number] for column in columns),
            tuple(column.literals[number] for column in columns),
            tuple(column.nulls[number] for column in columns),
            tuple(base for base in bases if base is not None),
            tuple(self._source_lookup(columns[i], number) for i in key),
        )

    def _source_lookup(self, column: _PairColumn, number: int) -> KeyLookup | None:
        """How the upstream table finds rows by the column's form; None where it can't."""
        place = column.mapped[number]
        if place is None:
            return None
        info, side = self._upstream[number].info, column.heres[number]
        own = info.column(place[0])
        return None if own is None else _lookup(own, side.server, column, place[1])

    def _not_written(self, there: Column) -> str:
        """Why the task does not determine the column's values; '' if it does."""
        having = [shape.index_of(there.name) >= 0 for shape in self._shapes]
        if not any(having):
            return "only the target has it"
        if not all(having):
            return _ONLY_SOME
        if there.generated and variables_of(self._target, there.name):
            return "its expression depends on the session that writes or reads it"
        return ""

    def _only_upstream(self) -> Iterator[tuple[str, str]]:
        seen = set()
        for table in self._upstream:
            for column in table.info.columns:
                if self._target.column(column.name) is None and column.name.lower() not in seen:
                    seen.add(column.name.lower())
                    yield column.name, _COMPUTED_ONLY_UPSTREAM if column.generated else _ONLY_UPSTREAM

    def _column(self, there: Column) -> _PairColumn | str:
        heres, literals, nulls, mapped = [], [], [], []
        for table, shape in zip(self._upstream, self._shapes, strict=True):
            made = _source_column(table, shape, there, json_types=self._json_types)
            if isinstance(made, str):
                return made
            side, literal, null, base = made
            heres.append(side)
            literals.append(literal)
            nulls.append(null)
            mapped.append(base)
        forms = column_forms(heres, SideColumn(there, quote(there.name), self._server))
        if isinstance(forms, str):
            return forms
        return _PairColumn(there, tuple(heres), forms, tuple(literals), tuple(nulls), tuple(mapped))

    def _key(self, columns: Sequence[_PairColumn], names: Sequence[str]) -> tuple[int, ...]:
        """The columns that identify a row: of the target's key, else of a key that all upstream tables have."""
        candidates = [self._target.row_key(), *(table.info.row_key() for table in self._upstream)]
        for index in candidates:
            if index is not None and _usable(index, names):
                numbers = tuple(names.index(name.lower()) for name in index.columns)
                if not any(columns[number].there.generated for number in numbers):
                    return numbers
        return ()

    def _ranged(self, key: Sequence[_PairColumn]) -> int:
        """How many of the key's first columns have the same order on all servers."""
        for number, column in enumerate(key):
            if not self._one_order(column):
                return number
        return len(key)

    def _one_order(self, column: _PairColumn) -> bool:
        there = column.there
        if any(base is None for base in column.mapped):
            return False
        kinds = {side.column.type_name for side in column.heres} | {there.type_name}
        if kinds <= _INTEGERS:
            return True
        if any(base is not None and base[1] for base in column.mapped):
            return False
        if len(kinds) == 1 and kinds <= _ORDERED:
            return True
        collations = {side.column.collation for side in column.heres} | {there.collation}
        if not kinds <= _TEXTS or len(collations) != 1:
            return False
        stored = {side.server.unicode_only for side in column.heres} | {self._server.unicode_only}
        if len(stored) > 1 and there.charset not in UTF8 | {"ascii"}:
            return False  # latin1 has the euro sign before é, Unicode after it
        # The order by code points is the same on all servers; other orders are a server's own.
        flavors = {side.server.flavor for side in column.heres} | {self._server.flavor}
        return there.collation.endswith("_bin") or len(flavors) == 1


def _usable(index: Index, names: Sequence[str]) -> bool:
    whole = all(part.column and not part.length for part in index.parts)
    return whole and not index.without_overlaps and all(name.lower() in names for name in index.columns)


def _source_column(
    table: SourceStructure, shape: RowShape, there: Column, *, json_types: bool
) -> tuple[SideColumn, LiteralSource, str, tuple[str, int] | None] | str:
    """The value that an upstream table gives to a column of the target: expression, literal, the name by which NULL is
    told, and the column's name with the number that is added, None when ranges can't be cut by it."""
    constants = {name.lower(): text for name, text in table.rules.extracts}
    if there.name.lower() in constants:
        return _constant(table, there, constants[there.name.lower()])
    number = table.info.index_of(there.name)
    transforms = table.rules.mapping.transforms if table.rules.mapping is not None else ()
    transform = next((one for one in transforms if one.target == number), None)
    if transform is not None:
        return _mapped(table, transform)
    column = table.info.columns[shape.index_of(there.name)]
    side = SideColumn(column, quote(column.name), table.server)
    return side, _literal_in(column, there, json_types=json_types), _null_test(column), (column.name, 0)


def _constant(table: SourceStructure, there: Column, text: str) -> tuple[SideColumn, LiteralSource, str, None] | str:
    literal = f"_utf8mb4 x'{text.encode().hex()}'"
    if there.type_name in _INTEGERS:
        if not text.isascii() or not text.isdigit():
            return f"the extracted text {text!r} is compared with {there.column_type}"
        return SideColumn(there, str(int(text)), table.server), LiteralSource(constant=text.encode()), "", None
    column = Column(there.name, "varchar", "varchar(255)", False, False, "utf8mb4", "utf8mb4_bin")
    return SideColumn(column, literal, table.server), LiteralSource(constant=literal.encode()), "", None


def _mapped(
    table: SourceStructure, transform: Transform
) -> tuple[SideColumn, LiteralSource, str, tuple[str, int] | None]:
    source = table.info.columns[transform.source]
    name = quote(source.name)
    plain = _literal(source, json_types=False)
    literal = LiteralSource(plain.expression, plain.kind, plain.introducer, transform)
    null = _null_test(source)
    if isinstance(transform, PartitionId):
        if source.type_name in _INTEGERS:
            wide = Column(source.name, "bigint", "bigint(20)", source.nullable)
            return (
                SideColumn(wide, f"({name}+{transform.base})", table.server),
                literal,
                null,
                (
                    source.name,
                    transform.base,
                ),
            )
        text = f"CAST((CAST({name} AS UNSIGNED)+{transform.base}) AS CHAR CHARACTER SET utf8mb4)"
    elif source.charset and source.charset != "binary":
        parts = [_utf8(transform.prefix), f"CONVERT({name} USING utf8mb4)", _utf8(transform.suffix)]
        text = f"CONCAT({','.join(parts)})"
    else:
        text = f"CONCAT(x'{transform.prefix.encode().hex()}',{name},x'{transform.suffix.encode().hex()}')"
        return SideColumn(source, text, table.server), literal, null, None
    column = Column(source.name, source.type_name, source.column_type, source.nullable, False, "utf8mb4", "utf8mb4_bin")
    return SideColumn(column, text, table.server), literal, null, None


def _utf8(text: str) -> str:
    return f"_utf8mb4 x'{text.encode().hex()}'"


def _literal(column: Column, *, json_types: bool) -> LiteralSource:
    return LiteralSource(
        select_expression(column, json_types=json_types),
        kind_of(column, json_types=json_types),
        introducer_of(column, json_types=json_types),
    )


def _literal_in(column: Column, there: Column, *, json_types: bool) -> LiteralSource:
    """The literal of a column's value for the target's column ``there``. It is a number where a text says less: a BIT's
    is compared as a number of its own, and of a member without a name not told from no member."""
    name = quote(column.name)
    if column.type_name == there.type_name == "bit":
        return LiteralSource(f"{name}+0")
    theirs = there.elements
    if column.type_name == there.type_name and "" in (*column.elements, *theirs):
        if theirs[: len(column.elements)] == column.elements:
            return LiteralSource(f"CAST({name} AS UNSIGNED)")
        if column.type_name == "enum" and set(column.elements) <= set(theirs):
            numbers = ",".join(str(theirs.index(member) + 1) for member in column.elements)
            return LiteralSource(f"IF({name}+0=0,0,ELT({name}+0,{numbers}))")
    return _literal(column, json_types=json_types)


def _null_test(column: Column) -> str:
    """The name of a column that may be NULL."""
    return quote(column.name) if column.nullable or column.generated else ""


def _compared(column: _PairColumn) -> ComparedColumn:
    forms = column.forms
    there = column.there
    return ComparedColumn(
        there.name, forms.reading, forms.free, forms.bulky, forms.guarded, bool(there.generated), forms.utf8
    )


def _way(columns: Sequence[_PairColumn], key: Sequence[int]) -> tuple[Way, str]:
    """Digests of ``SAME`` forms prove equality. Where texts of equal values differ, most digests would differ for
    nothing; and where they decide which rows belong together, rows must be read."""
    for number, column in enumerate(columns):
        reading = column.forms.reading
        name = quote(column.there.name)
        if reading in (Reading.DOCUMENT, Reading.WRITTEN_DOCUMENT, Reading.MEMBERS, Reading.NUMBER):
            return Way.STREAMED, f"the servers may write equal values of {name} as different text"
        if reading is not Reading.SAME and (not key or number in key):
            return (
                Way.STREAMED,
                f"{name} identifies rows, and the two kinds of servers may write equal values of it as different text",
            )
    return Way.PUSHED, "equal digests prove equal rows"


def _lookup(own: Column, server: ComparedServer, column: _PairColumn, base: int) -> KeyLookup | None:
    """How a table finds the rows with a form of its column ``own``; None where an index may not find exactly these."""
    kind, kinds = own.type_name, {side.column.type_name for side in column.heres} | {column.there.type_name}
    if kinds <= _INTEGERS:
        return KeyLookup(own.name, LookupKind.NUMBER, base=base)
    if base or len(kinds) > 1 or column.forms.reading is not Reading.SAME or column.forms.guarded:
        return None
    if kind in ("decimal", "enum", "bit"):
        numbered = kind != "enum" or not column.forms.free
        return KeyLookup(own.name, LookupKind.NUMBER) if numbered else None
    if kind in ("date", "datetime", "timestamp", "time", "uuid"):
        return KeyLookup(own.name, LookupKind.QUOTED)
    if kind in ("binary", "varbinary"):
        return KeyLookup(own.name, LookupKind.BYTES)
    if kind in _TEXTS:
        return KeyLookup(own.name, LookupKind.BYTES, "utf8mb4" if server.unicode_only else own.charset)
    return None
