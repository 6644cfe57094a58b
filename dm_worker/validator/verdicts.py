"""Decides from looks at the target whether rows are right, wrong or not decided yet. A state machine, pure.

A look compares the last images of a range of batches with one snapshot. A row that differs is wrong if the snapshot
contains no later change of it. The snapshot may contain more than the range: then the row is a suspect until the range
of a later look shows whether it was touched. A touched suspect is dropped, because its later image is looked at then;
one that was not touched is wrong. No verdict depends on time.

A row that differs in a look::

    differs --> suspect --- all that its snapshot may contain was looked at, without a touch ---> wrong
       |           |
       |           +------- touched by a batch that its snapshot may contain ---> decided by its later image
       |           +------- touched by a later batch only ---> wrong
       |           |
       +-----------+------- a statement may have changed it, or changes are applied again ---> not compared

Statements that change a table of the target may change its rows without a trace in the binlog: suspects from before
such a statement, seen after it, are counted as not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from dm_worker.validator.differences import LookResult, Restructured, RowId, RowMismatch, Snapshot, Uncompared
from pkg.mysql.names import TableId

#: Suspects beyond this number count as not compared.
MOST_SUSPECTS = 100_000
#: Errors beyond this number are only counted.
MOST_ERRORS = 10_000
CHANGED_STRUCTURE = "the table's structure changed meanwhile"
INTERRUPTED = "the same changes were applied again meanwhile"
TOO_MANY = "too many rows differ to decide on all of them"


@dataclass(frozen=True, slots=True)
class _Suspect:
    difference: RowMismatch
    last: int
    snapshot: Snapshot

    @property
    def decided_at(self) -> int:
        """All up to this number must be covered before the suspect is decided."""
        return max(self.snapshot.batch, self.snapshot.intent if self.snapshot.in_ddl else 0)

    @property
    def seen_later(self) -> bool:
        """Whether the snapshot may contain anything after the look's range."""
        return max(self.snapshot.batch, self.snapshot.intent) > self.last

    def is_hidden_by(self, change: Restructured) -> bool:
        """Whether the snapshot may show the row as a statement changed it."""
        if not change.names(self.difference.target):
            return False
        return change.number is None or self.last < change.number <= self.snapshot.intent


@dataclass(frozen=True, slots=True)
class Verdicts:
    """``wrong`` rows are errors. ``right`` rows equal their later image."""

    wrong: Sequence[RowMismatch] = ()
    right: Collection[RowId] = ()


@dataclass(slots=True)
class Judge:
    """Decides. ``uncompared`` counts rows by (target's table, upstream's table, reason)."""

    uncompared: Counter[tuple[TableId, TableId, str]] = field(default_factory=Counter)
    _suspects: dict[RowId, _Suspect] = field(default_factory=dict)
    _covered: int = 0
    #: Looks up to this number can decide only by a snapshot that contains no later change.
    _broken: int = -1

    @property
    def watched(self) -> Sequence[RowMismatch]:
        """The suspects: a later change of one of these rows decides."""
        return [suspect.difference for suspect in self._suspects.values()]

    @property
    def boundary(self) -> int:
        """The number up to which a look decides on all suspects; a row that is touched later was wrong before."""
        return max((suspect.decided_at for suspect in self._suspects.values()), default=0)

    @property
    def undecided(self) -> int:
        return len(self._suspects)

    def looked(
        self,
        look: LookResult,
        coming: Sequence[Restructured] = (),
        is_unsettled: Callable[[TableId], bool] = lambda _: False,
    ) -> Verdicts:
        """Takes a look. ``coming``: the statements after its range that are known; ``is_unsettled``: whether other
        sources may change a table at any time."""
        for one in look.uncompared:
            self._leave_out(one)
        wrong = self._touched({*look.right, *(one.row for one in look.differences)}, look.first)
        for difference in look.differences:
            suspect = _Suspect(difference, look.last, look.snapshot)
            if look.last <= self._broken and suspect.seen_later:
                self._drop(suspect, INTERRUPTED)
            elif is_unsettled(difference.target) or any(suspect.is_hidden_by(change) for change in coming):
                self._drop(suspect, CHANGED_STRUCTURE)
            elif len(self._suspects) >= MOST_SUSPECTS:
                self._drop(suspect, TOO_MANY)
            else:
                self._suspects[difference.row] = suspect
        return Verdicts([*wrong, *self._cover(look.last)], look.right)

    def restructured(self, change: Restructured) -> Verdicts:
        """Receives a statement that the range of the looks has reached."""
        for row, suspect in list(self._suspects.items()):
            if suspect.is_hidden_by(change):
                del self._suspects[row]
                self._drop(suspect, CHANGED_STRUCTURE)
        return Verdicts(self._cover(change.number or 0))

    def interrupted(self, last: int) -> None:
        """The changes after the batch ``last`` are applied again, perhaps with other numbers: no later look decides on
        suspects."""
        self._broken = last
        for suspect in self._suspects.values():
            self._drop(suspect, INTERRUPTED)
        self._suspects.clear()

    def _touched(self, rows: Collection[RowId], first: int) -> list[RowMismatch]:
        """Drops the suspects among ``rows`` that the batches from ``first`` on may have overwritten in their snapshot;
        returns the others: they were wrong before."""
        wrong = []
        for row in rows:
            suspect = self._suspects.pop(row, None)
            if suspect is not None and suspect.snapshot.batch < first:
                wrong.append(suspect.difference)
        return wrong

    def _cover(self, number: int) -> list[RowMismatch]:
        self._covered = max(self._covered, number)
        decided = [row for row, suspect in self._suspects.items() if suspect.decided_at <= self._covered]
        return [self._suspects.pop(row).difference for row in decided]

    def _drop(self, suspect: _Suspect, reason: str) -> None:
        self._leave_out(Uncompared(suspect.difference.target, suspect.difference.source, 1, reason))

    def _leave_out(self, one: Uncompared) -> None:
        self.uncompared[one.target, one.source, one.reason] += one.rows


