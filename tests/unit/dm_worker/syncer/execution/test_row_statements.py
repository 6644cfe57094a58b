"""Hazards: old and new servers read a statement differently; a statement that is too long loses rows when it is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.execution import merge, row_statements
from dm_worker.syncer.execution.compaction import DELETE, INSERT, INSERTED, REPLACED, UPDATE, UPDATED
from dm_worker.syncer.execution.merge import DELETE_KEYS, INSERT_ROWS, UPSERT_ROWS
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.rows.plan_builder import PlanOptions, build
from dm_worker.syncer.rows.table_plan import ORDERED
from pkg.binlog.rows.literals import escape
from pkg.mysql.introspect import ServerInfo
from pkg.mysql.literal_text import split_tuple
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.mysql.target_values import TargetValues

ID = Column("id", "int", "int(11)", nullable=False)
NOTE = Column("note", "varchar", "varchar(20)", charset="utf8mb4")
KEY = Index("PRIMARY", (IndexPart("id"),), unique=True)
UPSTREAM = TableInfo("s", "t", (ID, NOTE), (KEY,))
TARGET = TableInfo("d", "t", (NOTE, ID), (KEY,))
WITH_EXTRA = TableInfo("d", "t", (ID, NOTE, Column("own", "int", "int(11)")), (KEY,))


@given(st.lists(st.binary(min_size=1, max_size=9).map(lambda row: b"(%b)" % row.replace(b",", b"")), min_size=1))
def test_parts_of_a_group_are_its_rows(rows: list[bytes]) -> None:
    (group,) = merge.cut(1, INSERT_ROWS, rows, 1 << 30, 1 << 30)
    for first in range(len(rows)):
        for last in range(first + 1, len(rows) + 1):
            part = row_statements.part(group, first, last)
            assert part.rows() == rows[first:last]
            assert part.body == b",".join(rows[first:last])
            assert part.count == last - first


@given(st.lists(st.none() | st.integers() | st.text() | st.binary(max_size=4), min_size=1, max_size=6))
def test_tuple_is_taken_apart_at_its_own_commas(values: list[int | str | bytes | None]) -> None:
    literals = [_literal(value) for value in values]
    assert split_tuple(b"(" + b",".join(literals) + b")") == literals


def _literal(value: int | str | bytes | None) -> bytes:
    if value is None:
        return b"NULL"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, bytes):
        return b"_gbk x'%b'" % value.hex().encode()
    return b"'%b'" % escape(value.encode("utf-8", "replace"))


def test_row_is_named_by_its_key_wherever_the_target_has_it() -> None:
    plan = build(1, 1, b"", UPSTREAM, TARGET, PlanOptions())
    (insert,) = merge.cut(1, INSERT_ROWS, [b"(7,'a,b')"], 100, 100)
    (delete,) = merge.cut(1, DELETE_KEYS, [b"7"], 100, 100)
    for group in (insert, delete):
        assert row_statements.row_name(plan, row_statements.for_group(plan, group, StatementForm())) == b"7"
    rows = [(1, UPDATE, 1, 99, [b"7", b"'a'"], [b"7", b"'b'"]), (2, DELETE, 1, 99, [b"8", b"'a'"], None)]
    found = list(row_statements.for_ordered({1: plan}, rows, StatementForm()))
    assert [row_statements.row_name(plan, sql) for sql in found] == [b"7", b"8"]


def test_statement_beyond_the_servers_packet_is_parted() -> None:
    plan = build(1, 1, b"", UPSTREAM, TARGET, PlanOptions())
    rows = [b"(%d,'%b')" % (n, b"x" * n) for n in range(60)]
    (group,) = merge.cut(1, UPSERT_ROWS, rows, 1 << 20, 1 << 20)
    parts = list(
        row_statements.fitting(plan, row_statements.for_group(plan, group, StatementForm()), StatementForm(), 300)
    )
    assert [row for sql in parts if sql.group for row in sql.group.rows()] == rows
    assert max(len(sql.text) for sql in parts) <= 300


@pytest.mark.parametrize(
    ("flavor", "version", "expected"),
    [
        ("mysql", (8, 0, 19), False),
        ("mysql", (8, 0, 20), True),
        ("mysql", (8, 4, 0), True),
        ("mysql", (5, 7, 44), False),
        ("mariadb", (10, 11, 6), False),
        ("mariadb", (11, 8, 2), False),
        ("tidb", (8, 0, 11), False),
    ],
)
def test_new_row_has_the_name_that_the_server_knows(flavor: str, version: tuple[int, int, int], expected: bool) -> None:
    server = ServerInfo(flavor, version, "", 1, "", gtid_on=False)
    assert row_statements.wants_alias(server) is expected
    plan = build(1, 1, b"", UPSTREAM, TARGET, PlanOptions())
    (group,) = merge.cut(1, UPSERT_ROWS, [b"(1,'a')"], 100, 100)
    text = row_statements.for_group(plan, group, StatementForm(alias=expected)).text
    want = b" AS `dm_new` ON DUPLICATE KEY UPDATE `note`=`dm_new`.`note`" if expected else b"`note`=VALUES(`note`)"
    assert text.endswith(want)


def test_safe_update_in_order_keeps_what_only_the_target_has() -> None:
    plan = build(1, 1, b"", UPSTREAM, WITH_EXTRA, PlanOptions(compact=False))
    same = [(1, UPDATE, 1, 99, [b"7", b"'a'"], [b"7", b"'b'"])]
    moved = [(1, UPDATE, 1, 99, [b"7", b"'a'"], [b"8", b"'b'"])]
    assert [sql.text[:6] for sql in row_statements.for_ordered({1: plan}, same, StatementForm(safe=True))] == [
        b"INSERT"
    ]
    assert [sql.text[:6] for sql in row_statements.for_ordered({1: plan}, moved, StatementForm(safe=True))] == [
        b"DELETE",
        b"INSERT",
    ]


BITS = Column("bits", "bit", "bit(64)")
WITHOUT_UPSERTS = PlanOptions(values=TargetValues(upserts_wide_bits=False))


def with_bits(*more: Column, width: int = 64) -> TableInfo:
    return TableInfo("d", "t", (ID, replace(BITS, column_type=f"bit({width})"), *more), (KEY,))


def test_wide_bits_are_not_updated_by_values_where_the_target_reverses_them() -> None:
    plan = build(1, 1, b"", with_bits(), with_bits(), WITHOUT_UPSERTS)
    states = {b"7": (UPDATED, 1, b"(7,1)"), b"8": (REPLACED, 1, b"(8,2)")}
    groups = merge.groups_of(states, {1: row_statements.write_rule_of(plan, StatementForm())})
    assert [row_statements.for_group(plan, group, StatementForm()).text for group in groups] == [
        b"DELETE FROM `d`.`t` WHERE `id` IN (7,8)",
        b"INSERT INTO `d`.`t` (`id`,`bits`) VALUES (7,1),(8,2)",
    ]
    for other in (
        build(1, 1, b"", with_bits(width=56), with_bits(width=56), WITHOUT_UPSERTS),
        build(1, 1, b"", with_bits(), with_bits(), PlanOptions()),
    ):
        assert other.upserts
        assert len(merge.groups_of(states, {1: row_statements.write_rule_of(other, StatementForm())})) == 1


def test_wide_bits_leave_columns_alone_that_only_the_target_has() -> None:
    plan = build(1, 1, b"", with_bits(), with_bits(Column("own", "int", "int(11)")), WITHOUT_UPSERTS)
    assert plan.mode == ORDERED
    rows = [(1, INSERT, 1, 99, None, [b"6", b"5"]), (2, UPDATE, 1, 99, [b"7", b"0"], [b"7", b"1"])]
    plain, safe = (
        [sql.text for sql in row_statements.for_ordered({1: plan}, rows, StatementForm(safe=safe))]
        for safe in (False, True)
    )
    upsert = b"INSERT INTO `d`.`t` (`id`,`bits`) VALUES (%b,%b) ON DUPLICATE KEY UPDATE `id`=%b,`bits`=%b"
    assert safe == [upsert % (b"6", b"5", b"6", b"5"), upsert % (b"7", b"1", b"7", b"1")]
    assert plain == [
        b"INSERT INTO `d`.`t` (`id`,`bits`) VALUES (6,5)",
        b"UPDATE `d`.`t` SET `id`=7,`bits`=1 WHERE `id`=7 LIMIT 1",
    ]


HOUR = Column("h", "int", "int(11)", generated="VIRTUAL")
BY_HOUR = Index("k1", (IndexPart("h"),), unique=True)
ZONED = TableInfo(
    "s", "t", (ID, Column("ts", "timestamp", "timestamp"), HOUR), (KEY, BY_HOUR), expressions=(("h", "hour(`ts`)"),)
)


def test_no_row_replaces_another_by_a_key_that_a_session_computes() -> None:
    """The upstream has both: REPLACE, or an upsert, would lose one of them."""
    form = StatementForm(safe=True)
    plan = build(1, 1, b"", ZONED, ZONED, PlanOptions())
    assert plan.session_keys == ("k1",)
    kinds = row_statements.write_rule_of(plan, form).kinds
    for joined in (0, len(kinds) // 2):
        wanted = merge.AS_DELETE | merge.AS_INSERT
        assert [kinds[joined + state] for state in (INSERTED, UPDATED, REPLACED)] == [wanted] * 3
    ordered = replace(plan, mode=ORDERED)
    row = [b"1", b"'2024-01-01 01:30:00'", b"NULL"]
    for inserted in ((0, INSERT, 1, 0, None, row), (0, UPDATE, 1, 0, row, row)):
        texts = [sql.text for sql in row_statements.for_ordered({1: ordered}, [inserted], form)]
        assert not [text for text in texts if b"REPLACE" in text or b"DUPLICATE" in text]
        assert texts[-1].startswith(b"INSERT INTO `s`.`t` (`id`,`ts`) SELECT 1,'2024-01-01 01:30:00' FROM DUAL WHERE")


def test_keys_that_no_session_decides_or_by_which_no_other_row_collides_are_replaced_as_ever() -> None:
    plain = replace(ZONED, expressions=(("h", "`id` + 1"),))
    with_id = replace(ZONED, indexes=(KEY, Index("k1", (IndexPart("h"), IndexPart("id")), unique=True)))
    for table in (plain, with_id, UPSTREAM):
        plan = build(1, 1, b"", table, table, PlanOptions())
        assert plan.session_keys == ()
        assert row_statements.replaces(plan, UPSERT_ROWS, StatementForm(safe=True))


def test_an_expression_without_a_name_may_have_a_session_s_value_of_a_timestamp() -> None:
    hidden = Index("k1", (IndexPart(""),), unique=True)
    for columns, found in ((ZONED.columns[:2], ("k1",)), ((ID, NOTE), ())):
        table = replace(ZONED, columns=columns, indexes=(KEY, hidden), expressions=())
        assert build(1, 1, b"", table, table, PlanOptions()).session_keys == found
