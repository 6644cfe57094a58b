"""The data that the driver sends to the Spark tasks: batches and their slices. Pure, picklable data."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from dm_worker.syncer.planning.xa import PreparedLocations
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.binlog.position import Location

#: Number of the table plan, length of the event, offset in the binlog file after it.
RECORD = struct.Struct("<IIQ")
#: From this size (bytes of rows events) on, a batch is distributed by blocks of neighbouring keys.
BLOCKS_FROM = 16 << 20
#: The number of skipped rows of each upstream table whose rows are held back.
HeldRowCounts = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Slice:
    """A run of rows events, in binlog order, as bytes: the tasks receive no object per event.

    ``data`` are the events one after the other, each whole with its header and without its checksum. ``index`` has
    one :data:`RECORD` per event. ``file`` is the binlog file of all of them.
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
        """Each event with the number of its table plan and the offset in ``file`` after it."""
        start = 0
        for number, length, position in RECORD.iter_unpack(self.index):
            yield self.data[start : start + length], number, position
            start += length

    def latest_first(self) -> Iterator[tuple[memoryview, int, int]]:
        """As :meth:`events`, from the last one on. Nothing is copied."""
        end, data = len(self.data), memoryview(self.data)
        for at in range(len(self.index) - RECORD.size, -1, -RECORD.size):
            number, length, position = RECORD.unpack_from(self.index, at)
            yield data[end - length : end], number, position
            end -= length

    def plan_numbers(self) -> set[int]:
        """The numbers of the table plans that its events need."""
        return {number for number, _, _ in RECORD.iter_unpack(self.index)}


@dataclass(slots=True)
class Batch:
    """A range of the binlog to apply as one. ``start`` is its start, ``end`` the location after it.

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
    prepared: PreparedLocations = field(default_factory=dict)
    held: HeldRowCounts = field(default_factory=dict)

    def by_blocks(self) -> Batch:
        """The batch as it is distributed: a large one has rows of neighbouring keys in one bucket.

        Each index page is then written by one writer only. A small batch would be in one bucket completely.
        """
        if self.size < BLOCKS_FROM:
            return self
        wide = {number: plan.by_block() for number, plan in self.plans.items()}
        # Rows of a target with several source tables are distributed the same way for all of them.
        narrow = {self.plans[number].target_number for number, plan in wide.items() if plan is None}
        plans = {
            number: self.plans[number] if plan is None or plan.target_number in narrow else plan
            for number, plan in wide.items()
        }
        return replace(self, plans=plans)

    def fingerprint(self, buckets: int, settings: bytes = b"") -> str:
        """A digest of the batch's planning. Under another digest, rows may move to other buckets."""
        digest = blake2b(settings, digest_size=16)
        digest.update(b"%d" % buckets)
        # A plan may occur twice, created before and after the upstream opened its table again.
        for rule in sorted({plan.fingerprint() for plan in self.plans.values()}):
            digest.update(rule)
        return digest.hexdigest()

    def keyless_fingerprint(self, buckets: int) -> str:
        """As :meth:`fingerprint`, but only of what decides the buckets of rows without a key and of rows that foreign
        keys act on. Far fewer changes alter it."""
        digest = blake2b(b"%d" % buckets, digest_size=16)
        for placement in sorted({plan.once_place() for plan in self.plans.values() if plan.only_once}):
            digest.update(placement)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class WriteToken:
    """A bucket's proof of its transaction's right to write: the batch's source, and the epoch.

    ``keyless_since`` is the number of the first attempt at the batch's range that distributed the rows of ``only_once``
    tables in the same way.
    """

    source_id: str
    number: int
    epoch: int
    keyless_since: int

    @property
    def replanned(self) -> bool:
        """Whether an earlier attempt, under another plan, may have written the rows of ``only_once`` tables."""
        return self.keyless_since < self.number
