"""Rows of the target that are compared with the binlog as a whole: a statement returns the text of many rows. Pure.

The target writes its rows as this program writes literals (:func:`row_matching.literal_text`). Equal text proves that
the rows are equal. Different text proves nothing: each row whose text differs is compared by itself (:mod:`row_look`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from dm_worker.syncer.execution.merge import DELETE_KEYS, UPSERT_ROWS, RowGroup, row_group
from dm_worker.syncer.execution.row_look import ExpectedRow, Presence
from dm_worker.syncer.execution.row_statements import listed_keys
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.literal_text import split_tuple
from pkg.mysql.names import qualified, quote

_STRINGS = rb"(?:'[^'\\]*+(?:\\.[^'\\]*+)*+'%b)*+"
#: A row as the target writes it, and one of its values.
_ROW = re.compile(rb"\([^()']*+" + _STRINGS % rb"[^()']*+" + rb"\)", re.DOTALL)
_VALUE = rb"[^(),']*+" + _STRINGS % rb"[^(),']*+"


class DoubtfulRow(NamedTuple):
    """A row that is to be compared by itself, as one :class:`ExpectedRow`; ``values`` is its tuple."""

    plan: int
    key: bytes
    values: bytes | None
    presence: Presence = Presence.SURE

    @classmethod
    def of(cls, row: ExpectedRow) -> DoubtfulRow:
        values = None if row.values is None else b"(%b)" % b",".join(row.values)
        return cls(row.plan, row.key, values, row.presence)

    def expected(self) -> ExpectedRow:
        values = None if self.values is None else split_tuple(self.values)
        return ExpectedRow(self.plan, self.key, values, self.presence)


@dataclass(frozen=True, slots=True)
class RowChunk:
    """Rows of one plan in the order of their keys' bytes: the ``keys`` of all, in parentheses when they have several
    columns, and the values of those that must be ``there``. ``text`` is what the statement must return for them."""

    keys: RowGroup
    there: RowGroup
    text: bytes

    @property
    def plan(self) -> int:
        return self.keys.plan

    def statement(self, plan: TablePlan, *, full: bool) -> bytes:
        """Returns the text of the rows that have one of the keys. ``full``: with all values, otherwise the key's."""
        texts = plan.texts if full else plan.texts[: len(plan.key)]
        names = [quote(name) for name in plan.key_names]
        order = ",".join(f"CAST({text} AS BINARY)" for text in plan.texts[: len(plan.key)])
        columns = f"({','.join(names)})" if len(names) > 1 else names[0]
        text = f"GROUP_CONCAT(_binary'(',{','.join(_with_commas(texts))},')' ORDER BY {order} SEPARATOR ',')"
        return (
            f"SELECT CAST({text} AS BINARY) FROM {qualified(*plan.target)} WHERE {columns} IN (".encode()
            + self.keys.body
            + b")"
        )

    def row_keys(self) -> Sequence[bytes]:
        """The keys: literals joined by commas."""
        keys = self.keys.rows()
        return [key[1:-1] for key in keys] if keys[0][:1] == b"(" else keys

    def rows(self, plan: TablePlan) -> Iterator[DoubtfulRow]:
        """The rows one by one."""
        key_of = _key_pattern(len(plan.key))
        values = {key_of.match(row)[1]: row for row in self.there.rows()}  # type: ignore[index]
        return (DoubtfulRow(plan.number, key, values.get(key)) for key in self.row_keys())

    def doubtful(self, plan: TablePlan, text: bytes, *, full: bool) -> Iterator[DoubtfulRow]:
        """The rows that the ``text`` of the target does not prove right."""
        there = self.there.rows()
        wanted = there if full else [_in_parentheses([key]) for key in _keys_there(self.keys.rows(), there)]
        other, has_more = _unlike(wanted, text, len(plan.key))
        yield from (DoubtfulRow(plan.number, key, there[number]) for number, key in other)
        if has_more:
            yield from (row for row in self.rows(plan) if row.values is None)


