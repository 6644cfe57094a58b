"""Statements for the shards of a merged table: rows to any of them, DDL to one after the other. Pure."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from tests.fuzz.features import DDL_OF_SHARDS, Pair
from tests.fuzz.history import Phase, Step
from tests.fuzz.made_tables import MadeTable
from tests.fuzz.statements import Statements

#: How many DDL of one shard the others may be behind.
_AHEAD = 2


class ShardStatements:
    """As :class:`Statements`, for ``shards`` tables. A DDL comes to the other shards some statements later."""

    def __init__(self, rng: random.Random, pair: Pair, made: MadeTable, shards: int, shift: int, sessions: int) -> None:
        self._rng = rng
        self._made = made
        self._of = [Statements(rng, pair, made, shift * number, sessions) for number in range(shards)]
        self._leader = 0
        #: What the other shards still have to do, in order.
        self._behind: deque[list[Step]] = deque()
        self._ties = 0

    def first_rows(self, phase: Phase) -> list[Step]:
        return [step for number, one in enumerate(self._of) for step in _on(number, one.first_rows(phase))]

    def around_reset(self) -> list[Step]:
        return self._of[0].around_reset()

    def make(self, kind: str, phase: Phase, session: int, way: str) -> list[Step]:
        """See :meth:`Statements.make`."""
        if len(self._of) == 1:
            return self._of[0].make(kind, phase, session, way)
        done = self._caught_up() if self._behind and self._rng.random() < 0.4 else []
        if kind not in DDL_OF_SHARDS:
            shard = self._rng.randrange(len(self._of))
            return [*done, *_on(shard, self._of[shard].make(kind, phase, session, way))]
        if not self._behind:
            self._leader = self._rng.randrange(len(self._of))
        # One knows the structure of all.
        made = self._of[0].make(kind, phase, session, way)
        for one in self._of[1:]:
            one.follow(self._of[0])
        made = [] if "modify column" in kind and self._made.kind.startswith("timestamp") else made
        if not made:
            return done
        self._ties += 1
        made = [self._of_all(step) for step in made]
        self._behind.append(made)
        while len(self._behind) > _AHEAD:
            done += self._caught_up()
        return [*done, *_on(self._leader, made)]

    def _of_all(self, step: Step) -> Step:
        """The step as any shard executes it. DDL are tied; rows between them are a shard's own, and may be refused: the
        others would wait for the rest of its DDL for ever."""
        tied = "" if step.text.startswith("UPDATE") else f"shards{self._ties}"
        return replace(step, tied=tied, text=_of_any_rows(step.text))

    def rest(self) -> list[Step]:
        """What the other shards have not done yet."""
        return [step for _ in range(len(self._behind)) for step in self._caught_up()]

    def _caught_up(self) -> list[Step]:
        """The oldest of what is still to do, on each shard but the first that did it."""
        steps = self._behind.popleft()
        others = [number for number in range(len(self._of)) if number != self._leader]
        return [step for number in others for step in _on(number, steps)]


def _of_any_rows(sql: str) -> str:
    """A column that rows of one shard might not take would be added to the other only."""
    return sql.replace(" NOT NULL", " NULL") if " ADD COLUMN " in sql else sql


def _on(shard: int, steps: Sequence[Step]) -> list[Step]:
    return [replace(step, shard=shard) for step in steps]
