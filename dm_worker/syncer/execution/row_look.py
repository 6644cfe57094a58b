"""The SQL that compares rows of the target with their last images in a range of the binlog. Pure.

The target compares a literal of the binlog and the stored value of its column (:mod:`row_matching`). So values that the
server shows in another form, such as floats, are still compared exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from dm_worker.syncer.execution.compaction import UPDATE
from dm_worker.syncer.execution.family_rows import UNCHECKED
from dm_worker.syncer.execution.merge import DELETE_KEYS, BucketContent
from dm_worker.syncer.execution.row_statements import in_order
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.literal_text import literal_text, split_tuple
from pkg.mysql.names import qualified, quote

_UNION = b" UNION ALL "


class Presence(IntEnum):
    """What is known of a row that must be there, where the task's filters leave out changes.

    A change without a row at the target has no effect. So after an UPDATE the row is there only if it was before:
    an INSERT that the same changes contain makes that certain.
    """

    SURE = 0
    #: An UPDATE was the first of the changes: the row has these values, or it was missing before and still is.
    IF_THERE = 1
    #: It may also be another row, which has kept its values.
    UNKNOWN = 2


class ExpectedRow(NamedTuple):
    """How a row must be. ``key``: its literals joined by commas. ``values``: the written columns' literals, None when
    the row must be gone. ``presence``: whether it must be there with these values."""

    plan: int
    key: bytes
    values: Sequence[bytes] | None
    presence: Presence = Presence.SURE


def problem_of(plan: TablePlan) -> str:
    """Why rows of the plan can't be compared by their keys; '' when they can."""
    if not plan.key:
        return "no primary key"
    if plan.acts:
        return "foreign keys of the target change rows by themselves"
    if not set(plan.key) <= set(plan.write):
        return "the target computes a column of the key"
    return ""


def expected_rows(content: BucketContent, plans: Mapping[int, TablePlan]) -> Iterator[ExpectedRow]:
    """The last image of each row of the bucket whose table can be compared."""
    for group in content.groups:
        plan = plans[group.plan]
        if problem_of(plan):
            continue
        if group.kind == DELETE_KEYS:
            yield from (ExpectedRow(plan.number, key, None) for key in group.rows())
            continue
        places = [plan.write.index(number) for number in plan.key]
        for row in group.rows():
            values = split_tuple(row)
            yield ExpectedRow(plan.number, b",".join([values[place] for place in places]), values)
    for rows in in_order(plans, content.ordered):
        last: dict[tuple[int, bytes], ExpectedRow] = {}
        for _, flagged, number, _, before, after in rows:
            plan = plans[number]
            if not problem_of(plan):
                _note(last, plan, flagged & ~UNCHECKED, before, after)
        yield from last.values()


def _note(
    last: dict[tuple[int, bytes], ExpectedRow],
    plan: TablePlan,
    op: int,
    before: Sequence[bytes] | None,
    after: Sequence[bytes] | None,
) -> None:
    """Notes one change in the ``last`` images by target table and key."""
    presence = Presence.SURE
    if before is not None:
        key = _key_of(plan, before)
        known = last.get((plan.target_number, key))
        if op == UPDATE and plan.filter.leaves_gaps and after is not None:
            presence = _updated(known, moved=key != _key_of(plan, after))
        last[plan.target_number, key] = ExpectedRow(plan.number, key, None)
    if after is not None:
        key = _key_of(plan, after)
        last[plan.target_number, key] = ExpectedRow(plan.number, key, [after[i] for i in plan.write], presence)


def _updated(known: ExpectedRow | None, *, moved: bool) -> Presence:
    """The presence of a row after an UPDATE, by what was ``known`` of it before."""
    if known is not None and known.values is None:
        # Only safe mode writes a row that was gone.
        return Presence.UNKNOWN
    presence = Presence.IF_THERE if known is None else known.presence
    return Presence.UNKNOWN if moved and presence is not Presence.SURE else presence


def _key_of(plan: TablePlan, image: Sequence[bytes]) -> bytes:
    return b",".join([image[i] for i in plan.key])


