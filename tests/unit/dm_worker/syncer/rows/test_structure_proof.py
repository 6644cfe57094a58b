"""Hazard: a structure counts because its types fit, and the values of two columns are swapped."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.rows.structure_proof import brought, differing_columns, keeps_primary_key, lacks_columns, proven
from dm_worker.syncer.unit.look_ahead import is_unaltered
from pkg import ddl
from pkg.binlog import constants as c
from pkg.binlog.events import Event
from pkg.binlog.position import Position
from pkg.binlog.table_map import TableMap
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from tests.unit.dm_worker.syncer.planning.support import Log

#: Type in TABLE_MAP by the name of the type.
KINDS = {"int": c.TYPE_LONG, "bigint": c.TYPE_LONGLONG, "double": c.TYPE_DOUBLE}
Table = list[tuple[str, str]]


def info(columns: Table) -> TableInfo:
    return TableInfo("d", "t", tuple(Column(name, kind, kind) for name, kind in columns), ())


def table_map(columns: Table, *, names: bool = False) -> TableMap:
    types = bytes(KINDS[kind] for _, kind in columns)
    known = tuple(name for name, _ in columns) if names else None
    return TableMap(7, "d", "t", types, (0,) * len(columns), (True,) * len(columns), names=known)


def found(rows: Table, upstream: Table | None, target: Table | None, *filled: str, names: bool = False) -> Table | None:
    here, there = (None if table is None else info(table) for table in (upstream, target))
    made = proven(table_map(rows, names=names), here, brought(there, here, filled))
    return None if made is None else [(column.name, column.type_name) for column in made.columns]


AB: Table = [("a", "int"), ("b", "int")]
BA: Table = [("b", "int"), ("a", "int")]
tables = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True).flatmap(
    lambda names: st.tuples(*(st.tuples(st.just(name), st.sampled_from(list(KINDS))) for name in names)).map(list)
)


@given(rows=tables, upstream=st.none() | tables, more=tables, at=st.integers(0, 4))
def test_what_counts_is_what_the_rows_have(rows: Table, upstream: Table | None, more: Table, at: int) -> None:
    """The target has the columns of the rows in their order, maybe others too; the upstream has become anything."""
    extra = [column for column in more if column[0] not in dict(rows)]
    made = found(rows, upstream, [*rows[:at], *extra, *rows[at:]])
    assert made is None or made == rows


@given(rows=tables, upstream=st.none() | tables, target=st.none() | tables)
def test_names_in_the_binlog_decide(rows: Table, upstream: Table | None, target: Table | None) -> None:
    made = found(rows, upstream, target, names=True)
    assert made == (rows if rows in (upstream, target) else None)


def test_keys_lose_the_columns_that_the_rules_fill() -> None:
    keys = tuple(
        Index(name, tuple(map(IndexPart, columns)), unique=True)
        for name, columns in (("PRIMARY", ["a", "Shard"]), ("k", ["shard"]), ("i", ["b"]))
    )
    target = replace(info([*AB, ("Shard", "int")]), indexes=keys)
    made = brought(target, info(AB), ["shard"])
    assert made is not None
    assert [(index.name, index.columns) for index in made.indexes] == [("PRIMARY", ("a",)), ("i", ("b",))]
    assert brought(target, target, ["shard"]) == target
    assert brought(None, None, ["shard"]) is None


def test_a_table_that_is_the_same_on_both_sides_goes_on() -> None:
    assert found(AB, AB, AB) == AB
    # Types that the target holds in wider ones, and columns that no row could bring instead.
    assert found(AB, AB, [("A", "bigint"), ("note", "double"), ("B", "bigint")]) == AB
    assert found(AB, AB, [*AB, ("shard", "int")], "shard") == AB
    assert found(AB, AB, AB, "b") == AB


def test_a_moved_or_renamed_or_replaced_column_is_not_taken_for_another() -> None:
    assert found(AB, BA, AB) is None
    assert found(AB, AB, BA) is None
    assert found(AB, [("a", "int"), ("x", "int")], AB) is None
    assert found(AB, [("a", "int"), ("x", "int")], [*AB, ("x", "int")]) is None


def defined(kind: str, charset: str = "", *, unsigned: bool = False, generated: str = "") -> TableInfo:
    name = kind.partition("(")[0]
    return TableInfo("d", "t", (Column("v", name, kind, True, unsigned, charset, generated=generated),))


@pytest.mark.parametrize(
    ("code", "one", "other"),
    [
        (c.TYPE_ENUM, defined("enum('a','b')"), defined("enum('b','a')")),
        (c.TYPE_SET, defined("set('a','b')"), defined("set('a','b','c')")),
        (c.TYPE_LONG, defined("int"), defined("int", unsigned=True)),
        (c.TYPE_BLOB, defined("text", "latin1"), defined("text", "utf8mb4")),
        (c.TYPE_BLOB, defined("text", "latin1"), defined("blob")),
        (c.TYPE_LONG, defined("int"), defined("int", generated="STORED")),
    ],
)
def test_a_column_with_two_meanings_is_not_proven_by_its_type(code: int, one: TableInfo, other: TableInfo) -> None:
    rows = TableMap(7, "d", "t", bytes((code,)), (2 if code == c.TYPE_BLOB else 0,), (True,))
    for upstream, target in ((one, other), (other, one)):
        assert differing_columns(rows, upstream, target) == ["v"]
        assert proven(rows, upstream, target) is None
        assert proven(replace(rows, names=("v",)), upstream, target) is None
    assert proven(rows, one, one) == one


def test_what_the_table_map_says_is_not_asked() -> None:
    rows = TableMap(7, "d", "t", bytes((c.TYPE_LONG,)), (0,), (True,), unsigned=(True,))
    assert proven(rows, defined("int"), defined("int", unsigned=True)) == defined("int", unsigned=True)
    assert differing_columns(rows, defined("int"), defined("int", unsigned=True)) == []
    assert proven(rows, defined("int", unsigned=True), defined("int")) == defined("int", unsigned=True)
    text = TableMap(7, "d", "t", bytes((c.TYPE_BLOB,)), (2,), (True,), collations=(8,))
    assert proven(text, defined("text", "latin1"), defined("text", "utf8mb4")) == defined("text", "latin1")
    document = TableMap(7, "d", "t", bytes((c.TYPE_BLOB,)), (4,), (True,))
    assert proven(document, defined("longtext", "utf8mb4"), defined("json")) == defined("longtext", "utf8mb4")


@pytest.mark.parametrize(
    ("actions", "keeps"),
    [
        ("ADD n INT AUTO_INCREMENT UNIQUE", True),
        ("ADD n SERIAL, ADD KEY (v), DROP KEY k, ALGORITHM=COPY", True),
        ("MODIFY v INT AUTO_INCREMENT UNIQUE", True),
        ("MODIFY id BIGINT AUTO_INCREMENT UNIQUE", False),
        ("ADD n SERIAL, ADD PRIMARY KEY (id)", False),
        ("DROP PRIMARY KEY, ADD n SERIAL", False),
        ("ADD n SERIAL, DROP v", False),
        ("ADD n SERIAL, CONVERT TO CHARACTER SET utf8mb4", False),
        ("ADD n SERIAL, ENGINE=InnoDB", False),
        ("ADD n SERIAL, RENAME TO d.u", False),
    ],
)
def test_which_statements_leave_the_primary_key_as_it_was(actions: str, keeps: bool) -> None:
    after = TableInfo(
        "d", "t", info([("id", "int"), ("v", "int")]).columns, (Index("PRIMARY", (IndexPart("id"),), True),)
    )
    assert keeps_primary_key(ddl.parse(f"ALTER TABLE d.t {actions}").actions, after) is keeps


def test_the_target_s_table_decides_when_the_upstream_s_was_altered_differently() -> None:
    assert found(AB, [*AB, ("x", "int")], AB) == AB
    assert found(AB, None, AB) == AB
    assert found(AB, [("b", "int"), ("x", "double"), ("a", "int")], AB) is None
    assert found(AB, [*AB, ("x", "int")], None) is None


def test_columns_that_the_task_s_rules_fill_do_not_hide_what_the_rows_have() -> None:
    """The upstream was altered since; the target has a column for the extracted name, in its key too."""
    assert found(AB, [*AB, ("x", "int")], [*AB, ("shard", "int")], "shard") == AB
    assert found(AB, AB[:1], [AB[0], ("shard", "int"), AB[1]], "shard") == AB
    assert found(AB, [*AB, ("x", "int")], [*AB, ("shard", "int")]) is None
    # What the upstream has is no column of the rules alone.
    assert found(AB, [*AB, ("shard", "int")], [*AB, ("shard", "int")], "shard") is None


def test_what_the_target_lacks_is_not_a_question_of_the_structure() -> None:
    assert lacks_columns(None, info(AB))
    assert lacks_columns(info(AB[:1]), info(AB))
    assert not lacks_columns(info([("B", "int"), ("a", "int")]), info(AB))


class Stream:
    """What a server sends of ``log``, some events at a time, and then nothing."""

    def __init__(self, *logs: Log) -> None:
        self.file = logs[0].file
        self._events = [(event, log.file) for log in logs for event in log.events]

    def read(self, max_bytes: int, timeout: float, scan: object = None) -> list[Event]:
        taken, self._events = self._events[:3], self._events[3:]
        if taken:
            self.file = taken[-1][1]
        return [event for event, _ in taken]

    def close(self) -> None: ...

    def abort(self) -> None: ...


def looked(*logs: Log, end: int = 0, table: str = "orders") -> bool:
    return is_unaltered(Stream(*logs), Position(logs[-1].file, end or logs[-1].offset), table, lambda: False)


@pytest.mark.parametrize(
    ("statement", "about"),
    [
        (b"ALTER TABLE d.Orders MODIFY a INT AFTER b", True),
        (b"RENAME TABLE other TO `orders`", True),
        (b"DROP DATABASE d", True),
        (b"ALTER TABLE d.other ADD COLUMN a INT", False),
        (b"ALTER TABLE d.orders_old ADD COLUMN a INT", False),
        (b"BEGIN", False),
    ],
)
def test_a_statement_further_on_makes_the_present_structure_uncertain(statement: bytes, about: bool) -> None:
    log = Log()
    log.transaction([1, 2, 3])
    log.query(statement)
    log.transaction([4])
    assert looked(log) is not about
    # A name that the client's charset may have written otherwise.
    assert looked(log, table="gr\xf6\xdfe") is (statement == b"BEGIN")


def test_the_look_ahead_ends_where_the_binlog_did_and_not_before() -> None:
    first, second = Log(), Log("bin.000002")
    first.transaction([1] * 30)
    first.rotate("bin.000002")
    first.file = "bin.000001"
    second.transaction([2])
    before = second.offset
    second.query(b"ALTER TABLE orders ADD a INT")
    assert looked(first, second, end=before)
    assert not looked(first, second)
    assert not looked(first, end=first.offset + 10_000)
