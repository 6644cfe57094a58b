"""Turns the events of a slice into one block per bucket: decodes, compacts, distributes. Pure."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from types import ModuleType

from dm_worker.syncer.execution import compaction, row_block
from dm_worker.syncer.execution.compaction import DELETE, INSERT, UPDATE, ImpossibleChange, KeyChange
from dm_worker.syncer.execution.family_rows import UNCHECKED
from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.figures.batch_report import Changes
from dm_worker.syncer.planning.batch import Slice
from dm_worker.syncer.rows.conflict_sets import ConflictCollector, ConflictPairs, KeyHash, key_hash
from dm_worker.syncer.rows.kernel_layout import placement_of
from dm_worker.syncer.rows.table_plan import COMPACT, TablePlan
from pkg.binlog import constants as c
from pkg.binlog.cursor import MALFORMED
from pkg.binlog.events import event_from_bytes
from pkg.binlog.position import Position
from pkg.binlog.rows.derived_literals import Derived
from pkg.binlog.rows.row_decoder import KERNEL, RowDecoder, RowImages
from pkg.binlog.table_map import parse_table_map
from pkg.errors import DMError
from pkg.mysql.schema import Column


class KeysMoved(Exception):
    """Updates change keys of compacted ``targets`` (numbers of target tables) that have additional columns.

    A delete and insert would lose their values: such rows must be updated one by one, in order.
    """

    def __init__(self, targets: frozenset[int]) -> None:
        super().__init__(targets)
        self.targets = targets


#: Bucket → its sections.
BucketSections = dict[int, list[bytes]]


def partition_slice(
    part: Slice,
    plans: Mapping[int, TablePlan],
    buckets: int,
    *,
    safe: bool = False,
    pairs: ConflictPairs | None = None,
    counts: dict[int, Changes] | None = None,
    kernel: ModuleType | None = KERNEL,
) -> list[tuple[int, bytes]]:
    """The rows of a slice as (bucket, block), by ascending bucket. Raises DMError with table and position, and
    ``KeysMoved`` for rows whose order matters.

    ``pairs`` collects conflicts of rows; needed when a plan has conflict keys. ``counts`` receives the row changes by
    plan, of the plans that have any.
    ``kernel``: the row kernel, None for the Python code.
    """
    pairs, moved = pairs if pairs is not None else ConflictPairs(), set[int]()
    counts = counts if counts is not None else {}
    used = {number: plans[number] for number in part.plan_numbers()}
    if any(not plan.filter.kinds.takes_all for plan in used.values()):
        part = _without_ignored(part, used)
    decoders = {number: decoder_of(plan, kernel) for number, plan in used.items()}
    placed: BucketSections = {}
    compacted = {number: plan for number, plan in used.items() if plan.mode == COMPACT}
    if kernel is None:
        readers = {
            number: _ConflictReader(plan, decoders[number], pairs)
            if plan.conflict_keys
            else _ChangeReader(decoders[number].changes)
            for number, plan in compacted.items()
        }
        _compacted(part, compacted, readers, buckets, placed, safe=safe)
        counts.update((number, reader.counts) for number, reader in readers.items() if any(reader.counts))
        moved |= {number for number, reader in readers.items() if reader.moved}
    else:
        counts.update(_compacted_natively(kernel, part, compacted, decoders, buckets, placed, pairs, moved, safe=safe))
    kept = frozenset(used[number].target_number for number in moved if used[number].extra_columns)
    if kept and not safe:
        # In safe mode it is unknown whether a row was moved already.
        raise KeysMoved(kept)
    counts.update(_ordered(part, used, decoders, buckets, placed, pairs, kernel))
    changes = sum(map(sum, counts.values()))
    blocks = []
    for bucket in sorted(placed):
        # The changes of a slice are counted once, regardless of the buckets of its rows.
        blocks.append((bucket, b"".join((row_block.HEADER.pack(changes), *placed[bucket]))))
        changes = 0
    return blocks


def decoder_of(plan: TablePlan, kernel: ModuleType | None = KERNEL) -> RowDecoder:
    """The decoder of a plan's rows, cached by the process. Raises DMError when structure and table map differ."""
    needed = plan.filter.columns_read(plan.columns)
    return _decoder(plan.table_map, plan.columns, plan.key, plan.write, plan.derived, needed, kernel)


