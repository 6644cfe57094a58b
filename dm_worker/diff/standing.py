"""Finds lasting differences of two servers whose snapshots have no common position, or no certain one. Pure.

Rows may be on their way from one server to the other while both are read. So a chunk with differences is compared
again, after a pause that is longer than replication usually takes. Only a row that has differed at every look counts,
and only once it has had the same two values at several looks in a row. A row that was the same on both sides at one
look is equal: later writes do not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dm_worker.comparison.outcome import Difference
from dm_worker.diff.progress import ChunkWork
from dm_worker.diff.spans import key_text
from pkg.mysql.names import TableId

#: Looks at which a difference must be seen.
NEEDED = 3
#: After this many looks at a chunk, rows that still change are abandoned.
MOST_LOOKS = 20
#: No new chunk begins while more rows than this wait for another look: memory holds their digests.
MOST_ROWS = 1_000_000
_Digest = bytes


@dataclass(slots=True)
class _DifferingRow:
    """A row that has differed at each look. ``lasting``: digests of what differed in the same way at ``looks`` in a
    row."""

    lasting: frozenset[_Digest]
    looks: int = 1


@dataclass(slots=True)
class _LookedAt:
    """``due``: when it may be looked at again."""

    due: float
    looks: int
    rows: dict[_Digest, _DifferingRow] = field(default_factory=dict)


class StandingDifferences:
    """See :class:`dm_worker.diff.methods.Certainty`. ``settle``: seconds for which a difference must last;
    ``clock``: a steady one. ``needed``, ``most``: see :data:`NEEDED` and :data:`MOST_LOOKS`. ``follows``: the target is
    never behind, so that one whose value stays the same while the upstream's changes is wrong."""

    def __init__(
        self,
        settle: float,
        clock: Callable[[], float],
        *,
        needed: int = NEEDED,
        most: int = MOST_LOOKS,
        follows: bool = False,
    ) -> None:
        self._pause = settle / (needed - 1)
        self._clock = clock
        self._needed = needed
        self._most = most
        self._follows = follows
        self._chunks: dict[ChunkWork, _LookedAt] = {}
        self._given_up: dict[ChunkWork, str] = {}

    def is_due(self, work: ChunkWork) -> bool:
        """Whether the chunk may be compared now."""
        known = self._chunks.get(work)
        if known is None:
            return sum(len(one.rows) for one in self._chunks.values()) < MOST_ROWS
        return self._clock() >= known.due

    @property
    def waits_for(self) -> str:
        """Why no chunk may be compared now."""
        if not self._chunks:
            return ""
        rows = sum(len(one.rows) for one in self._chunks.values())
        left = max(0.0, min(one.due for one in self._chunks.values()) - self._clock())
        return f"rows that differ ({rows}) are compared again in {left:.0f} s: they may be on their way to the target"

    def seen(self, work: ChunkWork, differences: Sequence[Difference], *, exact: bool) -> list[Difference] | None:
        """The differences that count; None while the chunk must be compared again."""
        before = self._chunks.pop(work, None)
        rows = _looked_at(before, differences, follows=self._follows)
        looks = 1 if before is None else before.looks + 1
        moving = [one for one in differences if (row := rows.get(_row(one))) is not None and row.looks < self._needed]
        if moving and looks < self._most:
            self._chunks[work] = _LookedAt(self._clock() + self._pause, looks, rows)
            return None
        if moving:
            self._given_up[work] = (
                f"{len(moving)} rows had other values at each of {looks} looks, so it is not known whether the target "
                f"follows, for example {key_text(moving[0], redact=True)}: compare it while they are not written, or "
                f"{'with --lock' if self._follows else 'by the task that replicates them'}"
            )
        return [one for one in differences if (row := rows.get(_row(one))) is not None and row.looks >= self._needed]

    def given_up(self, work: ChunkWork) -> str:
        """Why the rest of the chunk's table can't be compared; '' where it can."""
        return self._given_up.pop(work, "")

    def decided(self, work: ChunkWork) -> None:
        """The chunk needs no other look."""
        self._chunks.pop(work, None)

    def forget(self, target: TableId) -> None:
        """No chunk of the table is compared any more."""
        for work in [one for one in self._chunks if one.target == target]:
            del self._chunks[work]


def _looked_at(
    before: _LookedAt | None, differences: Iterable[Difference], *, follows: bool
) -> dict[_Digest, _DifferingRow]:
    """The rows that have differed at each look, the present one included."""
    rows: dict[_Digest, _DifferingRow] = {}
    for one in differences:
        name, now = _row(one), _values(one, follows=follows)
        if before is None:
            rows[name] = _DifferingRow(now)
        elif (row := before.rows.get(name)) is not None:
            lasting = row.lasting & now
            rows[name] = _DifferingRow(lasting, row.looks + 1) if lasting else _DifferingRow(now)
    return rows


def _row(one: Difference) -> _Digest:
    """Identifies the row: by its key whatever its values are, else by its values."""
    return _digest(one.key or one.upstream or one.target or ())


def _values(one: Difference, *, follows: bool) -> frozenset[_Digest]:
    """What differs: of a row that both sides have, each column alone, so that a fault beside a column that always
    changes is found. ``follows``: also the target's values alone."""
    here, there = one.upstream, one.target
    if here is not None and there is not None and one.key:
        columns = [
            (str(number).encode(), first, second)
            for number, (first, second) in enumerate(zip(here, there, strict=True))
            if first != second
        ]
        if columns:
            alone = [(number, b"target", second) for number, _, second in columns] if follows else []
            return frozenset(map(_digest, (*columns, *alone)))
    counts = tuple(str(count).encode() for count in one.counts)
    return frozenset([_digest((*(here or ()), b"|", *(there or ()), *counts))])


def _digest(values: Iterable[bytes]) -> _Digest:
    found = hashlib.blake2b(digest_size=16)
    for value in values:
        found.update(len(value).to_bytes(8, "big"))
        found.update(value)
    return found.digest()
