"""The commands of a comparison, and what it shows, as its target keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from dm_worker.diff import companion as companions
from dm_worker.diff.companion import DiffCompanion
from dm_worker.diff.progress import DiffProgress, TableProgress
from dm_worker.diff.state_table import FINISHED, RUNNING, STOPPED, DiffRecord, DiffSettings
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.settings.connections import DBConfig

SERVER = DBConfig(host="127.0.0.1", port=1)
SETTINGS = DiffSettings(sources=("s1",))


class Target:
    """The rows of the target; each instance of the state's table has the same."""

    def __init__(self) -> None:
        self.stored: tuple[DiffRecord, DiffProgress] | None = None

    def __call__(self, *_: object) -> Target:
        return self

    def close(self) -> None:
        """Nothing is open."""

    def replace(self, record: DiffRecord) -> None:
        self.stored = record, DiffProgress(())

    def note(self, record: DiffRecord) -> None:
        assert self.stored is not None
        self.stored = record, self.stored[1]

    def read(self) -> tuple[DiffRecord, DiffProgress] | None:
        return self.stored


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target()
    monkeypatch.setattr(companions, "DiffStateTable", made)
    return made


def companion(**settings: Any) -> DiffCompanion:
    cfg = SubTaskConfig(name="t1", source_id="s1", task_mode="all", from_=SERVER, to=SERVER, **settings)
    return DiffCompanion(cfg, lambda: None)


def refused(call: Any, *args: Any) -> str:
    with pytest.raises(DMError) as caught:
        call(*args)
    assert caught.value.kind is Code.DiffRefused
    return str(caught.value)


def test_one_comparison_runs_at_a_time(target: Target) -> None:
    one = companion(flavor="mariadb")
    one.start_diff("r1", SETTINGS)
    assert "is running" in refused(one.start_diff, "r2", SETTINGS)
    one.end()
    assert target.stored is not None
    assert target.stored[0].stage == STOPPED
    one.start_diff("r2", SETTINGS)
    assert target.stored[0].run == "r2"


def test_another_worker_knows_what_runs(target: Target) -> None:
    companion(flavor="mariadb").start_diff("r1", SETTINGS)
    other = companion(flavor="mariadb")
    assert "is running" in refused(other.start_diff, "r2", SETTINGS)
    assert other.status().stage == "Waiting"
    assert "does not replicate now" in other.status().msg


def test_without_a_comparison_there_is_nothing_to_stop_or_show(target: Target) -> None:
    one = companion(flavor="mariadb")
    assert "no comparison" in refused(one.end)
    assert "never compared" in refused(one.status)


def test_a_repair_needs_exact_positions(target: Target) -> None:
    repairing = DiffSettings(sources=("s1",), repair=True)
    assert "--lock" in refused(companion(flavor="mysql").start_diff, "r1", repairing)
    companion(flavor="mysql", enable_gtid=True).start_diff("r1", repairing)
    assert target.stored is not None
    assert target.stored[0].stage == RUNNING


def test_a_table_that_is_not_compared_is_shown_with_its_reason(target: Target) -> None:
    table = TableProgress(("db", "t"), ("s1: `a`.`t`",), 7, reason="it was dropped")
    target.stored = DiffRecord("r1", 0.0, FINISHED, SETTINGS), DiffProgress([table])
    shown = companion(flavor="mariadb").status()
    assert (shown.stage, shown.started, shown.totalRows) == ("Finished", "1970-01-01 00:00:00", 7)
    assert [(one.target, one.state, one.reason) for one in shown.tables] == [
        ("`db`.`t`", "not compared", "it was dropped")
    ]
