"""What is fuzzed: functions of a buffer of bytes, which decide on all that a compiled part is given.

Most are property tests that compare a compiled part with its twin in Python: Hypothesis makes their examples from the
buffer. The others damage what such parts read, harder than any server or network would.
"""

from __future__ import annotations

import contextlib
import random
import re
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from dm_worker.comparison.unpaired_rows import TARGET, PythonUnpairedRows
from dm_worker.loader import sql_file
from dm_worker.relay.scan import Scanned, python_scan
from dm_worker.syncer.execution import merge, partition, row_statements
from dm_worker.syncer.execution.compaction import ImpossibleChange
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.rows.conflict_sets import ConflictPairs
from dm_worker.syncer.rows.kernel_layout import placement_of
from dm_worker.table_reads.column_literals import LiteralKind
from pkg.errors import DMError
from tests.compiled import required
from tests.harness import binlog_bytes
from tests.unit.dm_worker.dumper import test_insert_statements as dump
from tests.unit.dm_worker.loader import test_bulk_rows as bulk_rows
from tests.unit.dm_worker.loader import test_row_rewriter as row_rules
from tests.unit.dm_worker.loader import test_sql_file as sql_statements
from tests.unit.dm_worker.relay import test_scan as relay
from tests.unit.pkg.binlog import test_fuzz as binlog
from tests.unit.pkg.native import damaged_rows
from tests.unit.pkg.native import test_derived_literals as derived
from tests.unit.pkg.native import test_partial_images as partial_images
from tests.unit.pkg.native import test_placement as placement
from tests.unit.pkg.native import test_ranks as ranks
from tests.unit.pkg.native import test_rows_kernel as rows
from tests.unit.pkg.native import test_scan as scan
from tests.unit.pkg.native.scan_log import WORDS, Writer
from tests.unit.pkg.native.support import assert_reassigned_alike

Target = Callable[[bytes], object]
_ROWS, _RELAY, _DUMP, _SQL, _SCAN, _COMPARE = (
    required(name) for name in ("rows", "relay", "dump", "sqlscan", "scan", "compare")
)


def _property(test: Any) -> Target:
    fuzz: Target = test.hypothesis.fuzz_one_input
    return fuzz


def _outcome(work: Callable[[], Any], *refusals: type[Exception]) -> Any:
    try:
        return work()
    except refusals as exc:
        return type(exc)


def _damaged(random_: random.Random, data: bytes) -> bytes:
    """``data`` with some bytes flipped, set, left out or put in, two pieces swapped, or its end cut off."""
    raw = bytearray(damaged_rows.mutated(random_, data)) if data and random_.random() < 0.8 else bytearray(data)
    if len(raw) > 8 and random_.random() < 0.3:
        a, b, c = sorted(random_.sample(range(len(raw)), 3))
        raw[a:c] = raw[b:c] + raw[a:b]
    return bytes(raw)


_TABLES = damaged_rows.random_tables(random.Random(1))


def damaged_slices(buffer: bytes) -> None:
    """Events of damaged rows: the same blocks and pairs from both, or no blocks from either; then damaged blocks."""
    random_ = random.Random(buffer)
    part, plans = damaged_rows.random_slice(random_, _TABLES)
    buckets, safe = random_.randrange(1, 9), random_.random() < 0.5
    found = []
    for kernel in (_ROWS, None) if random_.random() < 0.3 else (_ROWS,):
        pairs, counts = ConflictPairs(), dict[int, tuple[int, int, int]]()
        use = partial(
            partition.partition_slice, part, plans, buckets, safe=safe, pairs=pairs, counts=counts, kernel=kernel
        )
        blocks = _outcome(use, DMError, partition.KeysMoved)
        found.append((blocks, (sorted(pairs.packed()), counts) if isinstance(blocks, list) else None))
    assert found[0] == found[-1]
    if not isinstance(found[0][0], list):
        return
    rules = {number: row_statements.write_rule_of(plan, StatementForm(safe=safe)) for number, plan in plans.items()}
    for _, block in found[0][0]:
        with contextlib.suppress(ValueError, KeyError, DMError, ImpossibleChange):
            merge.merge_blocks([(0, _damaged(random_, block))], rules, safe=safe, kernel=_ROWS)
    for _, block in found[0][0]:
        assert_reassigned_alike(_damaged(random_, block), 0, {1: 2}, buckets)


