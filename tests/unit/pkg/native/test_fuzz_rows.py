"""Hazard: bytes that no server wrote make the compiled row kernel read or write where it must not.

Runs a bounded number of mutations; ``DM_FUZZ_ROUNDS`` asks for more. Under a sanitizer (see pkg/native/README.md) a
wrong access ends the process.
"""

from __future__ import annotations

import os
import random
import struct

import pytest

from dm_worker.syncer.execution import partition, row_statements
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.planning.batch import RECORD, Slice
from dm_worker.syncer.rows.kernel_layout import placement_of
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.binlog.events import event_from_bytes
from pkg.binlog.literals import codec_for
from pkg.binlog.table_map import parse_table_map
from pkg.errors import DMError
from tests.compiled import required
from tests.harness import binlog_bytes
from tests.unit.pkg.native.shapes import KINDS, Kind, Shape

KERNEL = required("rows")
ROUNDS = int(os.environ.get("DM_FUZZ_ROUNDS", "1500"))
SEED = int(os.environ.get("DM_TEST_SEED", "1"))
#: What bytes may be made to claim.
NASTY = (0, 1, 2, 0x7F, 0x80, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)


def mutated(random_: random.Random, data: bytes) -> bytes:
    raw = bytearray(data)
    for _ in range(random_.randrange(1, 5)):
        what = random_.randrange(6)
        at = random_.randrange(len(raw) + 1)
        if what == 0 and at < len(raw):
            raw[at] = random_.choice(NASTY)
        elif what == 1 and at < len(raw):
            raw[at] ^= 1 << random_.randrange(8)
        elif what == 2:
            raw[at : at + 4] = struct.pack("<I", random_.choice((0, 1, 2**31, 2**32 - 1, random_.randrange(2**32))))
        elif what == 3:
            del raw[at : at + random_.randrange(1, 9)]
        elif what == 4:
            raw[at:at] = random_.randbytes(random_.randrange(1, 9))
        else:
            del raw[at:]
    return bytes(raw)


def size_of(kind: Kind) -> tuple[int, int]:
    """Bytes of a value of fixed size, bytes of the length before others."""
    table_map = parse_table_map(event_from_bytes(Shape((kind,), (False,), (0,)).table_map))
    codec = codec_for(table_map.types[0], table_map.metas[0], kind.column("c", nullable=False))
    return struct.calcsize("<" + codec.fixed) if codec.fixed else 0, codec.prefix


SIZES = {kind: size_of(kind) for kind in KINDS}
#: Types that take any bytes.
CALM = [kind for kind in KINDS if kind.type_name in ("int", "bigint", "year", "date", "time", "bit", "varchar", "blob")]


def random_shape(random_: random.Random) -> Shape:
    from_ = random_.choice((KINDS, CALM))
    kinds = tuple(random_.choice(from_) for _ in range(random_.randrange(1, 12)))
    key = tuple(random_.sample(range(len(kinds)), random_.randrange(0, min(3, len(kinds)) + 1)))
    # Keys of real tables have no NULLs.
    return Shape(kinds, tuple(i not in key and random_.random() < 0.4 for i in range(len(kinds))), key)


def random_row(random_: random.Random, shape: Shape) -> bytes:
    values: list[bytes | None] = []
    for kind, null in zip(shape.kinds, shape.nullable, strict=True):
        fixed, prefix = SIZES[kind]
        size = fixed or random_.randrange(0, 12)
        value = (size.to_bytes(prefix, "little") if prefix else b"") + random_.randbytes(size)
        values.append(None if null and random_.random() < 0.3 else value)
    return shape.image(values)


Tables = list[tuple[Shape, TablePlan]]


def random_tables(random_: random.Random) -> Tables:
    tables: Tables = []
    while len(tables) < 60:
        shape = random_shape(random_)
        plan = shape.plan(len(tables), len(tables) % 3)
        if plan.mode == "compact":
            tables.append((shape, plan))
    return tables


def random_slice(random_: random.Random, tables: Tables) -> tuple[Slice, dict[int, TablePlan]]:
    plans, events = {}, []
    for shape, plan in random_.sample(tables, random_.randrange(1, 4)):
        number = plan.number
        plans[number] = plan
        for _ in range(random_.randrange(1, 4)):
            images = b"".join(random_row(random_, shape) for _ in range(random_.choice((1, 2, 4))))
            kind = random_.choice((23, 24, 25, 30, 31, 32) * 4 + (166, 170))
            event = binlog_bytes.rows(kind, len(shape.kinds), images)
            events.append((number, mutated(random_, event) if random_.random() < 0.5 else event))
    sizes = [len(raw) for _, raw in events]
    return Slice.pack(0, [raw for _, raw in events], [n for n, _ in events], sizes, "b.1"), plans


