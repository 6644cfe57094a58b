"""Makes each allocation of a call of the compiled code fail in turn.

``python -m tests.unit.pkg.native.no_memory CALL``.

The call must raise MemoryError, or give what it gives otherwise. Printed is how many allocations could fail. It is a
process of its own because other threads meet failing allocations too: those of Spark, or of parallel tests.
"""

from __future__ import annotations

import importlib
import itertools
import struct
import sys
from collections.abc import Callable
from typing import Any

from dm_worker.syncer.planning.batch import RECORD
from tests.compiled import required
from tests.harness import binlog_bytes
from tests.unit.pkg.native.scan_log import Writer
from tests.unit.pkg.native.shapes import KINDS

testcapi: Any = importlib.import_module("_testcapi")
rows, scan, dump, sqlscan, compare = map(required, ("rows", "scan", "dump", "sqlscan", "compare"))

INT = next(kind for kind in KINDS if kind.type_name == "int")
#: One byte for each code point.
WEIGHTS = (bytes([1] * 0x100), bytes(range(0x100)))


def text_program(nullable: bool) -> tuple[object, ...]:
    return (16, 1, "s", False, nullable, 0, 0, 0, None, b"", b"", b"")


def number_program(nullable: bool) -> tuple[object, ...]:
    return (1, 0, "i", True, nullable, 4, 0, 0, None, b"", b"", b"")


def slow_program() -> tuple[object, ...]:
    """A column whose values Python renders."""
    return (0, 0, "s", False, True, 4, 0, 0, bytes, b"_", b"", b"_")


def images(numbers: range) -> bytes:
    return b"".join(b"\0" + struct.pack("<i", n) + b"\5it's%d" % (n % 10) + struct.pack("<i", n % 7) for n in numbers)


def partitioned() -> object:
    """Enough keys and pairs that every table grows."""
    # Behind the columns: a number with a base, a text that Python changes, a constant.
    derived = ((0, 5 << 44, 1 << 44, b"", None), (1, 0, 0, b"", bytes), (-1, 0, 0, b"'x'", None))
    programs = (number_program(False), text_program(False), slow_program())
    readers = rows.Readers(programs, (3, 1), (3, 4, 2, 5), derived)
    text = rows.KeyNormalizer(3, 0, WEIGHTS, b"", None)
    call = rows.KeyNormalizer(4, 0, None, b"", bytes)
    exact = rows.KeyNormalizer(0, 0, None, b"", None)
    placement = rows.Placement(1, True, (exact, text), ((2, (4, 2), (text, call), (4, 2)), (3, (3,), (exact,), (3, 2))))
    events = [binlog_bytes.rows(23, 3, images(range(n, n + 100))) for n in range(0, 600, 100)]
    events.append(binlog_bytes.rows(24, 3, images(range(400, 402))))
    events.append(b"compressed")
    index = b"".join(RECORD.pack(1, len(event), 0) for event in events)

    def prepare(event: bytes) -> tuple[bytes, int, int]:
        return images(range(3)), 2, 0

    found: tuple[Any, ...] = rows.partition(b"".join(events), index, {1: (readers, prepare, 5, 1, placement)}, 3, True)
    return found


def merged() -> object:
    _, sections, pairs = BLOCKS[:3]
    moved = rows.components(pairs, pairs)
    blocks = [b"\1\0\0\0" + data for data in sections.values()]
    reassigned = [rows.reassign(data, 0, moved, 3) for data in blocks]
    rule = (2 * b"\4\2\1\2\1", True, (300, 300, 300), (5, 5, 5), 1)
    return moved, reassigned, rows.merge(tuple(blocks), {1: rule}, True)


def dumped() -> object:
    out = []
    for backslash in (True, False):
        consumer = dump.Statements(
            b"vtfxc", (b"", b"", b"", b"", b"_gbk x'"), b"INSERT INTO t VALUES\n", 6000, backslash
        )
        row = b"\1" + b"1" + b"\xfc\x88\x13" + b"a\n'\\b" * 1000 + b"\0031.5" + b"\2\0\1" + b"\3\xff\xa1\x40"
        packet = len(row).to_bytes(3, "little") + b"\0" + row
        data = packet * 5 + b"\5\0\0\0\xfe\0\0\2\0"
        out += [piece for at in range(0, len(data), 700) for piece in consumer.feed(data[at : at + 700])]
        out += [consumer.finish(), consumer.rows]
    return out


