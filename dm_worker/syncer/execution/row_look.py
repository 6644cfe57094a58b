"""The SQL that compares rows of the target with their last images in a range of the binlog. Pure.

The target compares a literal of the binlog and the stored value of its column (:mod:`row_matching`). So values that the
server shows in another form, such as floats, are still compared exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from dm_worker.syncer.execution.compaction import UPDATE
from dm_worker.syncer.execution.family_rows import UNCHECKED
from dm_worker.syncer.execution.merge import DELETE_KEYS, BucketContent
from dm_worker.syncer.execution.row_statements import in_order
from dm_worker.syncer.rows.row_matching import around
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.literal_text import literal_text, split_tuple
from pkg.mysql.names import qualified, quote

_UNION = b" UNION ALL "


class ExpectedRow(NamedTuple):
    """How a row must be. ``key``: its literals joined by commas. ``values``: the written columns' literals, None when
    the row must be gone. ``optional``: it may be missing, because the task's filters may have left out its insert."""

    plan: int
    key: bytes
    values: Sequence[bytes] | None
    optional: bool = False


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
            plan, op = plans[number], flagged & ~UNCHECKED
            if problem_of(plan):
                continue
            if before is not None:
                _note(last, plan, before, None)
            if after is not None:
                _note(last, plan, after, after, optional=op == UPDATE and plan.filter.leaves_gaps)
        yield from last.values()


def _note(
    last: dict[tuple[int, bytes], ExpectedRow],
    plan: TablePlan,
    image: Sequence[bytes],
    after: Sequence[bytes] | None,
    *,
    optional: bool = False,
) -> None:
    key = b",".join([image[i] for i in plan.key])
    values = None if after is None else [after[i] for i in plan.write]
    last[plan.target_number, key] = ExpectedRow(plan.number, key, values, optional)


def condition(plan: TablePlan, row: ExpectedRow, *, full: bool) -> bytes:
    """The condition for the row with this key; with ``full``, and with all of the values."""
    literals = split_tuple(row.key)
    parts = [quote(name).encode() + b"=" + value for name, value in zip(plan.key_names, literals, strict=True)]
    # Keys that are equal by a collation are keys of different rows here.
    keys = dict(zip(plan.key, literals, strict=True))
    whole = row.values if full else None
    for place, (number, matcher) in enumerate(zip(plan.write, plan.matchers, strict=True)):
        literal = keys.get(number) if whole is None else whole[place]
        if literal is not None:
            parts.append(around(matcher, literal))
    return b" AND ".join(parts)


def numbers_of(plan: TablePlan, row: ExpectedRow, number: int, *, full: bool) -> bytes:
    """The SELECT that returns ``number`` if the target has the row; with ``full``, if it also has these values."""
    return b"SELECT %d FROM %b WHERE %b" % (number, qualified(*plan.target).encode(), condition(plan, row, full=full))


def values_of(plan: TablePlan, row: ExpectedRow) -> bytes:
    """The SELECT of the target's values of the written columns."""
    columns = ",".join(map(quote, plan.write_names))
    target = qualified(*plan.target)
    return f"SELECT {columns} FROM {target} WHERE ".encode() + condition(plan, row, full=False)


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


def _shown_literal(literal: bytes) -> str | None:
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
