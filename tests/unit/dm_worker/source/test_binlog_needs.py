"""Hazard: a binlog file counts as read although rows of it are still held back."""

from __future__ import annotations

from dm_worker.source.binlog_needs import needed_from
from pkg.binlog.position import Position
from tests.unit.dm_worker.source.support import sharded


def test_binlogs_with_rows_that_are_held_back_are_needed() -> None:
    sync = sharded(waiting=False).sync
    assert needed_from(sync) == Position("bin.000003", 90)
    del sync.unresolvedGroups[:]
    assert needed_from(sync) == Position("bin.000012", 4)
