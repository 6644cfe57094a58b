"""Hazards: a part that a filter names runs, one that it does not name is left out, parts change their numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dm_worker.syncer.ddl.parts import Part, StatementParts
from dm_worker.syncer.ddl.temporary_tables import TemporaryTables
from dm_worker.syncer.online_ddl.ghost_records import GhostSession
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg import ddl
from pkg.binlog.events import QueryEvent
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.rules.model import BinlogFilterRule, BlockAllowList, TableName
from pkg.schema_tracker import ServerDefaults
from pkg.settings.connections import DBConfig

T = TableInfo(
    "d",
    "t",
    (
        Column("id", "int", "int(11)", nullable=False),
        Column("v", "bigint", "bigint(20)"),
        Column("n", "int", "int(11)"),
    ),
    (Index("PRIMARY", (IndexPart("id"),), unique=True), Index("u", (IndexPart("n"),), unique=True)),
)


def source(server: ServerDefaults = ServerDefaults(), present: TableInfo | None = None) -> SchemaSource:  # noqa: B008
    nothing: Path | None = None
    made = SchemaSource(
        server=server,
        dump_files=lambda *_: nothing,
        upstream=lambda *_: present,
        target=lambda *_: None,
        schema_charset=lambda _: None,
    )
    made.restore([T])
    return made


def decided(sql: str, *filters: BinlogFilterRule, of: SchemaSource | None = None) -> list[tuple[int, str]]:
    """What the target receives: numbers and SQL."""
    server = DBConfig("h", 1)
    names = BlockAllowList(ignore_tables=(TableName("d", "mine"),))
    cfg = SubTaskConfig("t", "s", "all", server, server, filters=filters, block_allow_list=names)
    rules = TaskRules(cfg)
    parts = StatementParts(rules, of or source(), OnlineDDL(rules.online), TemporaryTables("mariadb"), "mariadb")
    found = parts.for_target(parts.migrated(QueryEvent(1, 0, 0, "d", sql.encode())))
    return [(part.number, part.parsed.sql) for part in found]


def ignore(*events: str, table: str = "t", schema: str = "d", sql: str = "") -> BinlogFilterRule:
    return BinlogFilterRule(schema, table, events, (sql,) if sql else (), "Ignore")


ALTER = "ALTER TABLE t DROP COLUMN n, ADD INDEX (v), MODIFY v INT, ALGORITHM=COPY"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (ignore("create table"), [(0, ALTER)]),
        (ignore("all ddl"), []),
        (
            ignore("drop column"),
            [
                (1, "ALTER TABLE t ADD INDEX (v), ALGORITHM=COPY"),
                (2, "ALTER TABLE t MODIFY v INT, ALGORITHM=COPY"),
            ],
        ),
        # Told by the structure before and after.
        (ignore("value range decrease", "modify constraint"), [(0, "ALTER TABLE t DROP COLUMN n, ALGORITHM=COPY")]),
        (ignore(sql="add\\s+index|modify"), [(0, "ALTER TABLE t DROP COLUMN n, ALGORITHM=COPY")]),
        (BinlogFilterRule("d", "t", ("modify column", "value range decrease"), (), "Do"),
         [(2, "ALTER TABLE t MODIFY v INT, ALGORITHM=COPY")]),
        (ignore("drop column", table="other"), [(0, ALTER)]),
    ],
)  # fmt: skip
def test_parts_of_an_alter_are_decided_one_by_one(rule: BinlogFilterRule, expected: list[tuple[int, str]]) -> None:
    before = source()
    assert decided(ALTER, rule, of=before) == expected
    # Deciding changed no structure.
    assert before.tracker.table("d", "t") == T


def test_tables_of_a_drop_are_decided_one_by_one() -> None:
    sql = "DROP TABLE a, mine, b, c"
    want = [(0, "DROP TABLE a"), (2, "DROP TABLE b"), (3, "DROP TABLE c")]
    assert decided(sql) == want
    assert decided(sql, ignore("drop table", table="b")) == [want[0], want[2]]


def test_a_unique_key_that_goes_is_known_by_the_structure() -> None:
    assert decided("DROP INDEX u ON t", ignore("drop unique key")) == []
    assert decided("ALTER TABLE unknown DROP INDEX u", ignore("drop unique key", table="unknown"))


def test_a_create_that_is_read_again_within_its_transaction_is_decided_by_its_kind() -> None:
    """MySQL has the rows of CREATE TABLE … SELECT in one transaction with it; a task that stops at one of them has the
    table already when it reads the statement again."""
    again = "CREATE TABLE `d`.`t` (`id` int NOT NULL) START TRANSACTION"
    assert decided(again, ignore("drop table")) == [(0, again)]
    assert decided(again, ignore("create table")) == []


@pytest.mark.parametrize(
    ("sql", "unaltered", "void"),
    [
        ("CREATE TABLE IF NOT EXISTS d.u (other INT)", True, True),
        # It may have been made by this statement, and altered since.
        ("CREATE TABLE IF NOT EXISTS d.u (other INT)", False, False),
        ("CREATE TABLE IF NOT EXISTS d.u (id INT, v BIGINT, N INT)", True, False),
        ("CREATE TABLE IF NOT EXISTS d.u LIKE d.t", True, False),
        ("CREATE TABLE d.u (other INT)", True, False),
        ("CREATE TABLE IF NOT EXISTS d.t (other INT)", False, True),
    ],
)
def test_a_create_if_not_exists_may_have_found_a_table_of_unknown_structure(
    sql: str, unaltered: bool, void: bool
) -> None:
    """Otherwise the table's rows do not fit the structure that the statement would have given it."""
    assert source(present=replace(T, name="u")).is_void(ddl.parse(sql), lambda table: unaltered) == void


