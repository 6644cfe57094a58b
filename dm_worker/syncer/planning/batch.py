"""What travels from the driver to the Spark tasks: batches, slices, table plans. Plain picklable data, no I/O."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from dm_worker.syncer.planning.xa import Waiting
from dm_worker.syncer.rows.conflict_sets import Tie
from dm_worker.syncer.rows.key_normalization import Canon, by_block
from dm_worker.syncer.rows.row_filter import TAKES_ALL, RowFilter
from dm_worker.syncer.rows.row_matching import Canonical, Expression
from pkg.binlog.derived import Derived
from pkg.binlog.position import Location
from pkg.mysql.schema import Column

#: Number of the table plan, length of the event, offset in the binlog file behind it.
RECORD = struct.Struct("<IIQ")
#: From this size (bytes of rows events) on, a batch is placed by blocks of neighbouring keys.
BLOCKS_FROM = 16 << 20
#: How many rows of which upstream tables were passed over, because they are held back.
Held = Mapping[tuple[str, str], int]
#: Rows are compacted to their last image per key and written many per statement.
COMPACT = "compact"
#: Rows are written one by one in binlog order: tables without a usable key, or when the task asks for it.
ORDERED = "ordered"


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How the rows of one upstream table shape are decoded and where they are written.

    ``number`` names the plan within one run of the unit, ``target_number`` its target table, ``source_number`` its
    upstream table. ``key`` and ``write`` are indexes into ``columns`` (the upstream structure) and behind them into
    ``derived``, the literals that mapped and extracted columns get; ``key`` is empty for a table without a usable key.
    ``spread`` tells that rows are placed by their key, in the canonical forms ``canons`` (one per key column);
    otherwise the whole target table is one bucket. ``ties`` put rows that conflict by other keys into one bucket.
    ``family`` names the tables that foreign keys connect to this one, when the target checks them: their rows keep
    their order among each other. ``acts``: one of these keys changes rows by itself; ``referenced`` are the columns
    that such keys refer to.
    ``rewrite_existing`` asks for DELETE + INSERT instead of INSERT … ON DUPLICATE KEY UPDATE, because the target has
    further unique keys whose values rows may swap; with ``ties``, only for rows whose
    values in them changed.
    ``extra_columns``: the target has columns that the upstream lacks.
    ``loadable``: LOAD DATA reads the rows' literals as an INSERT does. ``numbered``: the target's table has an
    AUTO_INCREMENT column.
    ``bulk``: the target's written columns when rows may go by bulk executions, none otherwise.
    ``matchers``, one per written column, compare the target's column with a literal exactly. ``digests``, for tables
    without a key, are the canonical forms of the written columns; empty when rows can't be told by a digest of them.
    ``lookups`` are the numbers of those among the written columns that an index of the target begins with.
    ``filter`` tells which row changes are left out.
    ``computed`` names the target's generated columns. ``alike``: the written columns are the upstream's in type, so
    they hold whatever it holds.
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
    matchers: tuple[Expression, ...]
    spread: bool
    rewrite_existing: bool = False
    extra_columns: bool = False
    loadable: bool = False
    numbered: bool = False
    bulk: tuple[Column, ...] = ()
    canons: tuple[Canon, ...] = ()
    ties: tuple[Tie, ...] = ()
    family: str = ""
    acts: bool = False
    referenced: tuple[int, ...] = ()
    source_number: int = 0
    derived: tuple[Derived, ...] = ()
    filter: RowFilter = TAKES_ALL
    digests: tuple[Canonical, ...] = ()
    lookups: tuple[int, ...] = ()
    computed: tuple[str, ...] = ()
    alike: bool = False

    @property
    def seed(self) -> int:
        """The start value of the row hash: stable across runs, different for each target table.

        Tables of one family that are not spread share it, and so their bucket.
        """
        return zlib.crc32((self.family if self.family and not self.spread else "\0".join(self.target)).encode())

    def fingerprint(self) -> bytes:
        """What decides which bucket a row falls into and what is written there; equal across runs when unchanged."""
        rule = (self.source, self.target, self.mode, self.key_names, self.write_names, self.spread)
        placement = (self.canons, self.ties, self.family + "\0acts" * self.acts)
        rows = (self.columns, self.key, self.write, self.derived, self.filter)
        return repr((rule, self.rewrite_existing, self.extra_columns, rows, placement)).encode()

    @property
    def only_once(self) -> bool:
        """Whether its rows can't be written again over what an earlier attempt wrote: nothing tells rows without a key
        apart, and what a foreign key did to other rows depends on what they were then."""
        return not self.key or self.acts

    def once_place(self) -> bytes:
        """What decides which bucket the rows of an ``only_once`` table fall into, which is the same for all of them."""
        return repr((self.source, self.target, self.seed)).encode()

    def by_block(self) -> TablePlan | None:
        """The plan with neighbouring keys in one bucket; None where that can't be, or would bind too much together:
        where rows are tied, a tie would bind their neighbours, and theirs, and so all."""
        if not self.spread or self.binds or self.key[-1] >= len(self.columns):
            return None
        canons = by_block(self.canons, self.columns[self.key[-1]])
        return replace(self, canons=canons) if canons else None

    @property
    def binds(self) -> bool:
        """Whether rows of different keys may belong into one bucket."""
        return bool(self.ties) or self.moves_rows

    @property
    def moves_rows(self) -> bool:
        """Whether an update that changes the key moves the row, with what only the target knows of it."""
        only_there = bool(self.ties) or self.extra_columns or self.filter.leaves_gaps
        return self.mode == ORDERED and self.spread and only_there


@dataclass(frozen=True, slots=True)
class Slice:
    """A run of rows events, in binlog order, as bytes: no object per event travels to the tasks.

    ``data`` are the events one behind the other, each whole with its header and without its checksum. ``index`` has
    one :data:`RECORD` per event. ``file`` is the binlog file that all of them are in.
    """

    order: int
    data: bytes
    index: bytes
    file: str

    @classmethod
    def pack(
        cls, order: int, events: Sequence[bytes], plans: Sequence[int], positions: Sequence[int], file: str
    ) -> Slice:
        """A slice of ``events``; ``plans[i]`` and ``positions[i]`` belong to ``events[i]``."""
        index = b"".join(map(RECORD.pack, plans, map(len, events), positions))
        return cls(order, b"".join(events), index, file)

    def events(self) -> Iterator[tuple[bytes, int, int]]:
        """Each event with the number of its table plan and the offset in ``file`` behind it."""
        start = 0
        for number, length, position in RECORD.iter_unpack(self.index):
            yield self.data[start : start + length], number, position
            start += length

    def plan_numbers(self) -> set[int]:
        """The numbers of the table plans that its events need."""
        return {number for number, _, _ in RECORD.iter_unpack(self.index)}


@dataclass(slots=True)
class Batch:
    """A range of the binlog to be applied as one. ``start`` and ``end`` are where it begins and what follows it.

    ``commit_time`` is the upstream's commit time (unix seconds) of the oldest transaction in it. ``prepared`` are
    the XA transactions that wait for their XA COMMIT at ``end``. ``held`` are rows of the range that are held back.
    """

    start: Location
    end: Location
    slices: list[Slice]
    plans: dict[int, TablePlan]
    rows_events: int
    size: int
    commit_time: int
    transactions: int = 0
    safe: bool = False
    inside_transaction: bool = False
    prepared: Waiting = field(default_factory=dict)
    held: Held = field(default_factory=dict)

    def by_blocks(self) -> Batch:
        """The batch as it is placed: a large one has rows of neighbouring keys in one bucket.

        Its rows then lie on index pages that one writer has for itself. A small one would be all in one bucket.
        """
        if self.size < BLOCKS_FROM:
            return self
        wide = {number: plan.by_block() for number, plan in self.plans.items()}
        # Rows of a target that several tables come from are placed alike, whichever table they come from.
        narrow = {self.plans[number].target_number for number, plan in wide.items() if plan is None}
        plans = {
            number: self.plans[number] if plan is None or plan.target_number in narrow else plan
            for number, plan in wide.items()
        }
        return replace(self, plans=plans)

    def fingerprint(self, buckets: int, settings: bytes = b"") -> str:
        """A digest of the batch's planning. A batch done again under another digest may fall into other buckets."""
        digest = blake2b(settings, digest_size=16)
        digest.update(b"%d" % buckets)
        # A plan may be there twice, made before and after the upstream opened its table again.
        for rule in sorted({plan.fingerprint() for plan in self.plans.values()}):
            digest.update(rule)
        return digest.hexdigest()

    def keyless_fingerprint(self, buckets: int) -> str:
        """As :meth:`fingerprint`, of what places the rows of tables without a key, and of those that foreign keys act
        on. Far fewer changes alter it."""
        digest = blake2b(b"%d" % buckets, digest_size=16)
        for place in sorted({plan.once_place() for plan in self.plans.values() if plan.only_once}):
            digest.update(place)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a bucket's transaction needs to prove its right to write: whose batch, and under which epoch.

    ``since`` is the number of the first attempt at the batch's range that placed the rows of ``only_once`` tables as
    this one does.
    """

    source_id: str
    number: int
    epoch: int
    since: int

    @property
    def replanned(self) -> bool:
        """Whether an earlier attempt, under another plan, may have written the rows of ``only_once`` tables."""
        return self.since < self.number


@dataclass(slots=True)
class BucketResult:
    """What one bucket's transaction did. ``skipped``: an earlier attempt had already applied it.

    ``failures``: how many tries the target refused for now (a deadlock, a lock wait, a lost connection), ``cause`` the
    last one's error, ``waited`` the seconds from the first of them on.
    """

    bucket: int
    changes: int = 0
    statements: int = 0
    skipped: bool = False
    failures: int = 0
    cause: str = ""
    waited: float = 0.0
