"""What the tests of the row kernel share."""

from __future__ import annotations

from dm_worker.syncer.execution import row_block
from dm_worker.syncer.execution.compaction import ImpossibleChange
from pkg.errors import DMError
from tests.compiled import required
from tests.harness import binlog_bytes
from tests.unit.pkg.native.shapes import Shape

KERNEL = required("rows")
#: Insert, update, delete: versions 1 and 2.
EVENTS = ((23, 30), (24, 31), (25, 32))


def outcome(read: object, *args: object, **kw: object) -> object:
    """What a call gives: its result, or its error."""
    try:
        return read(*args, **kw)  # type: ignore[operator]
    except DMError as exc:
        return exc.code, exc.message
    except ImpossibleChange as exc:
        return exc.args


def event(op: int, version: int, shape: Shape, images: bytes) -> bytes:
    return binlog_bytes.rows(EVENTS[op][version], len(shape.kinds), images)


def assert_reassigned_alike(data: bytes, home: int, moved: dict[int, int], buckets: int) -> None:
    """The same blocks, or ValueError from both."""
    found: list[object] = []
    for kernel in (KERNEL, None):
        try:
            found.append(row_block.reassign(data, home, moved, buckets, kernel))
        except ValueError:
            found.append(ValueError)
    assert found[0] == found[1]