def test_mutated_slices_are_rows_or_errors() -> None:
    random_ = random.Random(SEED)
    counts = {"rows": 0, "errors": 0}
    for round_ in range(ROUNDS):
        if round_ % 5000 == 0:
            tables = random_tables(random_)
        part, plans = random_slice(random_, tables)
        for kernel in (KERNEL, None) if random_.random() < 0.1 else (KERNEL,):
            try:
                partition.partition_slice(
                    part, plans, random_.randrange(1, 9), safe=random_.random() < 0.5, kernel=kernel
                )
                counts["rows"] += 1
            except DMError:
                counts["errors"] += 1
    assert min(counts.values()) > ROUNDS // 50, counts


def test_slices_whose_index_lies_are_errors() -> None:
    random_ = random.Random(SEED)
    shape = Shape((KINDS[6],), (False,), (0,))
    plan = shape.plan(1, 1)
    decoder = partition.decoder_of(plan)
    spec = {1: (decoder.readers, decoder.prepare, 1, 1, placement_of(KERNEL, plan))}
    event = binlog_bytes.rows(23, 1, shape.image([bytes(4)]))
    for size in (len(event) + 1, 2**31, 2**32 - 1):
        with pytest.raises(ValueError):
            KERNEL.partition(event, RECORD.pack(1, size, 0), spec, 2, False)
    with pytest.raises(ValueError):
        KERNEL.partition(event, b"short", spec, 2, False)
    with pytest.raises(ValueError):
        KERNEL.partition(event, RECORD.pack(1, len(event), 0), spec, 0, False)
    for _ in range(ROUNDS // 10):
        index = mutated(random_, RECORD.pack(1, len(event), 7) * 2)
        try:
            KERNEL.partition(event * 2, index, spec, 2, True)
        except (ValueError, KERNEL.EventError):
            continue


def test_mutated_blocks_are_groups_or_errors() -> None:
    random_ = random.Random(SEED)
    shape = Shape((KINDS[6], KINDS[0]), (False, False), (0, 1))
    plans = {number: shape.plan(number, number % 2) for number in (1, 2, 3)}
    images = [shape.image([struct.pack("<i", n), b"\1"]) for n in range(6)]
    events = [(n % 3 + 1, binlog_bytes.rows(23, 2, image)) for n, image in enumerate(images)]
    part = Slice.pack(0, [raw for _, raw in events], [n for n, _ in events], [1] * 6, "b.1")
    blocks = [data for _, data in partition.partition_slice(part, plans, 2)]
    forms = {number: StatementForm(limit=random_.choice((0, 150, 10**6))) for number in plans}
    rules = {number: tuple(row_statements.write_rule_of(plan, forms[number])) for number, plan in plans.items()}
    failed = 0
    for round_ in range(ROUNDS):
        bad = tuple(mutated(random_, random_.choice(blocks)) for _ in range(2))
        try:
            KERNEL.merge(bad, rules, round_ % 2 == 0)
        except (ValueError, KeyError, KERNEL.Impossible):
            failed += 1
    assert 0 < failed < ROUNDS


def test_programs_that_do_not_fit_are_refused() -> None:
    good = (1, 0, "i", True, False, 4, 0, 0, None, b"", b"", b"")
    KERNEL.Readers((good,), (0,), (0,))
    for place, value in ((0, 20), (0, 2**32 - 1), (1, 9), (5, 0), (5, 9), (5, 2**31)):
        with pytest.raises(ValueError):
            KERNEL.Readers(((*good[:place], value, *good[place + 1 :]),), (0,), (0,))
    for op, size, a, b in ((8, 4, 66, 2), (8, 4, 9, 10), (14, 5, 6, 0), (13, 3, 7, 0)):
        bad = (op, 0, "s", False, False, size, a, b)
        with pytest.raises(ValueError):
            KERNEL.Readers(((*bad, None, b"", b"", b""),), (0,), (0,))
    # Rare values go to Python: it must not be given more bytes than there are.
    for op, raw, size in ((9, "d", 3), (1, "f", 2)):
        with pytest.raises(ValueError):
            KERNEL.Readers(((op, 0, raw, False, False, size, 0, 0, None, b"", b"", b""),), (0,), (0,))
    for key in ((1,), (-1,)):
        with pytest.raises(ValueError):
            KERNEL.Readers((good,), key, (0,))
    with pytest.raises(TypeError):
        KERNEL.Readers((good[:5],), (0,), (0,))
    KERNEL.Readers((good,), (1,), (1,), ((-1, 0, 0, b"'x'", None),))
    for source in (1, -2):
        with pytest.raises(ValueError, match="derived from no column"):
            KERNEL.Readers((good,), (0,), (0,), ((source, 0, 0, b"", bytes),))
    with pytest.raises(TypeError):
        KERNEL.Readers((good,), (0,), (0,), ((0, 0, 0, None, bytes),))
