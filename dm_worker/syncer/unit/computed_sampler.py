"""Compares what the target computed in generated columns with what the upstream did.

Sessions often set a time zone of their own. So each applied row is looked for whose value depends on it; of other
columns, there are samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import chain, islice
from math import inf
from typing import Any

from pymysql.connections import Connection

from dm_worker.syncer.ddl.known_keys import SHARE
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.rows.computed_samples import as_plain, question, question_of_any
from dm_worker.syncer.rows.table_plan import ComputedColumn, TablePlan
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.events import event_from_bytes
from pkg.binlog.position import Position
from pkg.binlog.rows.row_decoder import RowDecoder
from pkg.binlog.table_map import parse_rows_header, parse_table_map
from pkg.errors import Code, DMError
from pkg.mysql.driver import texts_as_bytes
from pkg.mysql.names import qualified, quote

#: A table where nothing but its base columns decides a value is looked at once in so many seconds.
SELDOM = 60.0
#: At most so many tables are looked at after one batch.
MOST_TABLES = 8
#: From the end of a batch, so many of its events are searched for samples.
SEARCHED = 2000
#: Larger events, in bytes, are no samples: decoding them takes too long.
LARGEST = 256 << 10
#: At most so many rows, and about so many bytes of them, are looked for at once.
TOGETHER, _TOGETHER_BYTES = 200, 256 << 10
#: A value in a message is cut to so many characters.
_SHOWN = 200
_WRITING = frozenset({c.OP_INSERT, c.OP_UPDATE})

#: The target's value and the upstream's, as the target sends them.
BothValues = tuple[bytes | None, ...]
#: A row's literals, and where its event is.
PlacedRow = tuple[list[bytes], str]
#: Asks the target: a SELECT's first row, None when it gives none.
AskTarget = Callable[[bytes], BothValues | None]


def first_row(conn: Connection[Any], statement: bytes) -> BothValues | None:
    """Raises the driver's exceptions."""
    with texts_as_bytes(conn), conn.cursor() as cursor:
        cursor.execute(statement)
        row: BothValues | None = cursor.fetchone()
    return row


