"""The target's progress with the statement that it executes: query-status shows it without a query of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pymysql

from dm_worker.syncer.ddl.target_jobs import TargetJob
from pkg.errors import DMError
from pkg.process.log import get_logger

log = get_logger("ddl")

#: Seconds between two queries, and before the first one: most statements have ended by then.
INTERVAL = 2.0
_TEXT_LIMIT = 300

#: Queries the target's unfinished jobs on a statement's tables.
AskJobs = Callable[[], Sequence[TargetJob]]


@dataclass(slots=True)
class _Running:
    """A statement that the target executes for us. ``job``: the progress that the target shows."""

    statement: str
    began: float = field(default_factory=time.monotonic)
    job: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def text(self) -> str:
        shown = f"{self.statement[:_TEXT_LIMIT]} (for {time.monotonic() - self.began:.0f} s)"
        return f"{shown}: {self.job}" if self.job else shown

    def poll_until_over(self, ask: AskJobs) -> None:
        """Queries until the statement has ended. Only logs errors: the statement's own connection reports them."""
        while not self.over.wait(INTERVAL):
            try:
                found = ask()
            except (DMError, pymysql.Error, OSError) as exc:
                log.debug("the target does not show how far a DDL is", error=str(exc))
                continue
            self.job = found[0].progress if found else ""


class TargetProgress:
    """The progress of one DDL session. ``text`` is for any thread, the rest for the session's."""

    def __init__(self) -> None:
        self._running: _Running | None = None
        self._awaited = ""

    @property
    def text(self) -> str:
        """The running statement, its start time, and the target's job; '' for none."""
        running = self._running
        return self._awaited if running is None else running.text

    def waits_for(self, jobs: Sequence[TargetJob]) -> None:
        """Shows that a statement whose connection has ended is waited for, as long as there are ``jobs``."""
        self._awaited = jobs[0].text if jobs else ""

    @contextmanager
    def during(self, statement: str, ask: AskJobs | None) -> Iterator[None]:
        """Shows ``statement`` while the block runs. ``ask`` runs in another thread; None: a target without jobs."""
        self._running = running = _Running(statement)
        if ask is not None:
            threading.Thread(target=running.poll_until_over, args=(ask,), name="ddl-progress", daemon=True).start()
        try:
            yield
        finally:
            running.over.set()
            self._running = None
