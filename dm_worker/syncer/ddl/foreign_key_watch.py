"""Finds foreign keys that act upstream and can't at the target: at the start, and after each statement about keys.

The keys of both servers are compared as known from statements, and read in full before a problem is reported
(:mod:`known_keys`). The upstream's keys may come from a statement that is not read yet, so a problem counts if the
target still has it after everything that the upstream had written when the problem was found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pkg import errors
from pkg.binlog.position import Location
from pkg.errors import Code, DMError
from pkg.process.log import get_logger
from pkg.rules.foreign_keys import ForeignKeyProblem

log = get_logger("syncer.keys")

#: Compares the foreign keys of both servers.
Look = Callable[[], Sequence[ForeignKeyProblem]]
#: The end of the upstream's binlog; None when it writes none.
BinlogEnd = Callable[[], Location | None]


def _is_before(here: Location, there: Location) -> bool:
    """Also for a task that begins at a GTID set alone, which has no position until it has read something."""
    return not here.position.name or here.position < there.position


class ForeignKeyWatch:
    """For one run. In a backlog it checks once, at the position that the upstream had reached at the last check."""

    def __init__(self, look: Look, end: BinlogEnd) -> None:
        self._look = look
        self._end = end
        self._seen: list[ForeignKeyProblem] = []
        self._until: Location | None = None
        #: A statement ran since the last check, which does not cover it.
        self._stale = False
        self._warned: set[ForeignKeyProblem] = set()

    def look(self, applied: Location) -> None:
        """Checks now; all before ``applied`` is applied. Raises 20070 for a certain problem."""
        found = list(self._look())
        self._stale = False
        self._note(found, applied)

    def changed(self, applied: Location) -> None:
        """A statement about keys was executed. Raises 20070 for a certain problem."""
        self._stale = True
        if self._until is None or not _is_before(applied, self._until):
            self.look(applied)

    def passed(self, applied: Location) -> None:
        """All before ``applied`` is applied. Raises 20070 when that makes a problem certain."""
        if self._until is None or _is_before(applied, self._until):
            return
        if self._stale:
            # The problem may have been fixed since, and have come back.
            self.look(applied)
        elif self._seen:
            before = self._seen
            now = list(self._look())
            certain = [problem for problem in now if problem in before]
            if certain:
                raise _refusal(certain)
            self._note(now, applied)
        else:
            self._until = None

    def _note(self, found: list[ForeignKeyProblem], applied: Location) -> None:
        self._seen, self._until = found, self._end()
        if self._until is None or not _is_before(applied, self._until):
            self._until = None
            if found:
                raise _refusal(found)
        new = [problem for problem in found if problem not in self._warned]
        if new:
            self._warned.update(new)
            log.warning(
                "foreign keys differ for now",
                problem=new[0].what,
                new=len(new),
                all=len(found),
                known_at=str(self._until),
            )


def _refusal(found: Sequence[ForeignKeyProblem]) -> DMError:
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return errors.new(
        Code.ConfigUnsupportedForeignKeyChecksOption,
        f"{found[0].what}{more}",
        scope="downstream",
        workaround=f"{found[0].workaround} Rows of these tables may differ since the key was created: compare them, "
        "then resume the task.",
    )