@lru_cache(maxsize=4096)
def _decoder(
    table_map: bytes,
    columns: tuple[Column, ...],
    key: tuple[int, ...],
    write: tuple[int, ...],
    derived: tuple[Derived, ...],
    needed: tuple[int, ...],
    kernel: ModuleType | None,
) -> RowDecoder:
    shape = parse_table_map(event_from_bytes(table_map))
    return RowDecoder(shape, columns, key=key, write=write, derived=derived, needed=needed, kernel=kernel)


def _without_ignored(part: Slice, plans: Mapping[int, TablePlan]) -> Slice:
    """The slice without the events whose row changes are ignored. Raises 36015 for one that stops the task."""
    place = _EventPlace(part, plans)
    kept: list[tuple[bytes, int, int]] = []
    with place.locating_errors():
        for data, place.plan, place.position in part.events():
            # The decoder refuses events of other types.
            op, plan = c.ROWS_EVENTS.get(data[4], -1), plans[place.plan]
            refusal = plan.filter.refusal(op, plan.source) if op >= 0 else None
            if refusal is not None:
                raise refusal
            if op < 0 or not plan.filter.ignores(op):
                kept.append((data, place.plan, place.position))
    events, numbers, positions = zip(*kept, strict=True) if kept else ((), (), ())
    return Slice.pack(part.order, events, numbers, positions, part.file)


def row_hash(plan: TablePlan, key: bytes) -> int:
    """Decides a row's bucket, ``row hash % buckets``: the same on every machine and after every start."""
    return _hash_of(plan)(key)


def _hash_of(plan: TablePlan) -> KeyHash:
    seed = plan.seed
    return key_hash(plan.normalizers, seed) if plan.spread else lambda _: seed


class _ChangeReader:
    """Reads the changes of rows events for compaction, and counts them. ``moved``: one of them changed its key."""

    def __init__(self, changes: Callable[[bytes], list[KeyChange]]) -> None:
        self._changes = changes
        self._counts = [0, 0, 0]
        self.moved = False

    @property
    def counts(self) -> Changes:
        """The rows by operation."""
        return (self._counts[INSERT], self._counts[UPDATE], self._counts[DELETE])

    def _count(self, operations: Iterable[int]) -> None:
        for op, count in Counter(operations).items():
            self._counts[op] += count

    def read(self, data: bytes) -> list[KeyChange]:
        """The changes of an event, which may be more than its rows."""
        found = self._changes(data)
        self._count(op for op, *_ in found)
        self.moved = self.moved or any(op == UPDATE and old != key for op, key, _, old in found)
        return found


class _ConflictReader(_ChangeReader):
    """Reads the changes of a table with conflict keys, and their pairs. An update that changes a value of such a key
    becomes a delete and an insert, so that the value is free before another row takes it."""

    def __init__(self, plan: TablePlan, decoder: RowDecoder, pairs: ConflictPairs) -> None:
        super().__init__(decoder.changes)
        self._plan = plan
        self._images = decoder.images
        self._hash = key_hash(plan.normalizers, plan.seed)
        self._collect = ConflictCollector(plan.conflict_keys, plan.seed, key_changes_conflict=False).collect
        self._pairs = pairs

    def read(self, data: bytes) -> list[KeyChange]:
        found: list[KeyChange] = []
        plan, hash_of, collect, pairs = self._plan, self._hash, self._collect, self._pairs
        images = self._images(data)
        self._count(op for op, *_ in images)
        for op, before, after in images:
            old = None if before is None else _key(plan, before)
            new = None if after is None else _key(plan, after)
            old_hash = None if old is None else hash_of(old)
            new_hash = old_hash if new == old else None if new is None else hash_of(new)
            changes_hands = collect(pairs, old_hash, new_hash, before, after)
            if new is None or after is None:
                assert old is not None
                found.append((DELETE, old, b"", b""))
                continue
            values = b"(%b)" % b",".join([after[i] for i in plan.write])
            if op == UPDATE and old == new and changes_hands:
                found += [(DELETE, new, b"", b""), (INSERT, new, values, b"")]
            else:
                found.append((op, new, values, old or b""))
        return found


