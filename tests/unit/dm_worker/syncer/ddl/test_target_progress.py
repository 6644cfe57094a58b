"""Hazard: query-status shows a DDL that is over, or nothing of one that runs for hours, or it waits for a server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from deploy.local.process import wait_until
from dm_worker.syncer.ddl import target_progress
from dm_worker.syncer.ddl.target_jobs import TargetJob
from dm_worker.syncer.ddl.target_progress import TargetProgress
from pkg import errors
from pkg.errors import Code


@pytest.fixture(autouse=True)
def _asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_progress, "INTERVAL", 0.01)


def test_a_statement_and_its_job_are_shown_while_it_runs() -> None:
    progress = TargetProgress()
    rows = iter(range(1_000_000))

    def ask() -> Sequence[TargetJob]:
        number = min(next(rows), 9)
        if number == 0:
            raise errors.new(Code.DBBadConn, "the target is away for a moment")
        return [] if number == 1 else [TargetJob(7, "running", number, "ALTER TABLE t ADD INDEX (v)")]

    assert progress.text == ""
    with progress.during("ALTER TABLE t ADD INDEX (v)", ask):
        assert progress.text.startswith("ALTER TABLE t ADD INDEX (v) (for 0 s)")
        wait_until(lambda: "s): job 7 (running, 9 rows)" in progress.text, "the job's rows are shown")
    assert progress.text == ""


def test_a_target_without_jobs_is_not_asked() -> None:
    progress = TargetProgress()
    with suppress(KeyError), progress.during("DROP TABLE t", None):
        assert progress.text == "DROP TABLE t (for 0 s)"
        raise KeyError("it failed")
    assert progress.text == ""


def test_a_job_that_is_waited_for_is_shown_until_it_ends() -> None:
    progress = TargetProgress()
    progress.waits_for([TargetJob(8, "paused", 5, "ALTER TABLE t FORCE")])
    assert progress.text == "job 8 (paused, 5 rows): ALTER TABLE t FORCE"
    progress.waits_for([])
    assert progress.text == ""
