"""Hazards: rows that ROLLBACK TO SAVEPOINT undid are applied, or rows that it kept are lost."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import BatchLimits
from dm_worker.syncer.planning.planner import Planner
from pkg.binlog import constants as c
from pkg.errors import Code, DMError
from tests.unit.dm_worker.syncer.planning.support import (
    Log,
    feed,
    start,
    tags,
    tail,
)


def _undone() -> Log:
    """Rows 1, 2, 6, 7 are left of a transaction with savepoints, between two others."""
    log = Log()
    log.transaction([0])
    log.query(b"BEGIN")
    log.table_map(b"t")
    log.rows(1)
    log.query(b"SAVEPOINT `A``b`")
    log.rows(2)
    log.query(b"SAVEPOINT `c`")
    log.rows(3)
    log.query(b"SAVEPOINT `d`")
    log.rows(4)
    log.query(b"ROLLBACK TO `C`")
    log.rows(5)
    log.query(b"ROLLBACK WORK TO SAVEPOINT c;")
    log.query(b"RELEASE SAVEPOINT c")
    log.rows(6)
    log.rows(7)
    log.add(c.XID_EVENT, bytes(8))
    log.transaction([8])
    return log


KEPT = [0, 1, 2, 6, 7, 8]


def test_rows_after_a_savepoint_are_undone_and_only_they() -> None:
    log = _undone()
    for broken in range(len(log.events) + 1):
        planner = Planner(start())
        feed(planner, log.events[:broken])
        for _ in range(2):
            location = planner.progress.location
            planner.reopened()
            feed(planner, tail(log, location)[: broken // 2])
        location = planner.progress.location
        planner.reopened()
        feed(planner, tail(log, location))
        planner.close()
        assert tags(planner.out) == KEPT, broken


@pytest.mark.parametrize("batch_events", range(1, 9))
def test_undone_rows_that_were_given_out_are_an_error_also_after_a_restart(batch_events: int) -> None:
    """Small batches cut the transaction; what is given out in the end is right, or the planner stopped."""
    log = _undone()
    limits = BatchLimits(batch_events=batch_events)
    planner = Planner(start(), limits=limits)
    refused = batch_events < 5
    stop = pytest.raises(DMError, match="ROLLBACK TO SAVEPOINT") if refused else nullcontext()
    with stop as caught:
        feed(planner, log.events)
    assert caught is None or caught.value.kind is Code.SyncerUnsupportedStmt
    planner.close()
    got = tags(planner.out)
    assert (got == KEPT) != refused
    for index, batch in enumerate(planner.out):
        assert isinstance(batch, Batch)
        redo = Planner(batch.start, limits=limits, until=batch.end)
        feed(redo, tail(log, batch.start))
        assert tags(redo.out) == tags([batch])
        again = Planner(batch.end)
        if not set(tags(planner.out[: index + 1])) <= set(KEPT):
            with pytest.raises(DMError, match="some of them are already applied"):
                feed(again, tail(log, batch.end))
        else:
            feed(again, tail(log, batch.end))
            again.close()
            assert tags(planner.out[: index + 1]) + tags(again.out) == KEPT


def test_unknown_savepoint_is_an_error() -> None:
    log = Log()
    log.query(b"BEGIN")
    log.query(b"ROLLBACK TO `never`")
    with pytest.raises(DMError) as caught:
        feed(Planner(start()), log.events)
    assert caught.value.kind is Code.SyncerUnsupportedStmt