def test_an_error_is_raised_before_any_part_is_given_out() -> None:
    rule = BinlogFilterRule("d", "b", ("drop table",), (), "Error")
    with pytest.raises(DMError, match=r"'d\.b: Error'.*`d`\.`b`: DROP TABLE b") as caught:
        decided("DROP TABLE a, b", rule)
    assert caught.value.kind is Code.SyncerUnitBinlogEventFilter


def test_a_rename_across_the_allow_list_is_refused() -> None:
    with pytest.raises(DMError) as caught:
        decided("RENAME TABLE t TO mine")
    assert caught.value.kind is Code.SyncerUnsupportedStmt
    assert decided("RENAME TABLE t TO x, a TO b", ignore("rename table", table="b")) == [(0, "RENAME TABLE t TO x")]


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (ignore(schema="*", table="", sql="^ALTER SEQUENCE"), 0),
        (ignore(schema="d", table="", sql="^ALTER SEQUENCE"), 36067),
        (ignore(schema="*", table="", sql="^CREATE"), 36067),
        # Without a class, it is in no list of events.
        (ignore("all", schema="*", table=""), 36067),
        (BinlogFilterRule("*", "", (), ("SEQUENCE",), "Error"), 36015),
    ],
)
def test_a_statement_that_is_not_understood_is_decided_by_its_text(rule: BinlogFilterRule, code: int) -> None:
    if not code:
        assert decided("ALTER SEQUENCE s RESTART 5", rule) == []
        return
    with pytest.raises(DMError) as caught:
        decided("ALTER SEQUENCE s RESTART 5", rule)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("sql", "passed"),
    [
        (b"ALTER TABLE other.t COMMENT '\xff'", True),
        (b"ALTER TABLE d.t COMMENT '\xff'", False),
        # What is not known may be the name of a migrated schema.
        (b"ALTER TABLE \xff.t COMMENT 'x'", False),
        (b"DROP SCHEMA other /* \xff */", False),
    ],
)
@pytest.mark.parametrize("collation", [46, 11, 10, 28, 9999])
def test_a_statement_that_cannot_be_decoded_stops_only_a_task_that_may_need_it(
    sql: bytes, passed: bool, collation: int
) -> None:
    server = DBConfig("h", 1)
    cfg = SubTaskConfig("t", "s", "all", server, server, block_allow_list=BlockAllowList(do_dbs=("d",)))
    rules = TaskRules(cfg)
    parts = StatementParts(rules, source(), OnlineDDL(rules.online), TemporaryTables("mariadb"), "mariadb")
    query = QueryEvent(1, 0, 0, "other", sql, charsets=(collation, 45, 45))
    # In gbk, a byte that looks like a quote may be a part of another character; 9999 is no collation.
    if passed and collation not in (28, 9999):
        assert not parts.migrated(query)
    else:
        with pytest.raises(DMError) as caught:
            parts.migrated(query)
        assert caught.value.kind is Code.BinlogEventDecode


