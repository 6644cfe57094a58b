"""Notices foreign keys that act upstream and can't at the target, at the start and behind each statement about keys.

The keys of both servers are compared as far as statements have told of them, and read in full before a problem is said
(:mod:`known_keys`). What the upstream has may come from a statement that is still to be read, so a problem counts when
the target has it still after all that the upstream had written when it was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pkg import errors
from pkg.binlog.position import Location
from pkg.errors import Code, DMError
from pkg.process.log import get_logger
from pkg.rules.foreign_keys import ForeignKeyProblem

log = get_logger("syncer.keys")

#: Compares the keys of both servers.
Look = Callable[[], Sequence[ForeignKeyProblem]]
#: Where the upstream's binlog ends; None when it writes none.
BinlogEnd = Callable[[], Location | None]


def _is_before(here: Location, there: Location) -> bool:
    """Also for a task that begins at a GTID set alone, which has no position until it has read something."""
    return not here.position.name or here.position < there.position


class ForeignKeyWatch:
    """For one run. In a backlog it looks once, where the position is reached that the upstream had at the last look."""

    def __init__(self, look: Look, end: BinlogEnd) -> None:
        self._look = look
        self._end = end
        self._seen: list[ForeignKeyProblem] = []
        self._until: Location | None = None
        #: There was a statement since the last look, which says nothing of it.
        self._stale = False
        self._warned: set[ForeignKeyProblem] = set()

    def look(self, applied: Location) -> None:
        """Looks now; all before ``applied`` is applied. Raises 20070 for what is certain."""
        found = list(self._look())
        self._stale = False
        self._note(found, applied)

    def changed(self, applied: Location) -> None:
        """A statement about keys was executed. Raises 20070 for what is certain."""
        self._stale = True
        if self._until is None or not _is_before(applied, self._until):
            self.look(applied)

    def passed(self, applied: Location) -> None:
        """All before ``applied`` is applied. Raises 20070 when that makes a problem certain."""
        if self._until is None or _is_before(applied, self._until):
            return
        if self._stale:
            # What was seen may have been put right since, and be there again.
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