class _EventPlace:
    """The current position in the binlog, for error messages."""

    def __init__(self, part: Slice, plans: Mapping[int, TablePlan]) -> None:
        self._file = part.file
        self._plans = plans
        self.plan = 0
        self.position = 0

    @contextmanager
    def locating_errors(self) -> Iterator[None]:
        """Converts errors to DMError with the position in their message."""
        try:
            yield
        except ImpossibleChange as exc:
            plan = self._plans[self.plan]
            other = self._plans[exc.other_plan].source
            raise exc.to_error(plan.target, plan.source, other).at(str(self)) from exc
        except DMError as exc:
            raise exc.at(str(self)) from exc

    def __str__(self) -> str:
        return f"rows event that ends at {Position(self._file, self.position)}"


def _compacted(
    part: Slice,
    plans: Mapping[int, TablePlan],
    readers: Mapping[int, _ChangeReader],
    buckets: int,
    placed: BucketSections,
    *,
    safe: bool,
) -> None:
    """Compacts the rows of compacted tables and chooses their buckets."""
    if not plans:
        return
    states: dict[int, compaction.KeyStates] = {}
    wanted = {
        number: (readers[number].read, states.setdefault(plan.target_number, {})) for number, plan in plans.items()
    }
    place = _EventPlace(part, plans)
    sources = {number: plan.source_number for number, plan in plans.items()}
    with place.locating_errors():
        for data, place.plan, place.position in part.events():
            entry = wanted.get(place.plan)
            if entry is not None:
                compaction.compact_changes(entry[1], place.plan, entry[0](data), safe=safe, sources=sources)
    for target in sorted(states):
        _place_states(target, states[target], plans, buckets, placed)


def _place_states(
    target: int, states: compaction.KeyStates, plans: Mapping[int, TablePlan], buckets: int, placed: BucketSections
) -> None:
    records: dict[int, list[bytes]] = {}
    record = row_block.state_record
    hashes = {number: _hash_of(plan) for number, plan in plans.items() if plan.target_number == target}
    for key, (state, number, values) in states.items():
        place = hashes[number](key)
        records.setdefault(place % buckets, []).append(record(number, state, place, key, values))
    for bucket, found in records.items():
        placed.setdefault(bucket, []).append(row_block.section(target, row_block.STATES, found, len(found)))


def _compacted_natively(
    kernel: ModuleType,
    part: Slice,
    plans: Mapping[int, TablePlan],
    decoders: Mapping[int, RowDecoder],
    buckets: int,
    placed: BucketSections,
    pairs: ConflictPairs,
    moved: set[int],
    *,
    safe: bool,
) -> dict[int, Changes]:
    """The same as :func:`_compacted` by the compiled kernel; returns the row changes by plan. ``moved`` receives the
    plans of updates that change a key."""
    specs = {
        number: (
            *(decoders[number].readers, decoders[number].prepare),
            *(plan.target_number, plan.source_number, placement_of(kernel, plan)),
        )
        for number, plan in plans.items()
    }
    if not specs:
        return {}
    with _located(kernel, part, plans, decoders):
        changes, sections, packed, plans_moved = kernel.partition(part.data, part.index, specs, buckets, safe)
    for bucket, found in sections.items():
        placed.setdefault(bucket, []).append(found)
    pairs.extend(packed)
    moved.update(plans_moved)
    counted: dict[int, Changes] = changes
    return counted


@contextmanager
def _located(
    kernel: ModuleType, part: Slice, plans: Mapping[int, TablePlan], decoders: Mapping[int, RowDecoder]
) -> Iterator[None]:
    """Converts an error of the kernel with an event to the DMError with its position."""
    try:
        yield
    except kernel.EventError as exc:
        event, cause = exc.args
        place = _EventPlace(part, plans)
        data, place.plan, place.position = next(itertools.islice(part.events(), event, None))
        with place.locating_errors():
            if isinstance(cause, kernel.Impossible):
                raise ImpossibleChange(*cause.args) from None
            if isinstance(cause, MALFORMED):
                raise decoders[place.plan].malformed(data, "", cause) from cause
            raise cause from None


@dataclass(slots=True)
class _PackedRows:
    """Packed ordered rows of one bucket and target table: ``count`` rows, of which some may be in one piece."""

    packed: list[bytes] = field(default_factory=list)
    count: int = 0

    def add(self, packed: bytes, count: int = 1) -> None:
        self.packed.append(packed)
        self.count += count


