"""The TABLE_MAPs that were read, and how the rows after them are handled. Pure.

How a table's rows are handled is not decided here: a new TABLE_MAP causes a request, :class:`NeedTable`, which the
caller answers. It comes once per distinct TABLE_MAP, not once per event.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Protocol

from dm_worker.syncer.planning.event_buffer import FILTERED, EventBuffer
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.binlog import constants as c
from pkg.binlog.position import Position

#: The start of a TABLE_MAP after the table id, which changes whenever the upstream opens the table again.
SHAPE = c.HEADER_SIZE + 6


class HeldTable(Protocol):
    """A table whose rows are held back."""

    table: tuple[str, str]

    def count(self, event: bytes, file: str, /) -> int:
        """The rows in a rows event of it."""


#: How a table's rows are handled: they are planned, held back and counted, or (None) not migrated.
Handling = TablePlan | HeldTable | None


@dataclass(frozen=True, slots=True)
class NeedTable:
    """The planner needs the handling of the rows after a TABLE_MAP event, which ends at ``position``."""

    table_map: bytes
    position: Position


class TableMaps:
    """Knows the handling of each distinct TABLE_MAP, and sets in the event buffer which table id stands for which plan.

    While :attr:`needed` is not None, :meth:`resolve` must come next.
    """

    def __init__(self, buffer: EventBuffer) -> None:
        self._buffer = buffer
        #: By TABLE_MAP (without the table id): handling; and plans by number.
        self._known: dict[bytes, Handling] = {}
        self._plans: dict[int, TablePlan] = {}
        #: The counters of rows that are held back, by their table numbers.
        self._held: dict[int, HeldTable] = {}
        #: TABLE_MAPs by their table ids, while these are valid.
        self._maps: dict[bytes, bytes] = {}
        #: The open request.
        self.needed: NeedTable | None = None
        #: TABLE_MAPs to request again, while all are renewed; None otherwise.
        self._renewing: deque[bytes] | None = None

    def assign(self, data: bytes) -> bool:
        """Gives a TABLE_MAP's table id its known plan. False when its table is new, so that :meth:`ask` must follow."""
        table, shape = data[19:25], data[SHAPE:]
        self._maps[table] = data
        known = shape in self._known
        if known:
            self._bind(table, shape)
        return known

    def ask(self, data: bytes, position: Position) -> None:
        """Requests the handling of a TABLE_MAP that ends at ``position``: :attr:`needed` is set."""
        self.needed = NeedTable(data, position)

    def resolve(self, handling: Handling, *, ends_batch: bool) -> bool:
        """Answers :attr:`needed`. True when the batch must end and :meth:`renew` must follow, because the table
        changed the rule for others of its target (``ends_batch``)."""
        need, self.needed = self.needed, None
        assert need is not None
        self._known[need.table_map[SHAPE:]] = handling
        if isinstance(handling, TablePlan):
            self._plans[handling.number] = handling
        if self._renewing is not None:
            # They are requested because of one answer; later ones know its rule.
            self._renew_next(need.position)
            return False
        if not ends_batch:
            self._bind(need.table_map[19:25], need.table_map[SHAPE:])
        return ends_batch

    def held(self, number: int) -> HeldTable:
        """The table of a number below :data:`FILTERED`."""
        return self._held[number]

    def hide(self, data: bytes) -> None:
        """The rows after this TABLE_MAP are not planned, even if its table is migrated."""
        # No later TABLE_MAP has an empty shape.
        self._buffer.set_table(data[19:25], b"", FILTERED)

    def renew(self, position: Position) -> None:
        """Requests all tables again, also for events that wait in the buffer: all of them follow one rule."""
        self._known.clear()
        self._renewing = deque(self._maps.values())
        self._renewing.extend(self._plans[number].table_map for number in self._buffer.numbers(self._buffer.count))
        self._renew_next(position)

    def plans(self, count: int) -> dict[int, TablePlan]:
        """The plans of the first ``count`` events in the buffer, by number."""
        return {number: self._plans[number] for number in self._buffer.numbers(count)}

    def forget(self) -> None:
        """Structures, routes or targets changed: request every table again."""
        self._known.clear()
        self._held.clear()
        self.forget_ids()
        # Waiting events may need their plans.
        self._plans = self.plans(self._buffer.count)

    def forget_ids(self) -> None:
        """Another file or another stream follows: it has other table ids."""
        self._buffer.forget_tables()
        self._maps.clear()

    def _renew_next(self, position: Position) -> None:
        assert self._renewing is not None
        while self._renewing:
            data = self._renewing.popleft()
            if data[SHAPE:] not in self._known:
                self.needed = NeedTable(data, position)
                return
        self._renewing = None
        for table, data in self._maps.items():
            self._bind(table, data[SHAPE:])
        for number in self._buffer.numbers(self._buffer.count):
            # The plan as it would be created now, under the old number.
            plan = self._known[self._plans[number].table_map[SHAPE:]]
            assert isinstance(plan, TablePlan)
            self._plans[number] = replace(plan, number=number)

    def _bind(self, table: bytes, shape: bytes) -> None:
        """Maps the table id to the known handling of its TABLE_MAP's shape."""
        plan = self._known[shape]
        number = FILTERED if plan is None else plan.number if isinstance(plan, TablePlan) else self._hold(plan)
        self._buffer.set_table(table, shape, number)

    def _hold(self, table: HeldTable) -> int:
        number = next(
            (number for number, known in self._held.items() if known is table), FILTERED - 1 - len(self._held)
        )
        self._held[number] = table
        return number
