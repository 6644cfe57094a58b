"""The plan of one upstream table: how Spark tasks decode its rows, choose their buckets and write them. Pure, picklable
data."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import lru_cache

from dm_worker.meta.stored_text import stored_text
from dm_worker.syncer.rows.conflict_sets import ConflictKey
from dm_worker.syncer.rows.key_normalization import KeyNormalizer, by_block
from dm_worker.syncer.rows.row_filter import TAKES_ALL, RowFilter
from dm_worker.syncer.rows.row_matching import DigestForm, MatchExpression
from pkg.binlog.rows.derived_literals import Derived
from pkg.mysql.schema import Column
from pkg.rules.value_loss import ColumnLoss

#: Rows are compacted to their last image per key, and a statement writes many of them.
COMPACT = "compact"
#: Rows are written one by one in binlog order: tables without a usable key, or when the task asks for it.
ORDERED = "ordered"


@dataclass(frozen=True, slots=True)
class PeriodKey:
    """A unique key WITHOUT OVERLAPS: pairs of column and literal number for its ``equal`` parts, and for the ``start``
    and the ``end`` of its period."""

    equal: tuple[tuple[str, int], ...]
    start: tuple[str, int]
    end: tuple[str, int]


@dataclass(frozen=True, slots=True)
class RowLink:
    """Values by which the order of two rows of a family counts: those of ``columns`` (numbers of literals), normalized
    by ``normalizers``, under one ``seed``.

    ``shared``: rows that only refer to a value may change their order. ``always``: also if a change leaves it as it is.
    """

    seed: int
    columns: tuple[int, ...]
    normalizers: tuple[KeyNormalizer, ...]
    shared: bool = False
    always: bool = False


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A generated column that upstream and target store.

    ``definition``: the target's type, as a plain column has it. ``number`` is that of the upstream's value in a row
    image, ``matcher`` compares it with the target's, and ``shown`` goes around a value to make it readable text.
    ``bases`` are indexes into ``write`` of the plain columns that decide the value. ``dependent``: session variables
    may, too; ``zoned``: among them is the time zone.
    """

    name: str
    definition: str
    number: int
    matcher: MatchExpression
    shown: tuple[str, str]
    bases: tuple[int, ...]
    dependent: bool
    zoned: bool


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How the rows of one upstream table shape are decoded and where they are written.

    ``number`` names the plan within one run of the unit, ``target_number`` its target table, ``source_number`` its
    upstream table. ``key`` and ``write`` are indexes into ``columns`` (the upstream structure) followed by
    ``derived``, the literals of mapped and extracted columns; ``key`` is empty for a table without a usable key.
    ``spread``: the key chooses a row's bucket, normalized by ``normalizers`` (one per key column);
    otherwise the whole target table is one bucket. ``conflict_keys`` bring rows that conflict into one bucket.
    ``family`` names the tables that foreign keys connect to this one, when the target checks them: the order among
    their rows is kept. ``acts``: one of these keys changes rows by itself; ``referenced`` are the columns to which
    such keys refer.
    ``links`` are what the order of such rows depends on; empty where that is not known of all keys.
    ``rewrite_existing`` requests DELETE + INSERT instead of INSERT … ON DUPLICATE KEY UPDATE, because the target has
    more unique keys whose values rows may swap; with ``conflict_keys``, only for rows whose
    values in them changed.
    ``in_place``: an upsert of a row whose values in ``conflict_keys`` changed updates this row, or is refused.
    ``upserts``: the target takes INSERT … ON DUPLICATE KEY UPDATE with VALUES() for all columns. Otherwise rows
    are deleted and inserted, or written one by one.
    ``extra_columns``: the target has columns that the upstream lacks.
    ``loadable``: LOAD DATA reads the rows' literals as an INSERT does. ``numbered``: the target's table has an
    AUTO_INCREMENT column.
    ``bulk``: the target's written columns when bulk executions may write rows, empty otherwise.
    ``matchers``, one per written column, compare the target's column with a literal exactly. ``digests``, for tables
    without a key, are the digest forms of the written columns; empty when a digest of them can't identify rows.
    ``lookups`` are the numbers of those among the written columns that an index of the target begins with,
    ``integers`` of those that are integers in both tables.
    ``filter`` says which row changes are left out.
    ``period_keys``: rows collide by these when their periods overlap. The server takes no REPLACE and no ON DUPLICATE
    KEY UPDATE for such a table.
    ``computed`` names the target's generated columns. ``alike``: the written columns are the upstream's in type, so
    they can hold every value of it.
    ``filled`` names (lower case) the key columns that the target may fill in (ON UPDATE): upserts assign these too.
    ``checks``: numbers of literals, and how the target would change values of them without an error.
    ``sampled``: generated columns of the target that are compared with the upstream's values: by samples, and in each
    row those that depend on the time zone. Without a key there are only the latter.
    ``listed``: one statement may find rows by a list of their keys, which some servers compare without any conversion.
    ``session_keys`` names the unique keys by which the target may find rows equal that the upstream has side by side,
    because it computes their values from a session's variables. No row replaces another one by these, nor updates it.
    ``texts``, one per written column, are SQL expressions of the literal of the target's value, '' where there is none.
    """

    number: int
    target_number: int
    source: tuple[str, str]
    target: tuple[str, str]
    table_map: bytes
    columns: tuple[Column, ...]
    mode: str
    key: tuple[int, ...]
    key_names: tuple[str, ...]
    write: tuple[int, ...]
    write_names: tuple[str, ...]
    matchers: tuple[MatchExpression, ...]
    spread: bool
    rewrite_existing: bool = False
    extra_columns: bool = False
    loadable: bool = False
    numbered: bool = False
    bulk: tuple[Column, ...] = ()
    normalizers: tuple[KeyNormalizer, ...] = ()
    conflict_keys: tuple[ConflictKey, ...] = ()
    family: str = ""
    acts: bool = False
    referenced: tuple[int, ...] = ()
    source_number: int = 0
    derived: tuple[Derived, ...] = ()
    filter: RowFilter = TAKES_ALL
    digests: tuple[DigestForm, ...] = ()
    lookups: tuple[int, ...] = ()
    integers: tuple[int, ...] = ()
    computed: tuple[str, ...] = ()
    alike: bool = False
    upserts: bool = True
    filled: tuple[str, ...] = ()
    checks: tuple[tuple[int, ColumnLoss], ...] = ()
    period_keys: tuple[PeriodKey, ...] = ()
    sampled: tuple[ComputedColumn, ...] = ()
    texts: tuple[str, ...] = ()
    listed: bool = True
    in_place: bool = False
    links: tuple[RowLink, ...] = ()
    session_keys: tuple[str, ...] = ()

    @property
    def seed(self) -> int:
        """The start value of the row hash: stable across runs, different for each target table.

        Tables of one family that are not spread share it, and so their bucket.
        """
        return zlib.crc32((self.family if self.family and not self.spread else "\0".join(self.target)).encode())

    def fingerprint(self) -> bytes:
        """Decides a row's bucket and what is written there; equal across runs when unchanged."""
        return _fingerprint(self)

    @property
    def only_once(self) -> bool:
        """Whether its rows can't be written again over those of an earlier attempt: rows without a
        key have no identity, and what a foreign key did to other rows depends on what they were then."""
        return not self.key or self.acts

    def once_place(self) -> bytes:
        """Decides the bucket of the rows of an ``only_once`` table, which is the same for all of them."""
        return stored_text((self.source, self.target, self.seed)).encode()

    def by_block(self) -> TablePlan | None:
        """The plan with neighbouring keys in one bucket; None where that is impossible, or would join too much:
        a conflict would include the neighbours of its rows, and their conflicts, and so all rows."""
        if not self.spread or self.may_conflict or self.key[-1] >= len(self.columns):
            return None
        normalizers = by_block(self.normalizers, self.columns[self.key[-1]])
        return replace(self, normalizers=normalizers) if normalizers else None

    def to_compare(self) -> TablePlan:
        """The plan for comparing rows, which can't conflict: all changes of one row are still in one bucket. The
        written columns begin with the key's."""
        if not set(self.key) <= set(self.write):
            return self
        rest = [number for number in self.write if number not in self.key]
        places = [self.write.index(number) for number in (*self.key, *rest)]
        return replace(
            self,
            conflict_keys=(),
            spread=self.spread and not self.key_changes_conflict,
            write=tuple(self.write[place] for place in places),
            write_names=tuple(self.write_names[place] for place in places),
            matchers=tuple(self.matchers[place] for place in places),
            texts=tuple(self.texts[place] for place in places),
        )

    @property
    def may_conflict(self) -> bool:
        """Whether rows of different keys may have to be in one bucket."""
        return bool(self.conflict_keys) or self.key_changes_conflict

    @property
    def key_changes_conflict(self) -> bool:
        """Whether the two keys of an update that changes the key conflict: the row moves, with values that only the
        target has."""
        only_there = bool(self.conflict_keys) or self.extra_columns or self.filter.leaves_gaps
        return self.mode == ORDERED and self.spread and only_there


@lru_cache(maxsize=4096)
def _fingerprint(plan: TablePlan) -> bytes:
    """Called once per plan of every batch; building the text takes ten times as long as hashing the plan."""
    rule = (plan.source, plan.target, plan.mode, plan.key_names, plan.write_names, plan.spread)
    # Only included if set: other plans have the fingerprint that earlier versions stored.
    watched = stored_text(tuple(key.watched for key in plan.conflict_keys))
    more = f"\0watched{watched}" * any(key.watched for key in plan.conflict_keys)
    placement = (plan.normalizers, plan.conflict_keys, plan.family + "\0acts" * plan.acts + more)
    rows = (plan.columns, plan.key, plan.write, plan.derived, plan.filter)
    return stored_text((rule, plan.rewrite_existing, plan.extra_columns, rows, placement)).encode()
