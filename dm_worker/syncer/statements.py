"""The SQL that writes the rows of one bucket. Pure: yields statements, runs none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dm_worker.syncer import compact
from dm_worker.syncer.batch import TablePlan
from dm_worker.syncer.block import OrderedRow
from dm_worker.syncer.compact import DELETED, GONE, INSERTED, REPLACED, UPDATED
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


def for_states(plans: Mapping[int, TablePlan], states: compact.States, form: Form) -> Iterator[SQL]:
    """The statements for the compacted rows of one target table.

    All rows that go are deleted before any comes: within the transaction, keys and values of unique keys that rows
    swap, and keys that the collation calls equal, are thus free when they are needed.
    """
    deletes: dict[int, list[bytes]] = {}
    inserts: dict[int, list[bytes]] = {}
    upserts: dict[int, list[bytes]] = {}
    for key, (state, number, values) in states.items():
        plan = plans[number]
        if state == GONE:
            continue
        if state == DELETED:
            deletes.setdefault(number, []).append(key)
        elif form.safe:
            upserts.setdefault(number, []).append(values)
        elif state == INSERTED:
            inserts.setdefault(number, []).append(values)
        elif plan.rewrite_existing or (state == REPLACED and plan.extra_columns):
            deletes.setdefault(number, []).append(key)
            inserts.setdefault(number, []).append(values)
        else:
            assert state in (UPDATED, REPLACED)
            upserts.setdefault(number, []).append(values)
    for number, keys in deletes.items():
        yield from _delete(plans[number], keys, form)
    for number, rows in upserts.items():
        yield from _upsert(plans[number], rows, form)
    for number, rows in inserts.items():
        yield from _values(plans[number], b"INSERT", rows, b"", form)


def _upsert(plan: TablePlan, rows: Sequence[bytes], form: Form) -> Iterator[SQL]:
    if form.safe and not plan.extra_columns:
        # What stands in the way may be from beyond this range, and comes again later.
        yield from _values(plan, b"REPLACE", rows, b"", form)
        return
    keys = {name.lower() for name in plan.key_names}
    changed = [name for name in plan.write_names if name.lower() not in keys] or list(plan.write_names)
    update = ",".join(f"{quote(name)}=VALUES({quote(name)})" for name in changed)
    yield from _values(plan, b"INSERT", rows, f" ON DUPLICATE KEY UPDATE {update}".encode(), form)


def _values(plan: TablePlan, verb: bytes, rows: Sequence[bytes], tail: bytes, form: Form) -> Iterator[SQL]:
    columns = ",".join(quote(name) for name in plan.write_names)
    head = verb + f" INTO {qualified(*plan.target)} ({columns}) VALUES ".encode()
    for group in _groups(rows, form.limit - len(head) - len(tail), form.rows):
        yield SQL(head + b",".join(group) + tail, plan.number)


def _delete(plan: TablePlan, keys: Sequence[bytes], form: Form) -> Iterator[SQL]:
    columns = ",".join(quote(name) for name in plan.key_names)
    if len(plan.key_names) > 1:
        columns = f"({columns})"
        keys = [b"(" + key + b")" for key in keys]
    head = f"DELETE FROM {qualified(*plan.target)} WHERE {columns} IN (".encode()
    most = max(1, min(form.rows, MAX_IN_LIST // len(plan.key_names)))
    for group in _groups(keys, form.limit - len(head), most):
        yield SQL(head + b",".join(group) + b")", plan.number)


def _groups(items: Sequence[bytes], limit: int, most: int) -> Iterator[list[bytes]]:
    """Cuts into groups of at most ``most`` items and about ``limit`` bytes; an item beyond the limit goes alone."""
    group: list[bytes] = []
    size = 0
    for item in items:
        if group and (size + len(item) > limit or len(group) >= most):
            yield group
            group, size = [], 0
        group.append(item)
        size += len(item) + 1
    if group:
        yield group


def for_ordered(plans: Mapping[int, TablePlan], rows: Iterable[OrderedRow], form: Form) -> Iterator[SQL]:
    """The statements for the rows of one target table in their order; inserts that follow each other are joined."""
    waiting: list[bytes] = []
    plan: TablePlan | None = None
    for op, number, position, before, after in rows:
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
        yield from _upsert(plan, rows, form)
    else:
        yield from _values(plan, b"INSERT", rows, b"", form)


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
        yield from _upsert(plan, [_tuple(plan, after)], form)
        return
    assignments = b",".join(
        quote(name).encode() + b"=" + after[i] for name, i in zip(plan.write_names, plan.write, strict=True)
    )
    head = f"UPDATE {qualified(*plan.target)} SET ".encode()
    yield SQL(head + assignments + _where(plan, before), plan.number, position, None if form.safe else 1)
