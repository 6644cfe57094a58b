"""The SQL that writes the rows of one bucket. Pure: yields statements, runs none."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from dm_worker.syncer.execution import compaction, family_order, family_rows, load_data
from dm_worker.syncer.execution.keyless import KeylessRows, plan_for
from dm_worker.syncer.execution.merge import (
    AS_DELETE,
    AS_INSERT,
    AS_UPSERT,
    DELETE_KEYS,
    INSERT_ROWS,
    UPSERT_ROWS,
    BucketContent,
    RowGroup,
    WriteRule,
    cut,
)
from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.rows.row_matching import around
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.introspect import ServerInfo
from pkg.mysql.literal_text import split_tuple
from pkg.mysql.names import qualified, quote
from pkg.mysql.wire import Command

#: Beyond a thousand rows a statement is hardly faster, and longer IN lists make MariaDB build a temporary table.
ROWS_PER_STATEMENT = 1000
MAX_IN_LIST = 999
#: The alias of the new row where VALUES() is deprecated.
_ALIAS = "`dm_new`"
_ONE = b" LIMIT 1"
#: What an INSERT of several rows answers, with FOUND_ROWS: how many of them were there.
_DUPLICATES = re.compile(r"Duplicates: (\d+)")


@dataclass(frozen=True, slots=True)
class RowStatement:
    """One statement. ``expect`` is the number of rows that it must match, None for any number. ``existing``: each row
    of an upsert must be there already.

    ``plan`` and ``position`` are its table and its location in the binlog, for errors. ``group`` holds the rows of a
    statement that may have several; otherwise ``row`` is the key of the one row, or all of its values, as literals
    joined by commas. ``bulk`` has the same effect as the SQL with less work for the server.
    """

    text: bytes
    plan: int
    position: int = 0
    expect: int | None = None
    group: RowGroup | None = None
    row: bytes = b""
    bulk: Command | None = None
    existing: bool = False

    @property
    def sent(self) -> bytes | Command:
        """The bytes or command for the server."""
        return self.text if self.bulk is None else self.bulk

    def found_rows(self, matched: int, info: str) -> bool:
        """Whether the server's answer shows that the rows were there that had to be."""
        if self.existing and self.group is not None:
            found = _DUPLICATES.search(info)
            return found is not None and int(found[1]) == self.group.count
        return self.expect is None or matched == self.expect


@dataclass(frozen=True, slots=True)
class StatementForm:
    """The form of statements: ``limit`` in bytes; ``multiple`` rows in one statement, or one each.

    ``alias``: the server requires an alias for the new row of ON DUPLICATE KEY UPDATE (MySQL from 8.0.20 on).
    ``checks``: the writers' sessions check foreign keys.
    ``renews``: rows are deleted and inserted that could be updated in place, since values that they take were not free.
    """

    safe: bool = False
    multiple: bool = True
    limit: int = 1024 * 1024
    alias: bool = False
    checks: bool = False
    renews: bool = False

    @property
    def rows(self) -> int:
        return ROWS_PER_STATEMENT if self.multiple else 1


def wants_alias(server: ServerInfo) -> bool:
    """Whether VALUES() in ON DUPLICATE KEY UPDATE is deprecated there. MariaDB and TiDB have no alternative."""
    return server.flavor == "mysql" and server.version >= (8, 0, 20)


@dataclass(frozen=True, slots=True)
class LoadStatement:
    """Groups of one plan and kind, ``count`` rows, for one LOAD DATA statement."""

    text: bytes
    plan: int
    count: int
    groups: tuple[RowGroup, ...]


#: Whether rows of a plan and kind may be loaded.
MayLoad = Callable[[TablePlan, int], bool]
#: Whether the server allows rows without a key to be written as a multiset.
MayMerge = Callable[[TablePlan], bool]


