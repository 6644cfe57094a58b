"""The columns of an upstream table's rows by the task's rules: mapped columns and extracted ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dm_worker.syncer.rows.row_filter import TAKES_ALL, RowFilter
from pkg import errors
from pkg.binlog.charsets import UTF8
from pkg.binlog.rows.derived_literals import Derived, LiteralChange
from pkg.binlog.rows.literals import EnumByName, MembersByName, TextInUtf8, escape, literal_charset, marked
from pkg.errors import Code
from pkg.mysql.names import qualified
from pkg.mysql.schema import Column, TableInfo
from pkg.mysql.target_values import EXACT_VALUES, TargetValues
from pkg.rules.column_mapping import VALUE_LIMIT, Affix, PartitionId, TableMapping, Transform
from pkg.rules.merge_rules import extract_problems, mapping_problems

#: The most members of a SET: its numbers take 64 bits.
_MOST_MEMBERS = 64
_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})


@dataclass(frozen=True, slots=True)
class TableRules:
    """The task's rules for one upstream table. ``extracts``: pairs of target column and constant text."""

    mapping: TableMapping | None = None
    extracts: tuple[tuple[str, str], ...] = ()
    filter: RowFilter = TAKES_ALL


NO_RULES = TableRules()


@dataclass(frozen=True, slots=True)
class _Affixed:
    """:class:`Affix` with the row decoder's own escapes: equal texts have equal literals, however they are made."""

    affix: Affix

    def literal(self, literal: bytes, /) -> bytes:
        if literal[:1] != b"'":
            return self.affix.literal(literal)
        head, tail = (escape(text.encode()) for text in (self.affix.prefix, self.affix.suffix))
        return b"'%b%b%b'" % (head, literal[1:-1], tail)


class RowShape:
    """The literals of a row and the target columns that they are for.

    ``columns`` describe the literals: those of the upstream's columns first, then the ``derived`` ones.
    Raises 36027 for a rule that the target's table can't take, or that conflicts with a column of the upstream.
    """

    def __init__(
        self, upstream: TableInfo, target: TableInfo, rules: TableRules, values: TargetValues = EXACT_VALUES
    ) -> None:
        self._upstream = upstream
        self._target = target
        self._derived: list[Derived] = []
        self._columns = [_as_written(column, target, values) for column in upstream.columns]
        #: By the target column's lower-case name: the literal's number, and the upstream column that decides it.
        self._numbers: dict[str, int] = {}
        self._origins: dict[str, str] = {}
        self._ensure_fits(rules)
        for transform in rules.mapping.transforms if rules.mapping is not None else ():
            self._map(transform)
        for name, text in rules.extracts:
            self._extract(name, text)
        self.extracted = tuple(name for name, _ in rules.extracts)

    @property
    def columns(self) -> Sequence[Column]:
        return self._columns

    @property
    def derived(self) -> tuple[Derived, ...]:
        return tuple(self._derived)

    def literal_column(self, number: int) -> Column:
        """The column of a literal, without a charset where the literals may come in several."""
        column, derived = self._columns[number], number - len(self._upstream.columns)
        if derived < 0 or self._derived[derived].change is None or literal_charset(column) in UTF8:
            return column
        # A mapped text may contain more characters, in the session's charset.
        return replace(column, charset="")

    def index_of(self, name: str) -> int:
        """The number of the literal for a target column; -1 when nothing is written there."""
        number = self._numbers.get(name.lower())
        return self._upstream.index_of(name) if number is None else number

    def origin_of(self, name: str) -> str:
        """The upstream column (lower case) that decides the value of a target column; '' for a constant."""
        return self._origins.get(name.lower(), name.lower())

    def _add(self, name: str, origin: str, derived: Derived, column: Column) -> None:
        self._numbers[name.lower()] = len(self._columns)
        self._origins[name.lower()] = origin
        self._derived.append(derived)
        self._columns.append(column)

    def _map(self, transform: Transform) -> None:
        source, target = (self._upstream.columns[i] for i in (transform.source, transform.target))
        change: LiteralChange = transform
        base = limit = 0
        if isinstance(transform, PartitionId):
            base, limit = transform.base, VALUE_LIMIT
        else:
            change = _Affixed(transform)
        derived = Derived(transform.source, change=change, base=base, limit=limit)
        self._add(target.name, source.name.lower(), derived, replace(source, name=target.name, generated=""))

    def _extract(self, name: str, text: str) -> None:
        column = Column(name, "varchar", "varchar(255)", False, False, "utf8mb4", "utf8mb4_bin")
        self._add(name, "", Derived(text=b"'%b'" % escape(text.encode())), column)

    def _ensure_fits(self, rules: TableRules) -> None:
        problems = extract_problems(self._upstream, self._target, (name for name, _ in rules.extracts))
        if rules.mapping is not None:
            problems += mapping_problems(self._upstream, self._target, rules.mapping)
        for problem in problems:
            raise errors.new(
                Code.SyncerUnitDMLColumnNotMatch,
                f"{qualified(self._upstream.schema, self._upstream.name)}: {problem.what}",
                scope="downstream",
                workaround=problem.workaround,
            )


def _as_written(column: Column, target: TableInfo, values: TargetValues) -> Column:
    """ENUM and SET values are written by the numbers of their members, which is exact, if the target gives the same
    numbers. Text is written by its bytes, which is exact, if the target takes them."""
    if column.type_name in _TEXT:
        as_it_is = values.text_by_bytes or column.charset in UTF8 or column.charset == "binary"
        return column if as_it_is else marked(TextInUtf8, column)
    there = target.column(column.name)
    members = column.elements
    if not members or there is None:
        return column
    same = there.type_name == column.type_name and there.elements[: len(members)] == members
    wide = column.type_name == "set" and len(there.elements) == _MOST_MEMBERS
    by_number = same and (values.compares_wide_sets or not wide)
    to_empty = column.type_name == there.type_name == "enum" and "" in there.elements
    kind = EnumByName if to_empty else MembersByName
    return column if by_number else marked(kind, column)
