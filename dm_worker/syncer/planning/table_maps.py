"""The TABLE_MAPs that were met, and the table plans that were asked for them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from dm_worker.syncer.planning.event_buffer import FILTERED, EventBuffer
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.binlog import constants as c
from pkg.binlog.position import Position

#: Where the rest of a TABLE_MAP begins, behind the table id: that changes whenever the upstream opens the table again.
SHAPE = c.HEADER_SIZE + 6

#: The plan of a TABLE_MAP's table, what counts its rows when they are held back, or None when it is not migrated. The
#: second value asks to end the batch before.
Resolve = Callable[[bytes, Position], tuple["TablePlan | HeldTable | None", bool]]


class HeldTable(Protocol):
    """A table whose rows are held back."""

    table: tuple[str, str]

    def count(self, event: bytes, file: str, /) -> int:
        """The rows in a rows event of it."""


class TableMaps:
    """Asks ``resolve`` once per distinct TABLE_MAP, and tells the event buffer which table id stands for which plan."""

    def __init__(self, buffer: EventBuffer, resolve: Resolve) -> None:
        self._buffer = buffer
        self._resolve = resolve
        #: Plans by TABLE_MAP (without the table id), and by number.
        self._known: dict[bytes, TablePlan | HeldTable | None] = {}
        self._plans: dict[int, TablePlan] = {}
        #: What counts the rows of tables that are held back, by their numbers.
        self._held: dict[int, HeldTable] = {}
        #: TABLE_MAPs by their table ids, as far as these are valid.
        self._maps: dict[bytes, bytes] = {}

    def add(self, data: bytes) -> bool:
        """True for a TABLE_MAP whose table is new, so that :meth:`ask` and :meth:`bind` must follow."""
        table, shape = data[19:25], data[SHAPE:]
        self._maps[table] = data
        if shape not in self._known:
            return True
        self._set(table, shape)
        return False

    def ask(self, data: bytes, place: Position) -> bool:
        """Asks for the plan. True when the table changed the rule for others of its target: see :meth:`ask_anew`."""
        plan, split = self._resolve(data, place)
        self._known[data[SHAPE:]] = plan
        if isinstance(plan, TablePlan):
            self._plans[plan.number] = plan
        return split

    def held(self, number: int) -> HeldTable:
        """The table behind a number below :data:`FILTERED`."""
        return self._held[number]

    def bind(self, data: bytes) -> None:
        """The table id of a TABLE_MAP stands for the plan that was asked for."""
        self._set(data[19:25], data[SHAPE:])

    def hide(self, data: bytes) -> None:
        """The rows behind this TABLE_MAP are not to be planned, whatever its table."""
        # No later TABLE_MAP has an empty shape.
        self._buffer.set_table(data[19:25], b"", FILTERED)

    def ask_anew(self, place: Position) -> None:
        """New plans for all tables, also for the events that wait in the buffer: all of them follow one rule."""
        self._known.clear()
        for data in self._maps.values():
            self.ask(data, place)
            self.bind(data)
        for number in self._buffer.numbers(self._buffer.count):
            self._plan_waiting(number, place)

    def plans(self, count: int) -> dict[int, TablePlan]:
        """The plans of the first ``count`` events in the buffer, by number."""
        return {number: self._plans[number] for number in self._buffer.numbers(count)}

    def forget(self) -> None:
        """Structures, routes or targets changed: ask for every table again."""
        self._known.clear()
        self._held.clear()
        self.forget_ids()
        # Events may wait that need theirs.
        self._plans = self.plans(self._buffer.count)

    def forget_ids(self) -> None:
        """What follows is another file, or another stream: its table ids are others."""
        self._buffer.forget_tables()
        self._maps.clear()

    def _set(self, table: bytes, shape: bytes) -> None:
        plan = self._known[shape]
        number = FILTERED if plan is None else plan.number if isinstance(plan, TablePlan) else self._hold(plan)
        self._buffer.set_table(table, shape, number)

    def _hold(self, table: HeldTable) -> int:
        number = next(
            (number for number, known in self._held.items() if known is table), FILTERED - 1 - len(self._held)
        )
        self._held[number] = table
        return number

    def _plan_waiting(self, number: int, place: Position) -> None:
        """The plan of waiting events as it would be made now, under the old number."""
        data = self._plans[number].table_map
        if data[SHAPE:] not in self._known:
            self.ask(data, place)
        plan = self._known[data[SHAPE:]]
        assert isinstance(plan, TablePlan)
        self._plans[number] = replace(plan, number=number)
