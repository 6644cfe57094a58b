"""Random tables and slices of rows events, some of them damaged."""

from __future__ import annotations

import random
import struct

from dm_worker.syncer.planning.batch import Slice
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.binlog.events import event_from_bytes
from pkg.binlog.rows.literals import codec_for
from pkg.binlog.table_map import parse_table_map
from tests.harness import binlog_bytes
from tests.unit.pkg.native.shapes import KINDS, Kind, Shape

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
