"""A syncer with its validator between real servers, in threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from deploy.local.mysql import SQLServer
from deploy.local.process import wait_until
from dm_worker.diff.companion import DiffCompanion
from dm_worker.engine.engine import SparkEngine
from dm_worker.source.diff_surroundings import diff_surroundings
from dm_worker.syncer.shard_ddl.lock_client import LockService
from dm_worker.validator.validator import Validator
from pkg.config.model import SubTaskConfig, ValidatorConfig
from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as pb
from tests.harness.beside import beside
from tests.integration.syncer.support import Running, running

QUICK = ValidatorConfig(validate_interval=0.2, check_interval=0.2, meta_flush_interval=0.5)


@dataclass
class Validated:
    """A running syncer and its validator."""

    run: Running
    validator: Validator

    def status(self) -> pb.ValidationStatus:
        found = self.validator.status()
        assert found is not None
        return found

    def errors(self) -> list[pb.ValidationError]:
        return self.validator.error_messages()

    def wait_compared(self, upstream: SQLServer) -> None:
        """Until everything that the upstream has written is applied, and compared."""
        self.run.wait_synced(upstream)
        wait_until(self._is_done, lambda: f"all is compared: {self.status()}")

    def _is_done(self) -> bool:
        status = self.status()
        assert not status.result.errors, status
        return self.run.unit.flushed is not None and (
            status.pendingRowsStatus == "insert/update/delete: 0/0/0"
            and status.validatorBinlog == str(self.run.unit.flushed.position)
        )

    def wait_kinds(self, *kinds: str) -> list[pb.ValidationError]:
        """Until there are errors of these kinds, in any order."""
        found: list[pb.ValidationError] = []

        def reached() -> bool:
            found[:] = self.errors()
            return sorted(one.errorType for one in found) == sorted(kinds)

        wait_until(reached, lambda: f"errors are {kinds}: {found} {self.status()}")
        return found


@contextmanager
def validated(
    cfg: SubTaskConfig, engine: SparkEngine, mode: str = "full", lock_service: LockService | None = None
) -> Iterator[Validated]:
    validator = Validator(cfg, engine)
    validator.expect(mode)
    with running(cfg, engine, lock_service=lock_service, observer=validator) as run:
        validator.start(_never)
        try:
            yield Validated(run, validator)
        finally:
            validator.stop()
            validator.join()


@contextmanager
def swept(
    cfg: SubTaskConfig,
    spark: SparkEngine,
    mode: str = "full",
    siblings: Sequence[SubTaskConfig] = (),
    neighbours: Sequence[SubTaskConfig] = (),
) -> Iterator[tuple[Validated, DiffCompanion]]:
    """A syncer, its validator and its comparisons. ``siblings``: the task's subtasks on other sources; ``neighbours``:
    subtasks of other tasks."""
    with validated(cfg, spark, mode) as running:
        companion = DiffCompanion(
            cfg,
            lambda: diff_surroundings(running.run.unit, spark, lambda: siblings, lambda: neighbours),
            running.validator,
        )
        companion.start(_never)
        try:
            yield running, companion
        finally:
            companion.join()


@contextmanager
def writers(server: SQLServer, most: int = 500) -> Iterator[None]:
    """Changes, deletes and inserts the first rows of d.t, and inserts rows of d.k."""

    def write(stop: threading.Event) -> None:
        conn = server.connect(autocommit=True)
        number = 0
        with conn.cursor() as cursor:
            while not stop.is_set():
                number += 1
                row = number * 37 % most + 1
                cursor.execute(f"UPDATE d.t SET n = n + 1 WHERE id IN (1, {row})")
                cursor.execute(f"DELETE FROM d.t WHERE id = {row + 1}")
                cursor.execute(f"INSERT INTO d.t VALUES ({row + 1}, 'again', {number})")
                cursor.execute(f"INSERT INTO d.k VALUES ({number % 5 + 10}, 'hot')")
                # Not faster than the syncer.
                stop.wait(0.005)
        conn.close()

    with beside(write):
        yield


def _never(found: Sequence[DMError]) -> None:
    raise AssertionError(f"a validator does not stop its task: {found}")