def may_chunk(plan: TablePlan, *, full: bool) -> bool:
    """Whether the target can write rows of the plan as literals: with ``full`` all columns, otherwise the key. The
    plan must be one for comparing, whose written columns begin with the key."""
    texts = plan.texts if full else plan.texts[: len(plan.key)]
    return bool(texts) and all(texts) and plan.write[: len(plan.key)] == plan.key


def chunks_of(
    plan: TablePlan, keys: Sequence[bytes], rows: Sequence[bytes], most_rows: int, most_bytes: int, *, full: bool
) -> Iterator[RowChunk]:
    """The rows with these ``keys``; ``rows`` are the tuples of those that must be there, and begin with their keys. A
    chunk has at most ``most_rows`` and about ``most_bytes``; a larger row has its own."""
    # A literal that begins with another one has a digit, a point or an exponent after it, which follow a comma and a
    # parenthesis: so keys have the same order with several columns, and in front of their rows.
    keys, rows = sorted(keys), sorted(rows)
    most = max(1, min(most_rows, listed_keys(plan)))
    spans = [(start, min(start + most, len(keys))) for start in reversed(range(0, len(keys), most))]
    while spans:
        start, end = spans.pop()
        first, last = (_place(keys, at, rows) for at in (start, end))
        if end - start > 1 and sum(map(len, rows[first:last])) + sum(map(len, keys[start:end])) > most_bytes:
            middle = (start + end) // 2
            spans += [(middle, end), (start, middle)]
            continue
        there = row_group(plan.number, UPSERT_ROWS, rows[first:last])
        text = there.body if full else _in_parentheses(_keys_there(keys[start:end], rows[first:last]))
        yield RowChunk(row_group(plan.number, DELETE_KEYS, keys[start:end]), there, text)


def _unlike(wanted: Sequence[bytes], text: bytes, width: int) -> tuple[list[tuple[int, bytes]], bool]:
    """Which of the ``wanted`` rows, in the order of their keys of ``width`` columns, are not in a text: their numbers
    and keys; and whether it has anything else than these rows, apart from their values."""
    key_of = _key_pattern(width).match
    other: list[tuple[int, bytes]] = []
    # After the last row, the place is behind the end of the text.
    at, has_more = 0 if text else 1, False
    for number, row in enumerate(wanted):
        end = at + len(row)
        if text.startswith(row, at) and text[end : end + 1] in (b"", b","):
            at = end + 1
            continue
        key: bytes = key_of(row)[1]  # type: ignore[index]
        while (found := _ROW.match(text, at)) and (there := key_of(text, at)[1]) < key:  # type: ignore[index]
            at, has_more = found.end() + 1, True
        if not (found and there == key):
            other.append((number, key))
            continue
        at = found.end() + 1
        if found[0] != row or text[at - 1 : at] not in (b"", b","):
            other.append((number, key))
    return other, has_more or at <= len(text)


@cache
def _key_pattern(width: int) -> re.Pattern[bytes]:
    """Its first group is the key of a row: its first values."""
    return re.compile(rb"\((" + b",".join([_VALUE] * width) + rb")[,)]", re.DOTALL)


def _place(keys: Sequence[bytes], at: int, rows: Sequence[bytes]) -> int:
    """Where the row of the key begins, or that of a later one."""
    if at == len(keys):
        return len(rows)
    key = keys[at]
    return bisect_left(rows, key[:-1] if key[:1] == b"(" else b"(" + key)


def _keys_there(keys: Sequence[bytes], rows: Sequence[bytes]) -> Sequence[bytes]:
    """The keys of the rows. Each row has one of the keys, and most keys have a row."""
    if not rows or len(rows) == len(keys):
        return keys[: len(rows)]
    middle = len(keys) // 2
    at = _place(keys, middle, rows)
    return [*_keys_there(keys[:middle], rows[:at]), *_keys_there(keys[middle:], rows[at:])]


def _in_parentheses(keys: Sequence[bytes]) -> bytes:
    """The text of rows that have a key alone."""
    if not keys or keys[0][:1] == b"(":
        return b",".join(keys)
    return b"(%b)" % b"),(".join(keys)


def _with_commas(texts: Sequence[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number:
            yield "','"
        yield text