def damaged_index(buffer: bytes) -> None:
    """A slice whose parts are not where its index says."""
    random_ = random.Random(buffer)
    part, plans = damaged_rows.random_slice(random_, _TABLES)
    specs = {}
    for number, plan in plans.items():
        decoder = partition.decoder_of(plan)
        specs[number] = (
            decoder.readers,
            decoder.prepare,
            plan.target_number,
            plan.source_number,
            placement_of(_ROWS, plan),
        )
    index = bytearray(part.index)
    for _ in range(random_.randrange(1, 4)):
        index[random_.randrange(len(index))] ^= 1 << random_.randrange(8)
    for wrong in (bytes(index), _damaged(random_, part.index)):
        with contextlib.suppress(ValueError, KeyError, _ROWS.EventError, _ROWS.Impossible, DMError):
            _ROWS.partition(part.data, wrong, specs, 3, random_.random() < 0.5)
    with contextlib.suppress(ValueError):
        _ROWS.components(random_.randbytes(random_.randrange(40)))


def damaged_relay(buffer: bytes) -> None:
    """Bytes of a binlog, damaged anywhere, taken from any state: both say the same of them."""
    random_ = random.Random(buffer)
    packets, checksum = random_.random() < 0.5, random_.random() < 0.5
    kinds = random_.choices((2, 15, 16, 19, 23, 24, 27, 30, 33, 34, 160, 162), k=random_.randrange(9))
    events = [
        binlog_bytes.raw(
            kind,
            random_.randbytes(random_.randrange(60)),
            checksum=checksum,
            flags=random_.choice((0, 0, 32)),
            log_pos=random_.choice((0, 500)),
        )
        for kind in kinds
    ]
    raw = _damaged(random_, binlog_bytes.packets(events) if packets else b"".join(events))
    gtid = random_.choice((None, (bytes(8), 5), (bytes(16), 6)))
    what = (raw, 0, packets, checksum, random_.choice((4, 500, 1 << 32)), random_.randrange(3), gtid)
    assert python_scan(*what) == Scanned(*_RELAY.scan(*what))


def damaged_scan(buffer: bytes) -> None:
    """Any bytes for an event buffer, and what is asked of it afterwards."""
    random_ = random.Random(buffer)
    log = Writer(placeless=random_.random() < 0.5)
    for tag in range(random_.randrange(6)):
        log.begin(random_.choice(("mysql", "mariadb", "anonymous")))
        for word in random_.choices(WORDS, k=3):
            log.word(word, tag)
    packets, checksum = random_.random() < 0.5, random_.random() < 0.5
    raws = log.raws(checksum)
    raw = _damaged(random_, binlog_bytes.packets(raws) if packets else b"".join(raws))
    events = _SCAN.EventBuffer()
    with contextlib.suppress(ValueError):
        events.set_table(random_.randbytes(6), raw[:40], random_.randrange(3))
    at = 0
    for _ in range(4):
        pos, why = events.scan(raw, at, packets, checksum, random_.choice((1, 1 << 20)), random_.choice((1, 1 << 20)))
        assert at <= pos <= len(raw)
        assert why in (0, 1, 2)
        at = pos
    assert _SCAN.crc32(raw, 0) == zlib.crc32(raw)
    start = random_.randrange(len(raw) + 1)
    passed, _ = _SCAN.pass_rows(raw, start, packets, checksum, random_.choice((4, (1 << 32) - 10)))
    assert start <= passed <= len(raw)
    names = [raw[begin : begin + 12] for begin in (random_.randrange(len(raw) + 1), start)]
    flags = random_.random() < 0.5, random_.random() < 0.5
    passed, *_ = _SCAN.pass_known(raw, start, packets, checksum, 4, 4, *flags, *(b"\0\0" + name for name in names))
    assert start <= passed <= len(raw)
    for use in (
        lambda: events.append(1, raw[:30], 0),
        lambda: events.begin_gtid(raw[:16], 1),
        lambda: events.slices(1, 3, "b.000001"),
        lambda: events.cut(random_.randrange(-1, 5)),
        lambda: events.truncate(random_.randrange(-1, 5)),
        lambda: events.table(raw[:6]),
        events.end_transaction,
        events.numbers,
        events.take_gtids,
        events.forget_tables,
        lambda: events.scan(raw, 0, packets, checksum, 1 << 20, 1 << 20),
    ):
        with contextlib.suppress(ValueError, TypeError, OverflowError, KeyError):
            use()


