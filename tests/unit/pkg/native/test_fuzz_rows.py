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
from pkg.errors import DMError
from tests.compiled import required
from tests.harness import binlog_bytes
from tests.unit.pkg.native.damaged_rows import mutated, random_slice, random_tables
from tests.unit.pkg.native.shapes import KINDS, Shape

KERNEL = required("rows")
ROUNDS = int(os.environ.get("DM_FUZZ_ROUNDS", "1500"))
SEED = int(os.environ.get("DM_TEST_SEED", "1"))


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