def _ordered(
    part: Slice,
    plans: Mapping[int, TablePlan],
    decoders: Mapping[int, RowDecoder],
    buckets: int,
    placed: BucketSections,
    pairs: ConflictPairs,
    kernel: ModuleType | None,
) -> dict[int, Changes]:
    """Distributes the rows of tables whose order matters; returns the row changes by plan.

    A row's sequence is ``event number << 32 | row number in the event``, to restore the binlog order of rows of several
    tables in one bucket.
    """
    wanted = {number: plan for number, plan in plans.items() if plan.mode != COMPACT}
    if not wanted:
        return {}
    records = defaultdict[tuple[int, int], _PackedRows](_PackedRows)
    counts = {number: [0, 0, 0] for number in wanted}
    if kernel is not None:
        whole = {number: plan for number, plan in wanted.items() if not plan.spread and not plan.filter.reads_rows}
        _packed_natively(kernel, part, whole, decoders, buckets, records, counts)
        wanted = {number: plan for number, plan in wanted.items() if number not in whole}
    collectors = {
        number: ConflictCollector(plan.conflict_keys, plan.seed, key_changes_conflict=True)
        for number, plan in wanted.items()
        if plan.key_changes_conflict
    }
    place = _EventPlace(part, plans)
    with place.locating_errors():
        for event, (data, place.plan, place.position) in enumerate(part.events() if wanted else ()):
            plan = wanted.get(place.plan)
            if plan is None:
                continue
            unchecked = UNCHECKED if plan.family and data[c.ROWS_FLAGS] & c.FLAG_NO_FOREIGN_KEY_CHECKS else 0
            images: Sequence[RowImages] = decoders[plan.number].images(data)
            if plan.filter.reads_rows:
                images = plan.filter.compiled(plan.columns)(images, int.from_bytes(data[:4], "little"))
            for n, (op, before, after) in enumerate(images):
                counts[plan.number][op] += 1
                row = (event << 32 | n, op, plan.number, place.position, before, after)
                for where, moved in _moves(row, plan, buckets, collectors.get(plan.number), pairs):
                    packed = row_block.row_record((moved[0], moved[1] | unchecked, *moved[2:]), where)
                    records[where % buckets, plan.target_number].add(packed)
    for (bucket, target), found in sorted(records.items(), key=itemgetter(0)):
        if found.count:
            placed.setdefault(bucket, []).append(row_block.section(target, row_block.ROWS, found.packed, found.count))
    return {number: (found[INSERT], found[UPDATE], found[DELETE]) for number, found in counts.items() if any(found)}


def _packed_natively(
    kernel: ModuleType,
    part: Slice,
    plans: Mapping[int, TablePlan],
    decoders: Mapping[int, RowDecoder],
    buckets: int,
    records: Mapping[tuple[int, int], _PackedRows],
    counts: Mapping[int, list[int]],
) -> None:
    """Packs the rows of plans whose rows all stay in one bucket. ``counts`` receives their row changes."""
    places = {number: (plan.seed % buckets, plan.target_number) for number, plan in plans.items()}
    slots = {place: slot for slot, place in enumerate(dict.fromkeys(places.values()))}
    specs = {
        number: (
            *(decoders[number].readers, decoders[number].prepare, slots[places[number]]),
            *(plan.seed, UNCHECKED if plan.family else 0),
        )
        for number, plan in plans.items()
    }
    if not specs:
        return
    with _located(kernel, part, plans, decoders):
        packed, changes = kernel.records(part.data, part.index, specs)
    for place, (found, count) in zip(slots, packed, strict=False):
        records[place].add(found, count)
    for number, *found in changes:
        counts[number][:] = found


def _moves(
    row: OrderedRow, plan: TablePlan, buckets: int, collector: ConflictCollector | None, pairs: ConflictPairs
) -> list[tuple[int, OrderedRow]]:
    """(row hash, row); an update that moves a row to another bucket becomes a delete and an insert, unless the two
    conflict."""
    if not plan.spread:
        return [(plan.seed, row)]
    sequence, op, number, position, before, after = row
    old, new = (None if image is None else row_hash(plan, _key(plan, image)) for image in (before, after))
    if collector is not None:
        collector.collect(pairs, old, new, before, after)
    elif op == UPDATE and old is not None and new is not None and old % buckets != new % buckets:
        return [
            (old, (sequence, DELETE, number, position, before, None)),
            (new, (sequence, INSERT, number, position, None, after)),
        ]
    where = new if old is None else old
    assert where is not None
    return [(where, row)]


def _key(plan: TablePlan, image: list[bytes]) -> bytes:
    return b",".join([image[i] for i in plan.key])