def damaged_dump(buffer: bytes) -> None:
    """Packets of a result set, damaged and cut anywhere: the same text from both, or both refuse."""
    random_ = random.Random(buffer)
    sizes = (0, 1, 30, 31, 32, 33, 250, 251, 252) + ((66_000,) if random_.random() < 0.05 else ())

    def value() -> bytes | None:
        if random_.random() < 0.2:
            return None
        return bytes(random_.choices(b"x'\\0\r\n9\xff\xfe\xe9", k=random_.choice(sizes)))

    width = random_.randrange(1, 5)
    rows_ = [[value() for _ in range(width)] for _ in range(random_.randrange(4))]
    data = _damaged(random_, dump._stream(rows_))
    cuts = [random_.randrange(len(data) + 1) for _ in range(3)]
    dump._assert_same(random_.choices(dump._HARMLESS, k=width), data, cuts)
    with contextlib.suppress(ValueError):
        dump._run(
            dump._native(random_.choices(list(LiteralKind), k=width), dump._HEAD, 90, backslash=False), data, cuts
        )


#: The length of a value in more bytes than it needs.
_LONG_LENGTH = re.compile(rb"\xfc[\0-\xfa]\0|\xfd..\0|\xfe...\0{5}", re.DOTALL)


def damaged_compare(buffer: bytes) -> None:
    """Packets of the rows of two sides, damaged and cut anywhere: the same rows are left, or both refuse."""
    random_ = random.Random(buffer)
    width = random_.randrange(1, 4)
    forms, shares = random_.randrange(1, width + 1), random_.choice((1, 1, 3))
    keys = tuple(random_.sample(range(forms), random_.randrange(forms + 1)))

    def value() -> bytes | None:
        return random_.choice((None, b"", b"a", b"b", b"\xfb", b"x" * 251))

    sides = []
    for source in random_.choices((0, 1, TARGET), k=3):
        rows_ = [[value() for _ in range(width)] for _ in range(random_.randrange(6))]
        data = dump._stream(rows_)
        sides.append((source, _damaged(random_, data) if random_.random() < 0.5 else data, random_.randrange(1, 400)))
    found = []
    for make in (_COMPARE.UnpairedRows, PythonUnpairedRows):
        table = make(forms, keys, 0, shares)
        found.append(_outcome(partial(_unpaired, table, width, sides), ValueError))
    # The shares of the two are not the same rows. One compares the bytes of values with those of their lengths, which
    # servers write in the shortest form.
    if shares == 1 and not any(_LONG_LENGTH.search(data) for _, data, _ in sides):
        assert found[0] == found[1]


def _unpaired(table: Any, width: int, sides: list[tuple[int, bytes, int]]) -> object:
    for source, data, step in sides:
        consumer = table.rows_of(source, width)
        for start in range(0, len(data), step):
            consumer.feed(data[start : start + step])
    found, held = table.take(), table.held
    table.discard()
    return found, held


def damaged_sql(buffer: bytes) -> None:
    """Text of INSERT statements, damaged: ends are found alike, rows are read within it."""
    random_ = random.Random(buffer)
    literals = [literal for literal, _ in bulk_rows._VALUES]
    tuples = [b"(" + b",".join(random_.choices(literals, k=3)) + b")" for _ in range(random_.randrange(1, 5))]
    text = _damaged(random_, b"INSERT INTO t VALUES " + b",".join(tuples) + b";\n-- x\n")
    start = random_.randrange(len(text) + 1)
    assert _SQL.statement_end(text, start) == sql_file._python_statement_end(text, start)
    for at in (start, min(21, len(text))):
        for columns in (1, 3, 200):
            found = _SQL.bulk_rows(bytearray(text), at, columns)
            if found is not None:
                assert len(bulk_rows._parameters(found[2])) == found[0] * columns
        with contextlib.suppress(ValueError):
            _SQL.map_rows(text, at, (1 << 44, None, random_.choice((None, 1 << 59))), b",'x'", b"(a,b,c,d) VALUES ")


TARGETS: dict[str, Target] = {
    "damaged_slices": damaged_slices,
    "damaged_index": damaged_index,
    "damaged_relay": damaged_relay,
    "damaged_scan": damaged_scan,
    "damaged_dump": damaged_dump,
    "damaged_compare": damaged_compare,
    "damaged_sql": damaged_sql,
}
#: They have no compiled part.
_PYTHON = {
    "test_rows_are_read_whole_however_the_network_cuts_them",
    "test_damaged_table_maps_are_tables_or_errors",
}
for _module in (
    rows,
    partial_images,
    placement,
    ranks,
    derived,
    scan,
    relay,
    dump,
    sql_statements,
    bulk_rows,
    row_rules,
    binlog,
):
    for _name, _test in vars(_module).items():
        usable = hasattr(_test, "hypothesis") and not hasattr(_test, "pytestmark")  # no parameters of pytest's
        if _name.startswith("test_") and usable and _name not in _PYTHON:
            TARGETS[f"{_module.__name__.removeprefix('tests.unit.')}.{_name}"] = _property(_test)