class RowSelects:
    """The SELECTs for rows of several plans, by number. The text of each plan is made once."""

    def __init__(self, plans: Mapping[int, TablePlan]) -> None:
        self._plans = plans
        self._texts: dict[tuple[int, bool], tuple[bytes, tuple[int, ...]]] = {}

    def there(self, number: int, row: ExpectedRow, *, full: bool) -> bytes:
        """Returns ``number`` if the target has the row; with ``full``, if it also has these values."""
        plan = self._plans[row.plan]
        return b"SELECT %d FROM %b WHERE %b" % (
            number,
            qualified(*plan.target).encode(),
            self._condition(row, full=full),
        )

    def values(self, row: ExpectedRow) -> bytes:
        """Returns the target's values of the written columns."""
        plan = self._plans[row.plan]
        columns = ",".join(map(quote, plan.write_names)).encode()
        return b"SELECT %b FROM %b WHERE %b" % (
            columns,
            qualified(*plan.target).encode(),
            self._condition(row, full=False),
        )

    def is_right(self, row: ExpectedRow, *, full: bool) -> bytes:
        """Returns a row if the row is as expected."""
        there = self.there(1, row, full=full)
        return b"SELECT 1 FROM DUAL WHERE NOT EXISTS (%b)" % there if row.values is None else there

    def _condition(self, row: ExpectedRow, *, full: bool) -> bytes:
        whole = row.values if full else None
        found = self._texts.get((row.plan, whole is not None))
        if found is None:
            found = self._texts[row.plan, whole is not None] = _condition(
                self._plans[row.plan], whole=whole is not None
            )
        text, places = found
        literals = split_tuple(row.key) if whole is None else whole
        return text % tuple([literals[place] for place in places])


def _condition(plan: TablePlan, *, whole: bool) -> tuple[bytes, tuple[int, ...]]:
    """The condition for a row by its key, or with the ``whole`` of its values: the text with a gap for each literal,
    and the literal's place in the key or in the written columns."""
    numbers = plan.write if whole else plan.key
    place_of = {number: place for place, number in enumerate(numbers)}
    parts, places = [], []
    for name, number in zip(plan.key_names, plan.key, strict=True):
        parts.append(_plain(quote(name)) + b"=%b")
        places.append(place_of[number])
    # Keys that are equal by a collation are keys of different rows here.
    for number, matcher in zip(plan.write, plan.matchers, strict=True):
        if number in place_of:
            parts.append(b"%b".join(map(_plain, matcher)))
            places += [place_of[number]] * (len(matcher) - 1)
    return b" AND ".join(parts), tuple(places)


def _plain(text: str) -> bytes:
    """Text that is not a gap."""
    return text.encode().replace(b"%", b"%%")


def joined(
    rows: Iterable[tuple[int, ExpectedRow]],
    select: Callable[[int, ExpectedRow], bytes],
    most_rows: int,
    most_bytes: int,
) -> Iterator[tuple[int, list[int], bytes]]:
    """The SELECTs of several rows as one statement each: its plan, the rows' numbers, and the text. A statement has one
    plan, and at most ``most_rows`` rows and about ``most_bytes``; a larger row has its own."""
    for plan, run in groupby(rows, lambda numbered: numbered[1].plan):
        numbers: list[int] = []
        texts: list[bytes] = []
        size = 0
        for number, row in run:
            text = select(number, row)
            if texts and (len(texts) >= most_rows or size + len(text) > most_bytes):
                yield plan, numbers, _UNION.join(texts)
                numbers, texts, size = [], [], 0
            numbers.append(number)
            texts.append(text)
            size += len(text) + len(_UNION)
        if texts:
            yield plan, numbers, _UNION.join(texts)


def by_plan(rows: Iterable[ExpectedRow]) -> list[ExpectedRow]:
    """The rows, those of one plan next to each other."""
    return sorted(rows, key=attrgetter("plan"))


def shown_row(names: Sequence[str], literals: Sequence[bytes] | None) -> str:
    """The literals of a row as text for operators: a JSON object, '' for a row that is gone."""
    if literals is None:
        return ""
    return _json(names, (_shown_literal(literal) for literal in literals))


def shown_values(names: Sequence[str], values: Sequence[object] | None) -> str:
    """The same for values that the target returned."""
    if values is None:
        return ""
    return _json(names, (_shown_value(value) for value in values))


def _json(names: Sequence[str], values: Iterable[str | None]) -> str:
    return json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)


#: FLOAT and DOUBLE, as this program writes them.
_FLOAT = re.compile(rb"-?[0-9]+(\.[0-9]+)?e[+-]?[0-9]+")


def _shown_literal(literal: bytes) -> str | None:
    if _FLOAT.fullmatch(literal):
        return str(float(literal))  # as the client library shows the target's value
    try:
        found = literal_text(literal)
    except ValueError:
        return literal.decode("utf-8", "backslashreplace")
    return None if found is None else _text(found.data)


def _shown_value(value: object) -> str | None:
    if value is None:
        return None
    return _text(value) if isinstance(value, bytes) else str(value)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
