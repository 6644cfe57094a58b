"""A validator whose target is a dictionary, of rows by key. Spark and the meta schema are simulated, too."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import pytest

from deploy.local.process import wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.execution.expected_rows import ExpectedRows
from dm_worker.syncer.execution.row_look import ExpectedRow
from dm_worker.syncer.execution.target_connections import TargetSpec
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.rows.table_plan import TablePlan
from dm_worker.validator import validator as module
from dm_worker.validator.differences import CHANGED, DELETED_EXISTS, MISSING, RowId, RowMismatch, Snapshot, Uncompared
from dm_worker.validator.store import Progress, TableState
from dm_worker.validator.validator import Validator
from dm_worker.validator.verdicts import RowError
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.config.model import SubTaskConfig, ValidatorConfig
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb
from pkg.settings.connections import DBConfig
from tests.harness import binlog_bytes
from tests.unit.dm_worker.syncer.execution.test_row_block import (
    DELETE_EVENT,
    INSERT_EVENT,
    UPDATE_EVENT,
    image,
    plan_of,
    slice_of,
)

QUICK = ValidatorConfig(validate_interval=0.01, check_interval=0.01, meta_flush_interval=0.01)
DB = DBConfig("127.0.0.1", 1, "root")
CFG = SubTaskConfig("t", "source-1", "incremental", DB, DB, validator=QUICK)


SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def at(number: int) -> Location:
    return Location(Position("b.000001", number * 100), f"{SERVER}:1-{number}" if number else "")


class Target:
    """Rows by key (the note's text), and what the protocol's tables say. ``away``: no connection is possible."""

    def __init__(self) -> None:
        self.rows: dict[int, str] = {}
        self.number = self.intent = 0
        self.away = False


def rows_of(found: Iterable[ExpectedRows], plans: Mapping[int, TablePlan]) -> Iterator[ExpectedRow]:
    for bucket in found:
        yield from bucket.single_rows().rows
        for chunk in bucket.row_chunks():
            yield from (row.expected() for row in chunk.rows(plans[chunk.plan]))


class Reads:
    """In place of :class:`TargetReads`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._seen: dict[int, str] = {}
        self._snapshot = Snapshot(0, 0)

    def prepare(self) -> None:
        if self._target.away:
            raise errors.new(Code.DBBadConn, "the target is away", retryable=True)

    def open(self) -> None:
        self.prepare()
        self._seen = dict(self._target.rows)
        self._snapshot = Snapshot(self._target.number, max(self._target.number, self._target.intent))

    def contained(self) -> Snapshot:
        self.prepare()
        return self._snapshot

    def look(self, watched: Collection[RowId], required: Collection[RowId], *, full: bool) -> SimulatedLook:
        return SimulatedLook(self, self._seen, watched, full=full)

    def are_right(self, checks: Sequence[bytes]) -> list[bool]:
        found = []
        for check in checks:
            key, _, value = check.partition(b"=")
            there = self._target.rows.get(int(key))
            found.append(value == (b"gone" if there is None else b"'%b'" % there.encode()))
        return found

    def end(self) -> None:
        self._seen = {}

    def close(self) -> None:
        """Nothing is open."""


class SimulatedLook:
    """In place of :class:`RowComparison`."""

    is_full = False

    def __init__(self, reads: Reads, seen: Mapping[int, str], watched: Collection[RowId], *, full: bool) -> None:
        self._reads, self._seen, self._watched, self._full = reads, seen, watched, full
        self._rows: dict[RowId, tuple[TablePlan, ExpectedRow]] = {}

    def add(self, found: Iterable[ExpectedRows], plans: Mapping[int, TablePlan]) -> None:
        for row in rows_of(found, plans):
            plan = plans[row.plan]
            self._rows[plan.target, row.key] = (plan, row)

    def result(self) -> tuple[list[RowMismatch], list[RowId], list[Uncompared]]:
        self._reads.prepare()
        differences, right = [], []
        for plan, row in self._rows.values():
            there = self._seen.get(int(row.key))
            if row.values is None:
                kind = None if there is None else DELETED_EXISTS
            elif there is None:
                kind = MISSING
            else:
                kind = CHANGED if self._full and row.values[1] != b"'%b'" % there.encode() else None
            if kind is not None:
                expected = "" if row.values is None else row.values[1].decode()
                differences.append(
                    RowMismatch(
                        plan.target,
                        plan.source,
                        row.key,
                        kind,
                        expected,
                        there or "",
                        row.key + b"=" + (row.values or (b"", b"gone"))[1],
                    )
                )
            elif (plan.target, row.key) in self._watched:
                right.append((plan.target, row.key))
        return differences, right, []


class Store:
    """In place of :class:`ValidatorStore`; outlives validators."""

    def __init__(self) -> None:
        self.kept: Progress | None = None
        self.rows: dict[int, RowError] = {}
        self.tables: list[TableState] = []
        self.reads = 0

    def prepare(self) -> None:
        """Nothing is to be created."""

    def progress(self) -> Progress | None:
        self.reads += 1
        return self.kept

    def errors(self) -> list[RowError]:
        return list(self.rows.values())

    def write(
        self, progress: Progress, changed: Iterable[RowError], cleared: Sequence[int], tables: Iterable[TableState]
    ) -> list[RowError]:
        self.kept, self.tables = progress, list(tables)
        for number in cleared:
            self.rows.pop(number, None)
        found = []
        for error in changed:
            number = error.number or max(self.rows, default=0) + 1
            self.rows[number] = RowError(number, error.difference, error.status, error.times, error.hidden, error.time)
            found.append(self.rows[number])
        return found

    def close(self) -> None:
        """Nothing is open."""


class OneTask:
    """In place of Spark: a single task, here."""

    @staticmethod
    def parallelize(items: Sequence[Any], partitions: int) -> Sequence[Any]:
        return items

    @staticmethod
    def runJob(
        items: Sequence[Any], work: Callable[[Iterable[Any]], Iterable[Any]], partitions: Sequence[int] | None
    ) -> list[Any]:
        found: list[Any] = pickle.loads(pickle.dumps(list(pickle.loads(pickle.dumps(work))(iter(items)))))
        return found


class Engine:
    """In place of the Spark engine."""

    shared_folder = None
    slots = parallel = 1
    memory = 1 << 30
    tiny_batch = -1

    @contextmanager
    def job_group(self, *_: object) -> Iterator[OneTask]:
        yield OneTask()


class World:
    """One upstream table, a target and a validator between them; the test is the syncer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.target, self.store = Target(), Store()
        monkeypatch.setattr(module, "TargetReads", lambda *_: Reads(self.target))
        monkeypatch.setattr(module, "ValidatorStore", lambda _: self.store)
        self.unsettled: list[str] = []
        self.plan = plan_of()
        self.upstream: dict[int, str] = {}
        self.validator = self.start()

    def start(self, mode: str | None = "full", *, begun: bool = True) -> Validator:
        """A new process. ``begun``: a run of the syncer has begun."""
        self.validator = Validator(CFG, cast(SparkEngine, Engine()))
        self.validator.expect(mode)
        if begun:
            self.run()
        self.validator.start(lambda _: None)
        return self.validator

    def run(self) -> None:
        """A run of the syncer begins."""
        self.validator.began(cast(TargetSpec, object()), at(self.target.number), lambda: self.unsettled)

    def end(self) -> None:
        self.validator.stop()
        self.validator.join()

    def batch(
        self, changes: Mapping[int, str | None], lost: Collection[int] = (), *, told: bool = True
    ) -> Callable[[], None]:
        """The syncer applies new values of rows, None for a delete; the target loses some of them. The result tells the
        validator, if it is not ``told``."""
        events, counts = [], [0, 0, 0]
        for key, text in changes.items():
            before = self.upstream.get(key)
            if text is None:
                events.append(binlog_bytes.rows(DELETE_EVENT, 2, image(key, before)))
                counts[2] += 1
            elif before is None:
                events.append(binlog_bytes.rows(INSERT_EVENT, 2, image(key, text)))
                counts[0] += 1
            else:
                events.append(binlog_bytes.rows(UPDATE_EVENT, 2, image(key, before) + image(key, text)))
                counts[1] += 1
            for rows in (self.upstream, self.target.rows) if key not in lost else (self.upstream,):
                if text is None:
                    rows.pop(key, None)
                else:
                    rows[key] = text
        start, self.target.number = at(self.target.number), self.target.number + 1
        here = at(self.target.number)
        part = slice_of([(1, event) for event in events])
        batch = Batch(start, here, [part], {1: self.plan}, len(events), len(part.data), 0)
        tell = partial(self.validator.applied, batch, self.target.number, {1: (counts[0], counts[1], counts[2])}, here)
        if told:
            tell()
        return tell

    def status(self) -> pb.ValidationStatus:
        found = self.validator.status()
        assert found is not None
        return found

    def wait(self) -> pb.ValidationStatus:
        """Until all that was told is compared."""
        wait_until(
            lambda: (
                self.status().validatorBinlog == str(at(self.target.number).position)
                and self.status().pendingRowsStatus.endswith(" 0/0/0")
            ),
            lambda: f"all is compared: {self.status()}",
        )
        return self.status()

    def errors(self) -> list[tuple[str, str, int]]:
        """Kind, expected value and state of each error."""
        return [(one.errorType, one.srcData, one.status) for one in self.validator.error_messages()]
