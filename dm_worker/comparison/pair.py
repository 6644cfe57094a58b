"""A target table and the upstream tables whose rows it must have: what is compared, by which expressions. Pure data.

Picklable: Spark tasks get pairs. Nothing here knows of tasks, sessions or servers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile

from dm_worker.comparison.value_forms import Reading
from dm_worker.table_reads.column_literals import LiteralKind
from pkg.binlog.rows.derived_literals import LiteralChange
from pkg.mysql.names import qualified


class Way(Enum):
    """How the rows of a pair are compared."""

    #: Both servers compute digests of rows; only rows whose digests differ are read.
    PUSHED = "checksums"
    #: All rows are read: the two servers may write equal values of some column as different text.
    STREAMED = "rows"


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column of the target, with what :class:`~dm_worker.comparison.value_forms.ColumnForms` says of its forms.
    ``generated``: the target computes its values, and takes none."""

    name: str
    reading: Reading
    free: bool = False
    bulky: bool = False
    guarded: bool = False
    generated: bool = False
    utf8: bool = False


@dataclass(frozen=True, slots=True)
class LiteralSource:
    """Where a column's literal for the target comes from: a SELECT expression, and how its text becomes the literal.

    ``change`` is column mapping's. ``constant``: the literal of an extract, for which nothing is selected.
    """

    expression: str = ""
    kind: LiteralKind = LiteralKind.VERBATIM
    introducer: bytes = b""
    change: LiteralChange | None = None
    constant: bytes = b""


class LookupKind(Enum):
    """How a form becomes a literal that an index finds."""

    NUMBER = "number"
    QUOTED = "quoted"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """A column by which rows with a form are found. ``base`` is what column mapping adds to it."""

    name: str
    kind: LookupKind
    charset: str = ""
    base: int = 0

    def literal(self, form: bytes) -> bytes:
        """The literal for which the column is searched."""
        if self.kind is LookupKind.NUMBER:
            return b"%d" % (int(form) - self.base) if self.base else form
        if self.kind is LookupKind.QUOTED:
            return b"'%b'" % form
        head = f"_{self.charset} ".encode() if self.charset else b""
        return head + b"x'" + form.hex().encode() + b"'"


@dataclass(frozen=True, slots=True)
class TableSide:
    """One table of a pair. ``connection`` is the index of its session (0 for the target).

    ``forms``, ``literals``, ``nulls``: one for each compared column; ``nulls`` is the SQL of a value that is NULL
    where the column's is, '' for one that never is. ``bases``: for each column of the pair's ``ranged``, its name here
    and the number that column mapping adds to it. ``lookups``: one for each column of the pair's key.
    """

    schema: str
    name: str
    connection: int
    forms: tuple[str, ...]
    literals: tuple[LiteralSource, ...]
    nulls: tuple[str, ...]
    bases: tuple[tuple[str, int], ...] = ()
    lookups: tuple[KeyLookup | None, ...] = ()

    @property
    def qualified(self) -> str:
        return qualified(self.schema, self.name)

    @property
    def point_columns(self) -> tuple[tuple[str, int], ...]:
        """The first columns of the key by which rows with a literal of the target are found, and perhaps more rows:
        ``bases``, and then columns whose values only a collation calls equal."""
        others = takewhile(lambda one: one is not None and one.kind is not LookupKind.NUMBER,
                           self.lookups[len(self.bases):])  # fmt: skip
        return (*self.bases, *((one.name, one.base) for one in others if one is not None))


@dataclass(frozen=True, slots=True)
class TablePair:
    """``key``: numbers of the columns that identify a row at the target; empty for a table without a usable key, whose
    rows are compared as a multiset. ``ranged``: the first of them by which a :class:`KeyRange` may cut the table.
    ``why``: the reason for ``way``. ``left_out``: the columns that are not compared, each with the reason.
    ``may_keep``: extra rows of the target are not reported, because the task leaves out deletes; ``may_lack``: missing
    ones are not, because it leaves out inserts. ``unjudged``: why the table can't be called equal though all that is
    compared is; '' where it can. ``sha1``: all servers have this function. ``in_snapshots``: the engines of all tables
    read them as of a snapshot.
    """

    target: TableSide
    sources: tuple[TableSide, ...]
    columns: tuple[ComparedColumn, ...]
    key: tuple[int, ...]
    ranged: tuple[int, ...]
    way: Way
    why: str
    left_out: tuple[tuple[str, str], ...] = ()
    may_keep: bool = False
    may_lack: bool = False
    unjudged: str = ""
    sha1: bool = True
    in_snapshots: bool = True

    @property
    def outline(self) -> str:
        """A digest of what is compared and how. Results for parts of a table belong together only if it is the same."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:32]

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(self.columns[number].name for number in self.key)


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A target table that can't be compared, and why. It never counts as equal."""

    target: tuple[str, str]
    reason: str


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The rows whose ``ranged`` columns are at or above ``lower`` and below ``upper``: literals of the target's values.

    An end that is empty is open. The ranges of :func:`~dm_worker.comparison.ranges.plan_ranges` cover every row once.
    With ``points``, only the rows with one of these values of the ``point_columns`` instead.
    """

    lower: tuple[bytes, ...] = ()
    upper: tuple[bytes, ...] = ()
    points: tuple[tuple[bytes, ...], ...] = ()


WHOLE = KeyRange()