class ComputedSampler:
    """One run's comparisons. ``clock`` gives seconds."""

    def __init__(self, ask: AskTarget, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._began = clock()
        self._spent = 0.0
        #: When an upstream's table was looked at.
        self._looked: dict[tuple[str, str], float] = {}

    def difference(self, batch: Batch) -> DMError | None:
        """36027 for a row of the applied batch that has another value at the target. Raises DMError when the target
        can't be asked."""
        for plan, found in zoned_rows(batch):
            for column in _zoned(plan):
                error = self._compared(plan, column, found)
                if error is not None:
                    return error
        return self._sampled(batch)

    def _compared(self, plan: TablePlan, column: ComputedColumn, found: Sequence[PlacedRow]) -> DMError | None:
        if self._ask(question_of_any(plan, column, (row for row, _ in found))) is None:
            return None
        for row, position in found:
            values = self._ask(question(plan, column, row))
            if values is not None:
                return _error(plan, column, values).at(position)
        return None

    def _sampled(self, batch: Batch) -> DMError | None:
        if not self._may_look():
            return None
        began = self._clock()
        try:
            return self._look(batch, self._due(batch, began))
        finally:
            self._spent += self._clock() - began

    def _may_look(self) -> bool:
        return self._spent <= SHARE * (self._clock() - self._began)

    def _due(self, batch: Batch, now: float) -> dict[int, TablePlan]:
        """The plans whose tables are looked at, by number: those that waited longest."""

        def last(plan: TablePlan) -> float:
            return self._looked.get(plan.source, -inf)

        waiting = [
            (number, plan)
            for number, plan in batch.plans.items()
            if (others := _others(plan)) and (now - last(plan) >= SELDOM or any(column.dependent for column in others))
        ]
        due = dict(nsmallest(MOST_TABLES, waiting, key=lambda pair: last(pair[1])))
        self._looked.update((plan.source, now) for plan in due.values())
        return due

    def _look(self, batch: Batch, due: Mapping[int, TablePlan]) -> DMError | None:
        for plan, row, position in samples(batch, due):
            for column in _others(plan):
                values = self._ask(question(plan, column, row))
                if values is not None:
                    return _error(plan, column, values).at(position)
        return None


def _zoned(plan: TablePlan) -> tuple[ComputedColumn, ...]:
    return tuple(column for column in plan.sampled if column.zoned)


def _others(plan: TablePlan) -> tuple[ComputedColumn, ...]:
    return tuple(column for column in plan.sampled if not column.zoned)


def zoned_rows(batch: Batch) -> Iterator[tuple[TablePlan, list[PlacedRow]]]:
    """All rows that the batch wrote to tables with columns that depend on the time zone, as they were last; some of
    one table at a time. Without a key, rows that are equal in what decides the value count once."""
    plans = {number: plan for number, plan in batch.plans.items() if _zoned(plan)}
    waiting: dict[int, list[PlacedRow]] = {number: [] for number in plans}
    sizes = dict.fromkeys(plans, 0)
    for number, row, position in _latest(batch, plans):
        waiting[number].append((row, position))
        sizes[number] += sum(map(len, row))
        if len(waiting[number]) == TOGETHER or sizes[number] > _TOGETHER_BYTES:
            yield plans[number], waiting[number]
            waiting[number], sizes[number] = [], 0
    for number, rest in waiting.items():
        if rest:
            yield plans[number], rest


def _latest(batch: Batch, plans: Mapping[int, TablePlan]) -> Iterator[tuple[int, list[bytes], str]]:
    if not plans:
        return
    decoders = {number: _decoder(plan) for number, plan in plans.items()}
    deciding = {number: plan.key or _deciding(plan) for number, plan in plans.items()}
    seen: set[tuple[int, tuple[bytes, ...]]] = set()
    for part in reversed(batch.slices):
        for data, number, position in part.latest_first():
            if number not in plans or not _has_values(bytes(data), plans[number], part.file):
                continue
            images = [after for _, _, after in decoders[number].images(bytes(data), part.file)]
            for row in reversed(images):
                if row is None:
                    continue
                identity = number, tuple(row[n] for n in deciding[number])
                if identity not in seen:
                    seen.add(identity)
                    yield number, row, _place(part.file, position)


def _deciding(plan: TablePlan) -> tuple[int, ...]:
    columns = _zoned(plan)
    bases = (plan.write[base] for column in columns for base in column.bases)
    return (*bases, *(column.number for column in columns))


def _place(file: str, position: int) -> str:
    return f"rows event that ends at {Position(file, position)}"


def samples(batch: Batch, due: Mapping[int, TablePlan]) -> Iterator[tuple[TablePlan, list[bytes], str]]:
    """One row of each plan that is ``due``, among the last events of the batch: its literals, and where it is."""
    left = dict(due)
    if not left:
        return
    events = chain.from_iterable(((part, event) for event in part.latest_first()) for part in reversed(batch.slices))
    for part, (data, number, position) in islice(events, SEARCHED):
        plan = left.get(number)
        if plan is None or len(data) > LARGEST or not _has_values(bytes(data), plan, part.file):
            continue
        del left[number]
        *_, (_, _, after) = _decoder(plan).images(bytes(data), part.file)
        if after is not None:
            yield plan, after, _place(part.file, position)
        if not left:
            return


def _needed(plan: TablePlan) -> tuple[int, ...]:
    return tuple(column.number for column in plan.sampled)


def _decoder(plan: TablePlan) -> RowDecoder:
    shape = parse_table_map(event_from_bytes(plan.table_map))
    return RowDecoder(shape, plan.columns, key=plan.key, write=plan.write, derived=plan.derived, needed=_needed(plan))


def _has_values(data: bytes, plan: TablePlan, file: str) -> bool:
    """Whether the event's images have the computed values, which MariaDB 11.8 leaves out of updates."""
    event = event_from_bytes(data)
    if c.ROWS_EVENTS.get(event.type) not in _WRITING:
        return False
    header = parse_rows_header(event, file)
    return all(header.present[number] and header.present_after[number] for number in _needed(plan))


def _text(value: bytes | None) -> str:
    if value is None:
        return "NULL"
    text = value.decode("utf-8", "backslashreplace")
    return f"{text[:_SHOWN]}{'…' if len(text) > _SHOWN else ''}"


def _error(plan: TablePlan, column: ComputedColumn, values: BothValues) -> DMError:
    there, here = map(_text, values)
    target, name = qualified(*plan.target), quote(column.name)
    return errors.new(
        Code.SyncerUnitDMLColumnNotMatch,
        f"the target {target} computed {there} in its generated column {name}, and the upstream {here}, for the same "
        f"row of {qualified(*plan.source)}",
        scope="downstream",
        workaround="A session of the upstream may have had another time_zone, or another variable that the expression "
        f"depends on, or the expressions differ. The rows up to here are applied. {as_plain(plan, column)}",
    )