def mapped() -> object:
    """What is added to each row is much longer than the row."""
    return sqlscan.map_rows(b",".join([b"(1,'a')"] * 100), 0, (1 << 59, None), b"," + b"x" * 2000, b"(a,b) VALUES ")


def completed() -> object:
    programs = (number_program(False), text_program(True), slow_program())
    readers = rows.Readers(programs, (0,), (0,))
    after = b"\0" + struct.pack("<i", 7)
    event = bytes(32) + b"".join(images(range(n, n + 1)) + after for n in range(30))
    return readers.completed(b"\7", b"\1", event, 32)


def unpaired() -> object:
    """Rows of which some have no equal, of two tables and one that merges them: enough that every table grows."""
    table = compare.UnpairedRows(2, (0,), 0, 1)
    counted = []
    for source in (0, 1, -1):
        rows_ = [b"\5%05d\1a\xfb" % number for number in range(source + 1, 150, 2 if source >= 0 else 3)]
        packets = b"".join(len(row).to_bytes(3, "little") + b"\0" + row for row in rows_) + b"\5\0\0\0\xfe\0\0\2\0"
        consumer = table.rows_of(source, 3)
        counted += [consumer.feed(packets[:700]), consumer.feed(packets[700:]), consumer.rows, consumer.done]
    return counted, table.take()


def packed() -> object:
    readers = rows.Readers((number_program(False), text_program(True), slow_program()), (), ())
    events = [binlog_bytes.rows(kind, 3, images(range(40))) for kind in (23, 24, 25)]
    index = b"".join(RECORD.pack(1 + n % 2, len(event), 7 << 40) for n, event in enumerate([*events, b"torn"]))

    def prepare(event: bytes) -> tuple[bytes, int, int]:
        return images(range(3)), 2, 0

    plans = dict.fromkeys((1, 2), (readers, prepare, 0, 5, 8))
    return rows.records(b"".join(events) + b"torn", index, plans)


def ranked() -> object:
    """Enough values that every table grows."""
    text = rows.KeyNormalizer(3, 0, WEIGHTS, b"", None)
    call = rows.KeyNormalizer(4, 0, None, b"", bytes)
    links = rows.Placement(0, False, (), ((1, (0, 1), (call, text), (0, 1)), (2, (1,), (text,), (1,))))
    changes = [
        (n, 1, 1, 4, [b"%d" % n, b"'it\\'s %d'" % (n % 50)], [b"%d" % n, b"'it\\'s %d'" % (n % 40)]) for n in range(300)
    ]
    return rows.ranks(changes, {1: (links, b"\2\1")})


def log() -> bytes:
    writer = Writer()
    for number in range(200):
        writer.begin("mysql" if number % 2 else "mariadb")
        writer.word("rows", number)
        writer.add(16, bytes(8))
    return b"".join(writer.raws(True))


def scanned() -> object:
    buffer = scan.EventBuffer()
    for number in range(100):
        buffer.set_table(number.to_bytes(6, "little"), b"shape" * number, number)
    raw, at = LOG, 0
    while at < len(raw):
        at, _ = buffer.scan(raw, at, False, True, 1 << 20, 1 << 20)
        if at < len(raw):
            size = struct.unpack_from("<I", raw, at + 9)[0]
            buffer.append(1, raw[at : at + size - 4], 0)
            at += size
    found = (
        buffer.slices(buffer.count, 500, [3]),
        buffer.numbers(buffer.count),
        buffer.take_gtids(),
        buffer.table(bytes(6)),
    )
    buffer.cut(buffer.count)
    return found


BLOCKS: Any = None
LOG = b""


def fail_each(call: Callable[[], object]) -> int:
    """How many allocations could fail, one in each run."""
    expected, failures, passed = call(), 0, 0
    for number in itertools.count():
        testcapi.set_nomemory(number, number + 1)
        try:
            found = call()
        except MemoryError:
            failures, passed = failures + 1, 0
            continue
        finally:
            testcapi.remove_mem_hooks()
        assert found == expected, number
        passed += 1
        if passed > 20:
            break
    return failures


CALLS = {
    call.__name__: call for call in (partitioned, merged, dumped, scanned, mapped, completed, unpaired, packed, ranked)
}

if __name__ == "__main__":
    BLOCKS, LOG = partitioned(), log()
    print(fail_each(CALLS[sys.argv[1]]))
