"""How far the target is with the statement that it executes: what query-status shows, without asking a server then."""

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

#: Seconds between two questions; the first one comes as late: most statements have ended by then.
INTERVAL = 2.0
_TEXT_LIMIT = 300

#: Asks the target for its unfinished jobs about a statement's tables.
AskJobs = Callable[[], Sequence[TargetJob]]


@dataclass(slots=True)
class _Running:
    """A statement that the target executes for us. ``job``: what it tells of it."""

    statement: str
    began: float = field(default_factory=time.monotonic)
    job: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def text(self) -> str:
        shown = f"{self.statement[:_TEXT_LIMIT]} (for {time.monotonic() - self.began:.0f} s)"
        return f"{shown}: {self.job}" if self.job else shown

    def follow(self, ask: AskJobs) -> None:
        """Asks until the statement has ended. Its own connection shows what is wrong with the target."""
        while not self.over.wait(INTERVAL):
            try:
                found = ask()
            except (DMError, pymysql.Error, OSError) as exc:
                log.debug("the target does not show how far a DDL is", error=str(exc))
                continue
            self.job = found[0].progress if found else ""


class TargetProgress:
    """Of one DDL session. ``text`` is for any thread, the rest for the session's."""

    def __init__(self) -> None:
        self._running: _Running | None = None
        self._awaited = ""

    @property
    def text(self) -> str:
        """The statement that runs, since when, and the target's job; '' when none does."""
        running = self._running
        return self._awaited if running is None else running.text

    def waits_for(self, jobs: Sequence[TargetJob]) -> None:
        """A statement whose connection has ended is waited for, as long as there are ``jobs``."""
        self._awaited = jobs[0].text if jobs else ""

    @contextmanager
    def during(self, statement: str, ask: AskJobs | None) -> Iterator[None]:
        """While the block executes ``statement``. ``ask`` (from another thread); None for a target without jobs."""
        self._running = running = _Running(statement)
        if ask is not None:
            threading.Thread(target=running.follow, args=(ask,), name="ddl-progress", daemon=True).start()
        try:
            yield
        finally:
            running.over.set()
            self._running = None
