"""Hazard: the watcher learns that rows are compared which are not; or large tables keep rows waiting."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

import pytest

from dm_worker.diff import suspect_runs
from dm_worker.diff.progress import DiffProgress, TableProgress
from dm_worker.diff.run import DiffSurroundings
from dm_worker.diff.state_table import FINISHED, MOST_LAG, DiffRecord
from dm_worker.diff.suspect_runs import NotStored, SuspectRuns
from dm_worker.diff.tables import TableParts
from dm_worker.foreign_writes.suspects import Suspects, TableWrites
from pkg.config.model import SubTaskConfig
from pkg.mysql.names import TableId
from pkg.settings.connections import DBConfig

SERVER = DBConfig(host="127.0.0.1", port=1)
CFG = SubTaskConfig(name="t1", source_id="s1", task_mode="all", from_=SERVER, to=SERVER, flavor="mysql")
T, K, OTHER = ("d", "t"), ("d", "k"), ("app", "t")


class Source:
    """What others wrote, and what the watcher learns."""

    folds_names = False

    def __init__(self) -> None:
        self.waiting = Suspects()
        self.done: list[tuple[int, str]] = []
        self.others: set[TableId] = set()

    @property
    def are_waiting(self) -> bool:
        return bool(self.waiting)

    def write(self, table: TableId, *, whole: bool = False) -> None:
        self.waiting.merge(Suspects({table: TableWrites(() if whole else ("id",), {(b"1",)}, whole, 1)}))

    def take(self) -> Suspects:
        found, self.waiting = self.waiting, Suspects()
        return found

    def compared(self, rows: int, left_out: str) -> None:
        self.done.append((rows, left_out))

    def show_wait(self, text: Callable[[], str]) -> None:
        self.waits_for = text

    def add_others(self, tables: Collection[TableId]) -> None:
        self.others |= set(tables)


class Runs:
    """Stands for DiffRun: ``interrupts`` are those that are interrupted, by number. ``during``: what happens then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[list[TableId]] = []
        self.continued: list[bool] = []
        self.interrupts: set[int] = set()
        self.during: dict[int, Callable[[], None]] = {}
        self.refused = ""
        monkeypatch.setattr(suspect_runs, "DiffRun", self._make)

    def _make(
        self, _: object, __: object, store: object, ___: object, record: DiffRecord, progress: DiffProgress, *,
        parts: TableParts,
    ) -> Any:  # fmt: skip
        assert isinstance(store, NotStored)
        assert (record.settings.is_sweep, record.settings.rows_per_second) == (True, 70)
        assert (record.settings.sources, record.settings.most_lag) == (("s1", "s2"), MOST_LAG)
        number = len(self.made)
        self.continued.append(bool(progress.tables))
        tables = list(progress.tables) or [one for one in (T, K) if parts.has(one)]
        self.made.append(tables)
        runs = self

        class Run:
            waits_for = "replication is behind"

            def __init__(self) -> None:
                self.record = record
                self.progress = DiffProgress(TableProgress(one, (), reason=runs.refused) for one in tables)

            def work(self) -> None:
                runs.during.get(number, list)()
                if number not in runs.interrupts:
                    self.record = record.at(FINISHED)

            def stop(self) -> None:
                """It has no thread."""

        return Run()


class Sibling:
    source_id = "s2"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def work(made: SuspectRuns) -> None:
    around = DiffSurroundings(cast(Any, None), cast(Any, None), lambda: 0, lambda: [cast(Any, Sibling())], list)
    made.work(around, 70, lambda: False)


def test_rows_come_before_tables_and_the_watcher_learns_it_at_the_end(runs: Runs) -> None:
    source = Source()
    made = SuspectRuns(CFG, source, lambda: cast(Any, None))
    assert not made.are_waiting
    for table in (T, OTHER):
        source.write(table)
    source.write(K, whole=True)
    assert made.are_waiting
    runs.refused = "no key"
    waits: list[str] = []
    runs.during[0] = lambda: waits.append(source.waits_for())
    work(made)
    assert (waits, source.waits_for()) == (["replication is behind"], "")
    assert runs.made == [[T], [K]]
    assert source.others == {OTHER}
    ((rows, left_out),) = source.done
    assert rows == 2
    assert left_out.startswith("tables not compared: 1 (`d`.`k`: no key")
    assert not made.are_waiting


def test_an_interrupted_comparison_is_continued_and_nothing_is_reported_before_its_end(runs: Runs) -> None:
    source = Source()
    made = SuspectRuns(CFG, source, lambda: cast(Any, None))
    source.write(T)
    runs.interrupts = {0, 3}
    work(made)
    assert made.rows_are_waiting
    assert source.done == []
    source.write(K, whole=True)
    work(made)
    assert (runs.made, runs.continued, source.done) == ([[T], [T]], [False, True], [(1, "")])

    def write_more() -> None:
        source.write(T)
        source.write(K, whole=True)

    runs.during[3] = write_more
    work(made)
    assert (runs.made[2:], source.done) == ([[], [K]], [(1, "")])
    assert made.rows_are_waiting
    # The rows that were written meanwhile come first, then the rest of the table, and then the table once more.
    work(made)
    assert runs.made[4:] == [[T], [K], [K]]
    assert runs.continued[4:] == [False, True, False]
    assert source.done == [(1, ""), (3, "")]
