"""Runs a cutover: checks, AUTO_INCREMENT counters, comparison, end of the task, certificate.

Every step can be repeated. The record is stored after each step, on condition that no other command has changed it. If
the master is killed or stops leading, the next leader can continue the cutover.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dm_master.cutover.facts import CutoverFacts
from dm_master.cutover.run_record import (
    CutoverRecord,
    CutoverStage,
    certificate,
    differences,
    open_checks,
    tables_of,
    versions,
)
from dm_master.cutover.runner import run_checks
from dm_master.cutover.table_checks import low_counters
from dm_master.cutover.table_checksums import TableSum
from dm_master.cutover.verdict import CheckVerdict
from pkg import errors
from pkg.binlog.position import Location
from pkg.errors import Code
from pkg.mysql.names import TableId, qualified

#: The checks that the run itself makes pass, and those that its comparison decides where they are not known.
_OWN = frozenset({"diff", "auto-increment"})
_BY_COMPARISON = frozenset({"key-collisions"})


class CutoverServers(Protocol):
    """The calls of a run to servers and workers. Each call can be repeated; errors are DMErrors."""

    def facts(self) -> CutoverFacts: ...

    def now(self) -> str:
        """The time in UTC."""

    def set_counters(self, numbers: Mapping[TableId, int]) -> None: ...

    def checksums(self, tables: Iterable[TableId]) -> list[TableSum]: ...

    def compare(self, run: str) -> None:
        """Starts the comparison of that name unless it exists, and waits for its end."""

    def pause(self) -> None:
        """Pauses the task and waits until all its subtasks are paused."""

    def resume(self) -> None: ...

    def upstream_ends(self) -> Mapping[str, Location | None]: ...

    def target_end(self) -> Location | None: ...


class CutoverStore(Protocol):
    """The stored record. Raises 43202 from a change if another one has changed it."""

    def load(self) -> CutoverRecord | None: ...

    def save(self, record: CutoverRecord) -> None: ...

    def watch(self, ends: Mapping[str, Location]) -> None:
        """Makes the workers watch their upstreams, starting at these positions."""
        ...

    def forget(self) -> None:
        """Removes the record and ends the watch."""
        ...


@dataclass(frozen=True, slots=True)
class CutoverOutcome:
    """The result of a run: a certificate, the checks that did not pass, or another reason."""

    certificate: str = ""
    verdicts: tuple[CheckVerdict, ...] = ()
    reason: str = ""


class CutoverRun:
    """``run``: a name for a new cutover. ``accepted``: checks that need not be passed."""

    def __init__(
        self, task: str, run: str, accepted: Sequence[str], servers: CutoverServers, store: CutoverStore
    ) -> None:
        self._task = task
        self._run = run
        self._accepted = tuple(accepted)
        self._servers = servers
        self._store = store
        #: For the status; "" before the first step is complete.
        self.stage = ""

    def work(self) -> CutoverOutcome:
        """Continues from the stored record to the end. Raises DMError; the next call continues."""
        while True:
            record = self._store.load()
            self.stage = "" if record is None else record.stage
            match record:
                case None:
                    outcome = self._prepare()
                case CutoverRecord(stage=CutoverStage.COMPARING):
                    outcome = self._prove(record)
                case CutoverRecord(stage=CutoverStage.ENDING):
                    outcome = self._end(record)
                case _:
                    outcome = CutoverOutcome(record.certificate, record.verdicts)
            if outcome is not None:
                return outcome

    def _prepare(self) -> CutoverOutcome | None:
        """Sets the counters and takes the checksums before the comparison, so that the certificate does not cover a
        change made to the target after the comparison."""
        facts = self._servers.facts()
        verdicts = tuple(run_checks(facts))
        later = _decided_later(verdicts)
        blocking = [name for name in open_checks(verdicts, self._accepted) if name not in later]
        if blocking:
            return CutoverOutcome(verdicts=verdicts, reason=f"not ready: {', '.join(blocking)}")
        ends = _known_ends(facts)
        if "auto-increment" not in self._accepted:
            self._servers.set_counters(low_counters(facts))
        sums = tuple(self._servers.checksums(sorted(tables_of(facts))))
        self._store.save(CutoverRecord(self._run, self._servers.now(), CutoverStage.COMPARING, sums, ends=ends))
        return None

    def _prove(self, record: CutoverRecord) -> CutoverOutcome | None:
        """Compares and checks again: the checksums belong to the positions ``record.ends``, so the checks must pass
        there."""
        if record.run != self._run and differences(record.ends, self._servers.upstream_ends()):
            # The record of an abandoned cutover.
            self._store.forget()
            return None
        if "diff" not in self._accepted:
            self._servers.compare(record.run)
        facts = self._servers.facts()
        verdicts = tuple(run_checks(facts))
        written = differences(record.ends, _known_ends(facts))
        if open_checks(verdicts, self._accepted) or written:
            self._store.forget()
            return CutoverOutcome(verdicts=verdicts, reason=_written(written))
        self._store.save(
            replace(
                record,
                stage=CutoverStage.ENDING,
                accepted=self._accepted,
                verdicts=verdicts,
                servers=versions(facts),
            )
        )
        return None

    def _end(self, record: CutoverRecord) -> CutoverOutcome | None:
        """The task has applied all up to the agreed positions; paused there, with upstreams that have written nothing
        since, it has applied nothing else."""
        self._servers.pause()
        written = differences(record.ends, self._servers.upstream_ends())
        if written:
            self._servers.resume()
            self._store.forget()
            return CutoverOutcome(verdicts=record.verdicts, reason=_written(written))
        self._store.watch(record.ends)
        at, target_end = self._servers.now(), self._servers.target_end()
        ended = replace(
            record,
            stage=CutoverStage.ENDED,
            target_end=target_end,
            certificate=certificate(self._task, record, at, target_end),
            equal_at={qualified(*one.target): at for one in record.sums},
        )
        self._store.save(ended)
        return None


def _decided_later(verdicts: Iterable[CheckVerdict]) -> set[str]:
    return {
        one.name for one in verdicts if one.name in _OWN or (one.name in _BY_COMPARISON and one.verdict == "unknown")
    }


def _known_ends(facts: CutoverFacts) -> dict[str, Location]:
    """Where the upstreams' binlogs end. Raises 43201 for an upstream without one."""
    ends = {one.server.label: one.writers.after for one in facts.upstreams}
    known = {source: end for source, end in ends.items() if end is not None}
    if len(known) < len(ends):
        raise errors.new(
            Code.CutoverRefused,
            f"sources {', '.join(sorted(ends.keys() - known.keys()))} write no binlog: there is no position at which "
            "the task could end",
            workaround="Set log-bin in the upstream's configuration and restart it.",
        )
    return known


def _written(sources: Sequence[str]) -> str:
    return f"the upstream was written to during the cutover: {'; '.join(sources)}" if sources else ""