def for_content(
    plans: Mapping[int, TablePlan],
    content: BucketContent,
    form: StatementForm,
    may_load: MayLoad,
    may_merge: MayMerge,
    most: int,
    *,
    reorder: bool = False,
) -> Iterator[RowStatement | LoadStatement | KeylessRows]:
    """All statements of a bucket, in the order of execution; ``most``: the server's limit for a statement, in bytes.
    ``reorder``: rows that foreign keys connect may be tried in another order than the binlog's.

    They begin and end with the session's own foreign_key_checks if they change it in between.
    """
    related = next((plans[rows[0][2]] for rows in content.ordered.values() if plans[rows[0][2]].family), None)
    if related is not None:
        # An earlier attempt on this connection may have stopped in between.
        yield switch(related.number, on=form.checks)
    for (number, kind), run in groupby(content.groups, lambda group: (group.plan, group.kind)):
        groups = tuple(run)
        count = sum(group.count for group in groups)
        plan = plans[number]
        if may_load(plan, kind):
            text = load_data.statement(plan, replace=kind == UPSERT_ROWS)
            yield LoadStatement(text, number, count, groups)
            continue
        for group in groups:
            yield from fitting(plan, for_group(plan, group, form), form, most)
    checks = form.checks
    for rows in in_order(plans, content.ordered):
        merged = plan_for(plans, rows) if mergeable(form) else None
        if merged is not None and may_merge(merged):
            yield KeylessRows(merged, rows)
            continue
        for step in family_rows.ordered_runs(plans, rows, safe=form.safe, checks=form.checks):
            if step.checks != checks:
                checks = step.checks
                yield switch(step.rows[0][2], on=checks)
            used = form if step.safe == form.safe else replace(form, safe=step.safe)
            tried = reorder and step.checks and mergeable(used) and family_order.may_reorder(plans, step.rows)
            made = for_any_order(plans, step.rows, used) if tried else for_ordered(plans, step.rows, used)
            for sql in made:
                yield from fitting(plans[sql.plan], sql, form, most)
    if related is not None:
        yield switch(related.number, on=form.checks)


def switch(plan: int, *, on: bool) -> RowStatement:
    """Turns the session's foreign key checks on or off, for rows of the plan with this number."""
    return RowStatement(b"SET SESSION foreign_key_checks = %d" % on, plan)


def loadable(plan: TablePlan, kind: int, form: StatementForm) -> bool:
    """Whether the plan allows to load rows of this kind.

    LOAD DATA REPLACE would remove rows with the same value in another unique key, which must be an error instead.
    """
    overwrites = kind == UPSERT_ROWS and plan.rewrite_existing and not form.safe
    return plan.loadable and form.multiple and kind != DELETE_KEYS and not overwrites


def mergeable(form: StatementForm) -> bool:
    """Whether the form of the statements allows to write rows without a key as a multiset.

    In safe mode a missing row is not an error, and its change must not create it.
    """
    return form.multiple and not form.safe


def write_rule_of(plan: TablePlan, form: StatementForm) -> WriteRule:
    """How the compacted states of a plan's rows are written, and how many fit in one statement.

    All old rows are deleted before new ones are written: within the transaction, keys and values of unique keys that
    rows swap, and keys that are equal by the collation, are thus free when they are needed. In InnoDB, a deletion and
    an insertion lock the neighbours' values of unique keys that stay the same; rows that swap none are upserted.
    """
    renew = AS_DELETE | AS_INSERT
    if form.safe:
        written = renew if plan.session_keys else AS_UPSERT
        alone = joined = (written, written, AS_DELETE, written, 0)
    else:
        # With conflict keys, an update that changes a value of another unique key becomes a replacement.
        collides = plan.rewrite_existing and not plan.conflict_keys
        updated = renew if collides or not plan.upserts else AS_UPSERT
        replaced = renew if plan.rewrite_existing or plan.extra_columns or not plan.upserts else AS_UPSERT
        joined = (AS_INSERT, updated, AS_DELETE, replaced, 0)
        in_place = plan.in_place and not form.renews
        alone = (AS_INSERT, updated, AS_DELETE, AS_UPSERT if in_place else replaced, 0)
    bytes_ = [_room(plan, kind, form) for kind in (DELETE_KEYS, UPSERT_ROWS, INSERT_ROWS)]
    rows = (min(form.rows, listed_keys(plan)), form.rows, form.rows)
    return WriteRule(
        bytes(alone + joined), len(plan.key_names) > 1, (bytes_[0], bytes_[1], bytes_[2]), rows, plan.source_number
    )


