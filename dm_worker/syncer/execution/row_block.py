"""Blocks: all rows of one bucket from one slice as bytes, so that a shuffle moves no rows. Pure.

A block is a header, the number of row changes that it represents, and sections. A section is one target table's
compacted states, or its ordered rows. There may be several sections of one table. Numbers are little-endian.

``marshal`` packs lists of bytes several times faster than pickle; driver and executors run the same Python.
"""

from __future__ import annotations

import marshal
import struct
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType

from dm_worker.syncer.execution.compaction import GONE, JOINED, MARKS
from pkg.binlog.rows.row_decoder import KERNEL

#: The number of row changes that the block represents.
HEADER = struct.Struct("<I")
#: Target number, kind, number of records.
SECTION = struct.Struct("<IBI")
#: Plan number, state, row hash, length of the key, length of the values; key and values follow.
STATE = struct.Struct("<IBIII")
#: The offset of the state in a record.
STATE_AT = 4
#: Sequence, plan number, operation, row hash, length; ``marshal`` of (position, before, after) follows.
ROW = struct.Struct("<QIBII")
#: Later versions write reference counts of objects: the bytes would not depend on the row alone.
_MARSHAL = 2
#: Kinds of sections.
STATES, ROWS = 0, 1

#: (sequence, operation, plan number, position in the binlog, before image, after image): an ordered row.
#: ``family_rows.UNCHECKED`` may be added to the operation.
OrderedRow = tuple[int, int, int, int, list[bytes] | None, list[bytes] | None]
#: (key, state, plan number, values).
PackedState = tuple[bytes, int, int, bytes]


def state_record(plan: int, state: int, row_hash: int, key: bytes, values: bytes) -> bytes:
    """One key's state for a section of kind ``STATES``."""
    return STATE.pack(plan, state, row_hash, len(key), len(values)) + key + values


def row_record(row: OrderedRow, row_hash: int) -> bytes:
    """One row for a section of kind ``ROWS``."""
    sequence, op, plan, position, before, after = row
    body = marshal.dumps((position, before, after), _MARSHAL)
    return ROW.pack(sequence, plan, op, row_hash, len(body)) + body


def section(target: int, kind: int, records: Iterable[bytes], count: int) -> bytes:
    """The ``count`` records of one target table, after their header; some may be in one piece."""
    return SECTION.pack(target, kind, count) + b"".join(records)


def sections(data: bytes, order: int = 0) -> Iterator[tuple[int, list[PackedState], list[OrderedRow]]]:
    """(target number, states, rows) of every section; one of the two is empty. ``order`` is that of the slice. Raises
    ``ValueError`` for torn bytes."""
    at, end = HEADER.size, len(data)
    try:
        while at < end:
            target, kind, count = SECTION.unpack_from(data, at)
            at += SECTION.size
            if kind == STATES:
                states, at = _states(data, at, count)
                yield target, states, []
            elif kind == ROWS:
                rows, at = rows_at(data, at, count, order)
                yield target, [], rows
            else:
                raise ValueError(f"a block has no sections of kind {kind}")
    except (struct.error, EOFError, TypeError) as exc:
        raise ValueError(f"torn block: {exc}") from exc
    if at != end:
        raise ValueError(f"torn block: it ends at byte {end} of {at}")


def changes_of(data: bytes) -> int:
    """The number of row changes that the block represents."""
    if len(data) < HEADER.size:
        raise ValueError("torn block: no header")
    count: int = HEADER.unpack_from(data)[0]
    return count


def _states(data: bytes, at: int, count: int) -> tuple[list[PackedState], int]:
    states: list[PackedState] = []
    unpack, size = STATE.unpack_from, STATE.size
    for _ in range(count):
        plan, state, _hash, key_size, values_size = unpack(data, at)
        if state & ~MARKS > GONE:
            raise ValueError(f"torn block: state {state}")
        at += size
        middle = at + key_size
        states.append((data[at:middle], state, plan, data[middle : middle + values_size]))
        at = middle + values_size
    return states, at


def rows_at(data: bytes, at: int, count: int, order: int = 0) -> tuple[list[OrderedRow], int]:
    """``count`` rows from offset ``at`` on, and their end. The sequences continue across slices by their ``order``."""
    rows: list[OrderedRow] = []
    unpack, size, load, before = ROW.unpack_from, ROW.size, marshal.loads, order << 64
    for _ in range(count):
        sequence, plan, op, _hash, length = unpack(data, at)
        start = at + size
        at = start + length
        rows.append((before | sequence, op, plan, *load(data[start:at])))
    return rows, at


def reassign(
    data: bytes, home: int, moved: Mapping[int, int], buckets: int, kernel: ModuleType | None = KERNEL
) -> list[tuple[int, bytes]]:
    """The block of bucket ``home`` as (bucket, block), with its records in the buckets that ``moved`` gives.

    ``moved`` maps row hashes to hashes that decide the bucket instead, and states of these rows are marked as
    ``JOINED``; other rows stay. ``kernel``: the compiled row
    kernel, None for the Python code. Raises ``ValueError`` for torn bytes.
    """
    if kernel is not None:
        reassigned: list[tuple[int, bytes]] = kernel.reassign(data, home, moved, buckets)
        return reassigned
    if len(data) < HEADER.size or home >= buckets:
        raise ValueError("torn block: no header, or no such bucket")
    found: dict[int, list[bytes]] = {}
    try:
        for target, kind, numbers in _placed_records(data):
            records: dict[int, list[bytes]] = {}
            for number, record in numbers:
                bucket = moved[number] % buckets if number in moved else home
                joined = kind == STATES and number in moved
                records.setdefault(bucket, []).append(_joined(record) if joined else record)
            for bucket, kept in records.items():
                found.setdefault(bucket, []).append(section(target, kind, kept, len(kept)))
    except struct.error as exc:
        raise ValueError(f"torn block: {exc}") from exc
    # The changes are counted once, regardless of the new buckets of their rows.
    heads = [data[: HEADER.size], *[HEADER.pack(0)] * len(found)]
    return [
        (bucket, head + b"".join(parts)) for head, (bucket, parts) in zip(heads, sorted(found.items()), strict=False)
    ]


def _joined(record: bytes) -> bytes:
    """A record of kind ``STATES`` with its state marked."""
    return record[:STATE_AT] + bytes([record[STATE_AT] | JOINED]) + record[STATE_AT + 1 :]


def _placed_records(data: bytes) -> Iterator[tuple[int, int, list[tuple[int, bytes]]]]:
    """(target number, kind, [(row hash, record)]) of every section. Raises ``ValueError``, ``struct.error``."""
    at, end = HEADER.size, len(data)
    while at < end:
        target, kind, count = SECTION.unpack_from(data, at)
        at += SECTION.size
        if kind not in (STATES, ROWS):
            raise ValueError(f"torn block: no section is of kind {kind}")
        records: list[tuple[int, bytes]] = []
        for _ in range(count):
            start = at
            if kind == STATES:
                _, _, number, key_size, values_size = STATE.unpack_from(data, at)
                at += STATE.size + key_size + values_size
            else:
                _, _, _, number, length = ROW.unpack_from(data, at)
                at += ROW.size + length
            if at > end:
                raise ValueError(f"torn block: a record ends at byte {at} of {end}")
            records.append((number, data[start:at]))
        yield target, kind, records