#: DM's states of an error.
NEW, IGNORED, RESOLVED = 1, 2, 3


@dataclass(frozen=True, slots=True)
class RowError:
    """A row that was wrong; its ``number`` for operators, 0 until it is stored; DM's ``status``, and how many looks
    found it wrong.

    ``hidden``: a later change of the row has overwritten the fault, so that only this record shows it.
    """

    number: int
    difference: RowMismatch
    status: int = NEW
    times: int = 1
    hidden: bool = False
    time: str = ""

    @property
    def message(self) -> str:
        found = f"found {self.times} times" if self.times > 1 else ""
        hidden = "a later change of the row hides it" if self.hidden else ""
        mended = "the row is right again" if self.status == RESOLVED and not self.hidden else ""
        return "; ".join(filter(None, (found, hidden, mended)))


@dataclass(slots=True)
class ErrorList:
    """The errors by row. ``changed`` are those to store, ``cleared`` those to remove there."""

    errors: dict[RowId, RowError] = field(default_factory=dict)
    #: Wrong rows beyond :data:`MOST_ERRORS`.
    unlisted: int = 0
    changed: set[RowId] = field(default_factory=set)
    cleared: set[int] = field(default_factory=set)

    def take(self, verdicts: Verdicts, now: str) -> list[RowError]:
        """Notes verdicts of the time ``now``; returns the errors that are new."""
        found = []
        for row in verdicts.right:
            error = self.errors.get(row)
            if error is not None and error.status != RESOLVED and not error.hidden:
                self._put(row, replace(error, hidden=True))
        for difference in verdicts.wrong:
            known = self.errors.get(difference.row)
            if known is None and len(self.errors) >= MOST_ERRORS:
                self.unlisted += 1
                continue
            if known is None:
                error = RowError(0, difference, time=now)
                found.append(error)
            else:
                status = IGNORED if known.status == IGNORED else NEW
                error = replace(
                    known, difference=difference, status=status, times=known.times + 1, hidden=False, time=now
                )
            self._put(difference.row, error)
        return found

    def repaired(self, row: RowId) -> None:
        """The row is right again without a later change of it."""
        error = self.errors.get(row)
        if error is not None and not error.hidden and error.status != RESOLVED:
            self._put(row, replace(error, status=RESOLVED))

    def swept(self, run: str, tables: Collection[TableId]) -> None:
        """A round of the sweep has looked at each row of ``tables``: what earlier rounds found there and it did not is
        right again."""
        for row, error in list(self.errors.items()):
            if row[0] in tables and error.difference.swept not in ("", run):
                self.repaired(row)

    def to_check(self) -> list[RowError]:
        """The errors that a repair would settle."""
        return [error for error in self.errors.values() if error.status != RESOLVED and not error.hidden]

    def operate(self, number: int | None, status: int | None) -> bool:
        """Sets the status of one error, or of all; None clears. False when there is no such error."""
        rows = [row for row, error in self.errors.items() if number in (None, error.number)]
        for row in rows:
            error = self.errors[row]
            if status is None:
                del self.errors[row]
                self.changed.discard(row)
                if error.number:
                    self.cleared.add(error.number)
            else:
                self._put(row, replace(error, status=status))
        return bool(rows) or number is None

    def to_store(self) -> list[RowError]:
        """The changed errors, in the order in which they were found."""
        return [error for row, error in self.errors.items() if row in self.changed]

    def numbered(self, errors: Iterable[RowError]) -> None:
        """These errors are stored under their numbers."""
        for error in errors:
            row = error.difference.row
            known = self.errors.get(row)
            if known is None:
                self.cleared.add(error.number)
            elif not known.number:
                self.errors[row] = replace(known, number=error.number)

    def counts(self) -> tuple[int, int, int]:
        """New, ignored, resolved."""
        found = Counter(error.status for error in self.errors.values())
        return found[NEW], found[IGNORED], found[RESOLVED]

    def _put(self, row: RowId, error: RowError) -> None:
        self.errors[row] = error
        self.changed.add(row)