def test_an_online_change_is_decided_as_if_it_had_been_done_to_the_real_table() -> None:
    known = source()
    server = DBConfig("h", 1)
    filters = (ignore("value range decrease"), ignore("drop column"))
    names = BlockAllowList(do_tables=(TableName("d", "t"),))
    rules = TaskRules(SubTaskConfig("t", "s", "all", server, server, filters=filters, block_allow_list=names))
    online = OnlineDDL(rules.online)
    parts = StatementParts(rules, known, online, TemporaryTables("mariadb"), "mariadb")

    def feed(sql: str, sql_mode: int = 0) -> list[Part]:
        query = QueryEvent(1, 0, 0, "d", sql.encode(), sql_mode=sql_mode, time_zone="+03:00")
        followed = parts.migrated(query)
        found = parts.for_target(followed)
        assert [part.parsed.sql for part in parts.for_target(followed)] == [part.parsed.sql for part in found]
        for part in followed:
            known.apply(part.parsed)
            online.record(part.parsed, GhostSession.of(query))
        return found

    assert not feed("CREATE TABLE _t_new LIKE t")
    ansi = 1 << 2
    # Told by the structure that the first statement leaves.
    assert not feed('ALTER TABLE "_t_new" DROP COLUMN n, CHANGE v "w" BIGINT', ansi)
    assert not feed("ALTER TABLE _t_new MODIFY w INT, ADD x INT AFTER w")
    assert not feed("CREATE TABLE other_new (a INT)")
    first, second = feed("RENAME TABLE t TO _t_old, _t_new TO t")
    assert first.parsed.sql == 'ALTER TABLE `d`.`t` CHANGE v "w" BIGINT'
    assert second.parsed.sql == "ALTER TABLE `d`.`t` ADD x INT AFTER w"
    assert first.number < second.number
    own = QueryEvent(1, 0, 0, "d", b"", sql_mode=0)
    assert (first.in_session(own).sql_mode, first.in_session(own).time_zone) == (ansi, "+03:00")
    assert [part.number for part in feed("RENAME TABLE t TO t")] == [0]


def test_names_are_those_of_the_upstream_that_folds_them() -> None:
    known = source(ServerDefaults(folds_names=True))
    rules = TaskRules(SubTaskConfig("t", "s", "all", DBConfig("h", 1), DBConfig("h", 1), case_sensitive=True,
                                block_allow_list=BlockAllowList(do_dbs=("d",))))  # fmt: skip
    parts = StatementParts(rules, known, OnlineDDL(rules.online), TemporaryTables("mariadb"), "mariadb")
    for sql in ("ALTER TABLE D.T ADD x INT, DROP n", "RENAME TABLE T TO `D`.U, u TO T", "DROP TABLE IF EXISTS a, T"):
        found = parts.migrated(QueryEvent(1, 0, 0, "D", sql.encode()))
        assert [{schema for schema, _ in part.parsed.tables} for part in found] == [{"d"}] * len(found)
        for part in found:
            known.apply(part.parsed)
        if sql.startswith("ALTER"):
            table = known.tracker.table("d", "t")
            assert table is not None
            assert [column.name for column in table.columns] == ["id", "v", "x"]
            assert [part.number for part in parts.for_target(found)] == [0]
            assert ddl.rewrite(found[0].parsed, lambda *name: name) == "ALTER TABLE `d`.`t` ADD x INT, DROP n"
    assert known.tracker.tables() == []
    assert [part.parsed.tables for part in parts.given(["ALTER TABLE D.T ADD y INT"], 5)] == [(("d", "t"),)]
    with pytest.raises(DMError, match="36067"):
        parts.migrated(QueryEvent(1, 0, 0, "other", b"ALTER SEQUENCE D.s RESTART 5"))
