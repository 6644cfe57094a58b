"""Rows of the target that are compared with the binlog as a whole: a statement returns the text of many rows. Pure.

The target writes its rows as this program writes literals (:func:`row_matching.literal_text`). Equal text proves that
the rows are equal. Different text proves nothing: each row whose text differs is compared by itself (:mod:`row_look`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from dm_worker.syncer.execution.merge import DELETE_KEYS, UPSERT_ROWS, RowGroup, row_group
from dm_worker.syncer.execution.row_look import ExpectedRow
from dm_worker.syncer.execution.row_statements import listed_keys
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.literal_text import split_tuple
from pkg.mysql.names import qualified, quote

#: A row as the target writes it, and one of its values.
_ROW = re.compile(rb"\((?:[^()']++|'(?:[^'\\]++|\\.)*+')*+\)", re.DOTALL)
_VALUE = re.compile(rb"(?:[^(),']++|'(?:[^'\\]++|\\.)*+')++", re.DOTALL)


class DoubtfulRow(NamedTuple):
    """A row that is to be compared by itself, as one :class:`ExpectedRow`; ``values`` is its tuple."""

    plan: int
    key: bytes
    values: bytes | None
    optional: bool = False

    @classmethod
    def of(cls, row: ExpectedRow) -> DoubtfulRow:
        values = None if row.values is None else b"(%b)" % b",".join(row.values)
        return cls(row.plan, row.key, values, row.optional)

    def expected(self) -> ExpectedRow:
        values = None if self.values is None else split_tuple(self.values)
        return ExpectedRow(self.plan, self.key, values, self.optional)


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

    def row_keys(self) -> Iterator[bytes]:
        """The keys: literals joined by commas."""
        for key in self.keys.rows():
            yield key[1:-1] if key[:1] == b"(" else key

    def rows(self, plan: TablePlan) -> Iterator[DoubtfulRow]:
        """The rows one by one."""
        found = {row.key: row for row in self._present(plan, self.there.rows())}
        for key in self.row_keys():
            yield found.get(key) or DoubtfulRow(plan.number, key, None)

    def doubtful(self, plan: TablePlan, text: bytes, *, full: bool) -> Iterator[DoubtfulRow]:
        """The rows that the ``text`` of the target does not prove right."""
        there = self.there.rows()
        keys = self.keys.rows()
        wanted = there if full else [key if key[:1] == b"(" else b"(%b)" % key for key in _keys_there(keys, there)]
        other, has_more = _unlike(wanted, text, len(plan.key))
        yield from self._present(plan, [there[number] for number in other])
        if has_more:
            yield from (row for row in self.rows(plan) if row.values is None)

    def _present(self, plan: TablePlan, rows: Sequence[bytes]) -> Iterator[DoubtfulRow]:
        width = len(plan.key)
        return (DoubtfulRow(plan.number, _key_of(row, width), row) for row in rows)


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


def _unlike(wanted: Sequence[bytes], text: bytes, width: int) -> tuple[list[int], bool]:
    """Which of the ``wanted`` rows, in the order of their keys of ``width`` columns, are not in a text; and whether it
    has anything else than these rows, apart from their values."""
    other: list[int] = []
    # After the last row, the place is behind the end of the text.
    at, has_more = 0 if text else 1, False
    for number, row in enumerate(wanted):
        while not _begins_with(row, text, at):
            found = _ROW.match(text, at)
            if found is None:
                return [*other, *range(number, len(wanted))], has_more or at <= len(text)
            key = b"(%b" % _key_of(row, width)
            same = found[0].startswith(key) and found[0][len(key) : len(key) + 1] in (b",", b")")
            if same or found[0] > row:
                other.append(number)
                at = found.end() + 1 if same else at
                break
            at, has_more = found.end() + 1, True
        else:
            at += len(row) + 1
    return other, has_more or at <= len(text)


def _key_of(row: bytes, width: int) -> bytes:
    """The first literals of a row, with the commas between them."""
    ends = (match.end() for match in _VALUE.finditer(row, 1))
    return row[1 : next(islice(ends, width - 1, None))]


def _begins_with(row: bytes, text: bytes, at: int) -> bool:
    """Whether the row is at this place of a text, up to a comma or its end."""
    end = at + len(row)
    return text.startswith(row, at) and text[end : end + 1] in (b"", b",")


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