def listed_keys(plan: TablePlan) -> int:
    """How many keys of the plan's rows one IN may list."""
    return max(1, MAX_IN_LIST // max(1, len(plan.key_names))) if plan.listed else 1


def _room(plan: TablePlan, kind: int, form: StatementForm) -> int:
    """The bytes available for the rows of a statement."""
    return form.limit - sum(map(len, _frame(plan, kind, form)))


def for_group(plan: TablePlan, group: RowGroup, form: StatementForm) -> RowStatement:
    """The statement that writes a group."""
    head, tail = _frame(plan, group.kind, form)
    return RowStatement(head + group.body + tail, plan.number, group=group)


def template(plan: TablePlan, kind: int, form: StatementForm) -> bytes:
    """The statement of whole rows of this kind with a parameter for each value of one row."""
    head, tail = _frame(plan, kind, form)
    return head + b"(" + b",".join([b"?"] * len(plan.write)) + b")" + tail


def part(group: RowGroup, first: int, last: int) -> RowGroup:
    """Rows ``first`` to ``last`` (exclusive) of a group, as a group."""
    ends = memoryview(group.cuts).cast("I")
    start = ends[first - 1] + 1 if first else 0
    cuts = array("I", (end - start for end in ends[first:last]))
    return RowGroup(group.plan, group.kind, group.body[start : ends[last - 1]], cuts.tobytes(), last - first)


def fitting(plan: TablePlan, sql: RowStatement, form: StatementForm, most: int) -> Iterator[RowStatement]:
    """The statement, or several with its rows, each of at most ``most`` bytes as far as rows can be split."""
    group = sql.group
    if len(sql.text) <= most or group is None or group.count == 1:
        yield sql
        return
    middle = group.count // 2
    for first, last in ((0, middle), (middle, group.count)):
        half = for_group(plan, part(group, first, last), form)
        expect = None if sql.expect is None else last - first
        yield from fitting(plan, replace(half, expect=expect, existing=sql.existing), form, most)


def may_collide(plan: TablePlan, sql: RowStatement, form: StatementForm) -> bool:
    """Whether a duplicate value may be one that a later row of the transaction gives up."""
    in_place = plan.in_place and not form.safe and not form.renews
    return in_place and sql.group is not None and sql.group.kind == UPSERT_ROWS


def replaces(plan: TablePlan, kind: int, form: StatementForm) -> bool:
    """Whether rows of this kind are written by REPLACE."""
    # In safe mode, a conflicting row may come from after this range, and is written again later.
    return kind == UPSERT_ROWS and form.safe and not plan.extra_columns and not plan.session_keys


def row_name(plan: TablePlan, sql: RowStatement) -> bytes:
    """The key of the one row of a statement, or all of its values when the table has none, as literals."""
    group = sql.group
    if group is None:
        return sql.row
    if group.kind == DELETE_KEYS:
        return group.body.removeprefix(b"(").removesuffix(b")")
    literals = split_tuple(group.body)
    if not plan.key or len(literals) != len(plan.write):
        return group.body[1:-1]
    return b",".join([literals[plan.write.index(i)] for i in plan.key if i in plan.write])


def _frame(plan: TablePlan, kind: int, form: StatementForm) -> tuple[bytes, bytes]:
    """The SQL before and after the rows."""
    if kind == DELETE_KEYS:
        return _delete_frame(plan.target, plan.key_names)
    if kind == INSERT_ROWS:
        return _insert_head(plan.target, plan.write_names, "INSERT"), b""
    if replaces(plan, kind, form):
        return _insert_head(plan.target, plan.write_names, "REPLACE"), b""
    head = _insert_head(plan.target, plan.write_names, "INSERT")
    return head, _upsert_tail(plan.write_names, plan.key_names, plan.filled, alias=form.alias)


@lru_cache(maxsize=1024)
def _delete_frame(target: tuple[str, str], key_names: tuple[str, ...]) -> tuple[bytes, bytes]:
    keys = ",".join(quote(name) for name in key_names)
    keys = f"({keys})" if len(key_names) > 1 else keys
    return f"DELETE FROM {qualified(*target)} WHERE {keys} IN (".encode(), b")"


@lru_cache(maxsize=1024)
def _insert_head(target: tuple[str, str], names: tuple[str, ...], verb: str) -> bytes:
    return f"{verb} INTO {qualified(*target)} ({','.join(map(quote, names))}) VALUES ".encode()


@lru_cache(maxsize=1024)
def _upsert_tail(names: tuple[str, ...], key_names: tuple[str, ...], filled: tuple[str, ...], *, alias: bool) -> bytes:
    left_out = {name.lower() for name in key_names} - set(filled)
    changed = [name for name in names if name.lower() not in left_out] or names
    if alias:
        update = ",".join(f"{quote(name)}={_ALIAS}.{quote(name)}" for name in changed)
        return f" AS {_ALIAS} ON DUPLICATE KEY UPDATE {update}".encode()
    update = ",".join(f"{quote(name)}=VALUES({quote(name)})" for name in changed)
    return f" ON DUPLICATE KEY UPDATE {update}".encode()


@lru_cache(maxsize=4096)
def _column(name: str) -> bytes:
    return quote(name).encode()


@lru_cache(maxsize=1024)
def _table(target: tuple[str, str]) -> bytes:
    return qualified(*target).encode()


def of_kind(plan: TablePlan, kind: int, rows: Sequence[bytes], form: StatementForm) -> Iterator[RowStatement]:
    """The statements for whole rows, ``UPSERT_ROWS`` or ``INSERT_ROWS``."""
    for group in cut(plan.number, kind, rows, _room(plan, kind, form), form.rows):
        yield for_group(plan, group, form)


def in_order(
    plans: Mapping[int, TablePlan], ordered: Mapping[int, Sequence[OrderedRow]]
) -> Iterator[Sequence[OrderedRow]]:
    """The ordered rows, grouped by the set within which their order matters: one target table, or the tables of one
    family."""
    runs: dict[int | str, list[Sequence[OrderedRow]]] = {}
    for target, rows in ordered.items():
        family = plans[rows[0][2]].family
        runs.setdefault(family or target, []).append(rows)
    for parts in runs.values():
        # Several blocks of one slice may hold rows of one bucket.
        yield sorted((row for rows in parts for row in rows), key=itemgetter(0))


def for_ordered(
    plans: Mapping[int, TablePlan], rows: Iterable[OrderedRow], form: StatementForm
) -> Iterator[RowStatement]:
    """The statements for ordered rows; consecutive inserts into one table are joined."""
    waiting: list[Sequence[bytes]] = []
    plan: TablePlan | None = None
    for _, op, number, position, before, after in rows:
        if waiting and plan is not None and (op != compaction.INSERT or number != plan.number):
            yield from _insert_ordered(plan, waiting, form)
            waiting = []
        plan = plans[number]
        if op == compaction.INSERT:
            assert after is not None
            waiting.append(after)
        elif op == compaction.DELETE:
            assert before is not None
            yield _delete_one(plan, before, position, form)
        else:
            assert before is not None
            assert after is not None
            yield from _update_one(plan, before, after, position, form)
    if waiting and plan is not None:
        yield from _insert_ordered(plan, waiting, form)


def for_any_order(
    plans: Mapping[int, TablePlan], rows: Sequence[OrderedRow], form: StatementForm
) -> Iterator[RowStatement]:
    """The statements for rows of a family in another order, with many rows in one INSERT or DELETE. A wrong order is
    refused, or a statement does not match what it expects."""
    for run in family_order.reordered(plans, rows):
        _, op, number, *_ = run.rows[0]
        plan = plans[number]
        if op == compaction.INSERT:
            yield from _insert_ordered(plan, [row[5] for row in run.rows if row[5] is not None], form)
        elif op == compaction.DELETE:
            keys = _key_tuples(plan, [row[4] for row in run.rows if row[4] is not None])
            for group in cut(number, DELETE_KEYS, keys, _room(plan, DELETE_KEYS, form), listed_keys(plan)):
                yield replace(for_group(plan, group, form), expect=group.count)
        elif run.keeps and _updates_together(plan):
            yield from _update_existing(plans, plan, run.rows, form)
        else:
            yield from for_ordered(plans, run.rows, form)


def _updates_together(plan: TablePlan) -> bool:
    """Whether an upsert of a row that is there changes this row, and of one that is not there inserts it."""
    return plan.upserts and not (plan.rewrite_existing or plan.extra_columns or plan.period_keys)


def _update_existing(
    plans: Mapping[int, TablePlan], plan: TablePlan, rows: Sequence[OrderedRow], form: StatementForm
) -> Iterator[RowStatement]:
    """Updates of rows with different keys, which keep their keys."""
    values = _tuples(plan, [row[5] for row in rows if row[5] is not None])
    first = 0
    for group in cut(plan.number, UPSERT_ROWS, values, _room(plan, UPSERT_ROWS, form), form.rows):
        if group.count > 1:
            yield replace(for_group(plan, group, form), existing=True)
        else:
            # The server does not answer how many rows were there.
            yield from for_ordered(plans, rows[first : first + 1], form)
        first += group.count


def _key_tuples(plan: TablePlan, images: Sequence[Sequence[bytes]]) -> list[bytes]:
    if len(plan.key) == 1:
        return list(map(itemgetter(*plan.key), images))
    return [b"(%b)" % b",".join(key) for key in map(itemgetter(*plan.key), images)]


def _insert_ordered(plan: TablePlan, rows: Sequence[Sequence[bytes]], form: StatementForm) -> Iterator[RowStatement]:
    if not form.safe or not plan.key:
        yield from of_kind(plan, INSERT_ROWS, _tuples(plan, rows), form)
    elif plan.period_keys:
        for row in rows:
            yield from _make_room(plan, row, form)
            yield from of_kind(plan, INSERT_ROWS, _tuples(plan, [row]), form)
    elif plan.session_keys:
        for row in rows:
            yield from _put_by_key(plan, row, form)
    elif plan.upserts or replaces(plan, UPSERT_ROWS, form):
        yield from of_kind(plan, UPSERT_ROWS, _tuples(plan, rows), form)
    else:
        for row in rows:
            (insert,) = of_kind(plan, INSERT_ROWS, _tuples(plan, [row]), form)
            yield replace(insert, text=insert.text + b" ON DUPLICATE KEY UPDATE " + _assignments(plan, row))


def _make_room(plan: TablePlan, image: Sequence[bytes], form: StatementForm) -> Iterator[RowStatement]:
    """Removes the row itself and those with overlapping periods, as REPLACE does for keys without periods."""
    yield _delete_one(plan, image, 0, form)
    for key in plan.period_keys:
        parts = [_column(name) + b"=" + image[i] for name, i in key.equal]
        (start, first), (end, last) = key.start, key.end
        parts += [_column(start) + b"<" + image[last], _column(end) + b">" + image[first]]
        head = b"DELETE FROM " + _table(plan.target) + b" WHERE "
        yield _one_row(plan, head + b" AND ".join(parts), image, 0, form)


def _put_by_key(plan: TablePlan, image: Sequence[bytes], form: StatementForm) -> Iterator[RowStatement]:
    """Changes the row of this key, or inserts it if there is none. Unlike an upsert, never changes another row."""
    table, where = _table(plan.target), _where(plan, image)
    yield _one_row(plan, b"UPDATE " + table + b" SET " + _assignments(plan, image) + where + _ONE, image, 0, form)
    names = b",".join(map(_column, plan.write_names))
    values = b",".join([image[i] for i in plan.write])
    missing = b" FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM " + table + where + b")"
    insert = b"INSERT INTO " + table + b" (" + names + b") SELECT " + values + missing
    yield _one_row(plan, insert, image, 0, form)


def _assignments(plan: TablePlan, image: Sequence[bytes]) -> bytes:
    return b",".join([_column(name) + b"=" + image[i] for name, i in zip(plan.write_names, plan.write, strict=True)])


def _tuples(plan: TablePlan, images: Sequence[Sequence[bytes]]) -> list[bytes]:
    """The written values of rows as SQL tuples."""
    if len(plan.write) == 1:
        return [b"(%b)" % value for value in map(itemgetter(*plan.write), images)]
    return [b"(%b)" % b",".join(values) for values in map(itemgetter(*plan.write), images)]


def _where(plan: TablePlan, image: Sequence[bytes] | Mapping[int, bytes]) -> bytes:
    """The condition for the row by its key, else by all of its values."""
    if plan.key:
        parts = [_column(name) + b"=" + image[i] for name, i in zip(plan.key_names, plan.key, strict=True)]
    else:
        parts = [around(matcher, image[i]) for matcher, i in zip(plan.matchers, plan.write, strict=True)]
    return b" WHERE " + b" AND ".join(parts)


def count_like(plan: TablePlan, values: Sequence[bytes]) -> bytes:
    """The SELECT of the number of rows without a key that equal these values, one for each written column."""
    image = dict(zip(plan.write, values, strict=True))
    return b"SELECT COUNT(*) FROM " + _table(plan.target) + _where(plan, image)


def count_exact(plan: TablePlan, row: bytes) -> bytes | None:
    """The SELECT of the number of rows with the key of an SQL tuple that hold all of its values; None when the tuple
    can't be split."""
    values = split_tuple(row)
    if len(values) != len(plan.write):
        return None
    image = dict(zip(plan.write, values, strict=True))
    parts = [_column(name) + b"=" + image[i] for name, i in zip(plan.key_names, plan.key, strict=True) if i in image]
    parts += [around(matcher, value) for matcher, value in zip(plan.matchers, values, strict=True)]
    return b"SELECT COUNT(*) FROM " + _table(plan.target) + b" WHERE " + b" AND ".join(parts)


def _delete_one(plan: TablePlan, before: Sequence[bytes], position: int, form: StatementForm) -> RowStatement:
    head = b"DELETE FROM " + _table(plan.target)
    return _one_row(plan, head + _where(plan, before) + _ONE, before, position, form)


def _one_row(plan: TablePlan, text: bytes, image: Sequence[bytes], position: int, form: StatementForm) -> RowStatement:
    name = b",".join([image[i] for i in plan.key or plan.write])
    any_will_do = form.safe or plan.filter.leaves_gaps
    return RowStatement(text, plan.number, position, None if any_will_do else 1, row=name)


def _update_one(
    plan: TablePlan, before: Sequence[bytes], after: Sequence[bytes], position: int, form: StatementForm
) -> Iterator[RowStatement]:
    if form.safe and plan.key:
        if not plan.extra_columns or any(before[i] != after[i] for i in plan.key):
            yield _delete_one(plan, before, position, form)
        yield from _insert_ordered(plan, [after], form)
        return
    head = b"UPDATE " + _table(plan.target) + b" SET "
    yield _one_row(plan, head + _assignments(plan, after) + _where(plan, before) + _ONE, before, position, form)
