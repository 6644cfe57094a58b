"""The SQL that writes the rows of one bucket. Pure: yields statements, runs none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from dm_worker.syncer import compact
from dm_worker.syncer.batch import TablePlan
from dm_worker.syncer.block import OrderedRow
from dm_worker.syncer.combine import (
    AS_DELETE,
    AS_INSERT,
    AS_UPSERT,
    DELETE_KEYS,
    INSERT_ROWS,
    UPSERT_ROWS,
    Group,
    Rule,
    cut,
)
from pkg.mysql.names import qualified, quote

#: Rates hardly grow beyond a thousand rows a statement, and longer IN lists make MariaDB build a temporary table.
ROWS_PER_STATEMENT = 1000
MAX_IN_LIST = 999


@dataclass(frozen=True, slots=True)
class SQL:
    """One statement. ``expect`` is the number of rows that it must match, None when any will do.

    ``plan`` and ``position`` tell an error message which table and which place in the binlog it belongs to.
    """

    text: bytes
    plan: int
    position: int = 0
    expect: int | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """How statements are made: ``limit`` in bytes; ``multiple`` rows in one statement, or one each."""

    safe: bool = False
    multiple: bool = True
    limit: int = 1024 * 1024

    @property
    def rows(self) -> int:
        return ROWS_PER_STATEMENT if self.multiple else 1


def rule_of(plan: TablePlan, form: Form) -> Rule:
    """What the compacted states of a plan's rows become, and how many fit in one statement.

    All rows that go are deleted before any comes: within the transaction, keys and values of unique keys that rows
    swap, and keys that the collation calls equal, are thus free when they are needed.
    """
    renew = AS_DELETE | AS_INSERT
    if form.safe:
        kinds = (AS_UPSERT, AS_UPSERT, AS_DELETE, AS_UPSERT, 0)
    else:
        # With ties, an update that changes a value of a further unique key comes as a replacement.
        updated = renew if plan.rewrite_existing and not plan.ties else AS_UPSERT
        replaced = renew if plan.rewrite_existing or plan.extra_columns else AS_UPSERT
        kinds = (AS_INSERT, updated, AS_DELETE, replaced, 0)
    bytes_ = [_room(plan, kind, form) for kind in (DELETE_KEYS, UPSERT_ROWS, INSERT_ROWS)]
    in_list = max(1, min(form.rows, MAX_IN_LIST // max(1, len(plan.key_names))))
    rows = (in_list, form.rows, form.rows)
    return Rule(bytes(kinds), len(plan.key_names) > 1, (bytes_[0], bytes_[1], bytes_[2]), rows)


def _room(plan: TablePlan, kind: int, form: Form) -> int:
    """Bytes for the rows of a statement."""
    return form.limit - sum(map(len, _frame(plan, kind, form)))


def for_group(plan: TablePlan, group: Group, form: Form) -> SQL:
    """The statement that writes a group."""
    head, tail = _frame(plan, group.kind, form)
    return SQL(head + group.body + tail, plan.number)


def _frame(plan: TablePlan, kind: int, form: Form) -> tuple[bytes, bytes]:
    """What stands before and after the rows."""
    if kind == DELETE_KEYS:
        keys = ",".join(quote(name) for name in plan.key_names)
        keys = f"({keys})" if len(plan.key_names) > 1 else keys
        return f"DELETE FROM {qualified(*plan.target)} WHERE {keys} IN (".encode(), b")"
    # What stands in the way in safe mode may be from beyond this range, and comes again later.
    replace = kind == UPSERT_ROWS and form.safe and not plan.extra_columns
    columns = ",".join(quote(name) for name in plan.write_names)
    head = f"{'REPLACE' if replace else 'INSERT'} INTO {qualified(*plan.target)} ({columns}) VALUES ".encode()
    if kind == INSERT_ROWS or replace:
        return head, b""
    known = {name.lower() for name in plan.key_names}
    changed = [name for name in plan.write_names if name.lower() not in known] or list(plan.write_names)
    update = ",".join(f"{quote(name)}=VALUES({quote(name)})" for name in changed)
    return head, f" ON DUPLICATE KEY UPDATE {update}".encode()


def _of_kind(plan: TablePlan, kind: int, rows: Sequence[bytes], form: Form) -> Iterator[SQL]:
    """The statements for whole rows, ``UPSERT_ROWS`` or ``INSERT_ROWS``."""
    for group in cut(plan.number, kind, rows, _room(plan, kind, form), form.rows):
        yield for_group(plan, group, form)


def in_order(
    plans: Mapping[int, TablePlan], ordered: Mapping[int, Sequence[OrderedRow]]
) -> Iterator[Sequence[OrderedRow]]:
    """The rows that keep their order, put together where they keep it among each other: those of one target table,
    or of the tables of one family."""
    runs: dict[int | str, list[Sequence[OrderedRow]]] = {}
    for target, rows in ordered.items():
        family = plans[rows[0][2]].family
        runs.setdefault(family or target, []).append(rows)
    for parts in runs.values():
        # Several blocks of one slice may hold rows of one bucket.
        yield sorted((row for rows in parts for row in rows), key=itemgetter(0))


def for_ordered(plans: Mapping[int, TablePlan], rows: Iterable[OrderedRow], form: Form) -> Iterator[SQL]:
    """The statements for rows in their order; inserts into one table that follow each other are joined."""
    waiting: list[bytes] = []
    plan: TablePlan | None = None
    for _, op, number, position, before, after in rows:
        if waiting and plan is not None and (op != compact.INSERT or number != plan.number):
            yield from _insert_ordered(plan, waiting, form)
            waiting = []
        plan = plans[number]
        if op == compact.INSERT:
            assert after is not None
            waiting.append(_tuple(plan, after))
        elif op == compact.DELETE:
            assert before is not None
            yield _delete_one(plan, before, position, form)
        else:
            assert before is not None
            assert after is not None
            yield from _update_one(plan, before, after, position, form)
    if waiting and plan is not None:
        yield from _insert_ordered(plan, waiting, form)


def _insert_ordered(plan: TablePlan, rows: Sequence[bytes], form: Form) -> Iterator[SQL]:
    if form.safe and plan.key:
        yield from _of_kind(plan, UPSERT_ROWS, rows, form)
    else:
        yield from _of_kind(plan, INSERT_ROWS, rows, form)


def _tuple(plan: TablePlan, image: Sequence[bytes]) -> bytes:
    return b"(" + b",".join([image[i] for i in plan.write]) + b")"


def _where(plan: TablePlan, image: Sequence[bytes]) -> bytes:
    """The row by its key, else by all of its values."""
    if plan.key:
        parts = [quote(name).encode() + b"=" + image[i] for name, i in zip(plan.key_names, plan.key, strict=True)]
    else:
        parts = [
            b"%b%b%b" % (before, image[i], after)
            for i, (before, after) in zip(plan.write, _split_matchers(plan), strict=True)
        ]
    return b" WHERE " + b" AND ".join(parts) + b" LIMIT 1"


def _split_matchers(plan: TablePlan) -> list[tuple[bytes, bytes]]:
    pairs = (matcher.rsplit("{}", 1) for matcher in plan.matchers)
    return [(before.encode(), after.encode()) for before, after in pairs]


def _delete_one(plan: TablePlan, before: Sequence[bytes], position: int, form: Form) -> SQL:
    head = f"DELETE FROM {qualified(*plan.target)}".encode()
    return SQL(head + _where(plan, before), plan.number, position, None if form.safe else 1)


def _update_one(
    plan: TablePlan, before: Sequence[bytes], after: Sequence[bytes], position: int, form: Form
) -> Iterator[SQL]:
    if form.safe and plan.key:
        yield _delete_one(plan, before, position, form)
        yield from _of_kind(plan, UPSERT_ROWS, [_tuple(plan, after)], form)
        return
    assignments = b",".join(
        quote(name).encode() + b"=" + after[i] for name, i in zip(plan.write_names, plan.write, strict=True)
    )
    head = f"UPDATE {qualified(*plan.target)} SET ".encode()
    yield SQL(head + assignments + _where(plan, before), plan.number, position, None if form.safe else 1)
