"""Hazard: the tracker applies a schema change, rename or snapshot to the wrong table, or hides that it failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pkg.ddl import SessionDefaults, parse
from pkg.errors import Code, DMError
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker import SchemaTracker, ServerDefaults, parse_create_table

MARIADB = ServerDefaults()
MYSQL56 = ServerDefaults("mysql", (5, 6, 24), "latin1", "latin1_swedish_ci", explicit_timestamp=False)
MYSQL80 = ServerDefaults("mysql", (8, 0, 36), "utf8mb4", "utf8mb4_0900_ai_ci")


def tracked(*statements: str, server: ServerDefaults = MARIADB, case_sensitive: bool = True) -> SchemaTracker:
    tracker = SchemaTracker(server, case_sensitive=case_sensitive)
    for sql in statements:
        tracker.apply(parse(sql, default_schema="d", flavor=server.flavor, version=server.version))
    return tracker


def table(tracker: SchemaTracker, name: str) -> TableInfo:
    found = tracker.table("d", name)
    assert found is not None
    return found


def types(info: TableInfo) -> list[str]:
    return [column.column_type for column in info.columns]


def test_widths_are_shown_as_the_server_shows_them() -> None:
    sql = "CREATE TABLE t (a INT, b BOOL, c BIGINT UNSIGNED, d INT(5) ZEROFILL, e YEAR, f TINYINT)"
    old = ["int(11)", "tinyint(1)", "bigint(20) unsigned", "int(5) unsigned zerofill", "year(4)", "tinyint(4)"]
    new = ["int", "tinyint(1)", "bigint unsigned", "int(5) unsigned zerofill", "year", "tinyint"]
    assert types(parse_create_table(sql, "d", MARIADB)) == old
    assert types(parse_create_table(sql, "d", MYSQL56)) == old
    assert types(parse_create_table(sql, "d", MYSQL80)) == new


def test_timestamp_without_null_follows_explicit_defaults() -> None:
    sql = "CREATE TABLE t (a TIMESTAMP, b TIMESTAMP NULL)"
    assert [c.nullable for c in parse_create_table(sql, "d", MYSQL56).columns] == [False, True]
    assert [c.nullable for c in parse_create_table(sql, "d", MYSQL80).columns] == [True, True]


def test_json_is_a_type_of_mysql_and_a_text_of_mariadb() -> None:
    assert parse_create_table("CREATE TABLE t (a JSON)", "d", MYSQL80).columns[0].type_name == "json"
    column = parse_create_table("CREATE TABLE t (a JSON)", "d", MARIADB).columns[0]
    assert (column.type_name, column.collation) == ("longtext", "utf8mb4_bin")


def test_real_follows_the_sql_mode() -> None:
    assert types(parse_create_table("CREATE TABLE t (a REAL)", "d", MARIADB)) == ["double"]
    assert types(parse_create_table("CREATE TABLE t (a REAL)", "d", MARIADB, sql_mode="REAL_AS_FLOAT")) == ["float"]


def test_text_of_mysql_8_with_its_executable_comments() -> None:
    info = parse_create_table(
        "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `h` int DEFAULT NULL /*!80023 INVISIBLE */,\n"
        "  `g` int GENERATED ALWAYS AS ((`id` + 1)) STORED,\n  PRIMARY KEY (`id`),\n"
        "  UNIQUE KEY `f` ((lower(`h`))) /*!80000 INVISIBLE */\n"
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci",
        "d",
        MYSQL80,
    )
    assert [(c.invisible, c.generated) for c in info.columns] == [(False, ""), (True, ""), (False, "STORED")]
    row_key = info.row_key()
    assert row_key is not None
    assert row_key.name == "PRIMARY"


def test_index_over_an_expression_identifies_no_row() -> None:
    info = parse_create_table("CREATE TABLE t (a INT NOT NULL, UNIQUE ((a + 1)))", "d", MYSQL80)
    assert info.row_key() is None


def test_charset_is_inherited_from_column_table_schema_server() -> None:
    tracker = tracked(
        "CREATE DATABASE d DEFAULT CHARSET gbk",
        "CREATE TABLE t1 (a CHAR(1) CHARACTER SET latin1, b CHAR(1)) CHARSET utf8",
        "CREATE TABLE t2 (a CHAR(1))",
        "CREATE TABLE x.t3 (a CHAR(1))",
        server=MYSQL56,
    )
    assert [c.collation for c in table(tracker, "t1").columns] == ["latin1_swedish_ci", "utf8_general_ci"]
    assert table(tracker, "t2").columns[0].collation == "gbk_chinese_ci"
    other = tracker.table("x", "t3")
    assert other is not None
    assert other.columns[0].collation == "latin1_swedish_ci"


def test_new_schema_takes_the_sessions_server_collation() -> None:
    tracker = SchemaTracker(MYSQL56)
    named = SchemaTracker(replace(MYSQL56, collations={46: "utf8mb4_bin"}))
    for tracker, collation in ((named, "utf8mb4_bin"), (SchemaTracker(MYSQL56), "utf8mb4_general_ci")):
        tracker.apply(parse("CREATE DATABASE d", session=SessionDefaults(server_collation=46)))
        tracker.apply(parse("CREATE TABLE d.t (a CHAR(1))"))
        assert table(tracker, "t").collation == collation


def test_rename_chain_swaps_two_tables() -> None:
    tracker = tracked("CREATE TABLE a (x INT)", "CREATE TABLE b (y INT)", "RENAME TABLE a TO tmp, b TO a, tmp TO b")
    assert [column.name for column in table(tracker, "a").columns] == ["y"]
    assert [column.name for column in table(tracker, "b").columns] == ["x"]
    assert table(tracker, "b").name == "b"
    assert len(tracker.tables()) == 2


def test_failed_rename_changes_nothing() -> None:
    tracker = tracked("CREATE TABLE a (x INT)")
    with pytest.raises(DMError) as info:
        tracker.apply(parse("RENAME TABLE a TO b, nothere TO c", default_schema="d"))
    assert info.value.kind is Code.SchemaTrackerCannotGetTable
    assert [t.name for t in tracker.tables()] == ["a"]


def test_children_follow_a_renamed_parent() -> None:
    tracker = tracked(
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT, FOREIGN KEY (id) REFERENCES p (id))",
        "ALTER TABLE p RENAME TO x.q",
    )
    assert table(tracker, "c").foreign_keys == (("x", "q"),)


def test_dropping_a_schema_forgets_its_tables_only() -> None:
    tracker = tracked("CREATE TABLE a (x INT)", "CREATE TABLE y.b (x INT)", "DROP DATABASE d")
    assert [(t.schema, t.name) for t in tracker.tables()] == [("y", "b")]


def test_names_without_case() -> None:
    tracker = tracked("CREATE TABLE Tab (x INT)", "ALTER TABLE tAB ADD y INT", case_sensitive=False)
    assert len(table(tracker, "TAB").columns) == 2
    assert tracked("CREATE TABLE Tab (x INT)").table("d", "tab") is None


@pytest.mark.parametrize(
    "sql",
    ["ALTER TABLE u ADD x INT", "CREATE INDEX i ON u (x)", "DROP INDEX i ON u", "RENAME TABLE u TO v",
     "ALTER TABLE u RENAME v", "CREATE TABLE v LIKE u"],
)  # fmt: skip
def test_statement_about_an_unknown_table_is_an_error(sql: str) -> None:
    with pytest.raises(DMError) as info:
        tracked(sql)
    assert info.value.kind is Code.SchemaTrackerCannotGetTable
    assert info.value.workaround


@pytest.mark.parametrize("sql", ["DROP TABLE u", "TRUNCATE u", "ALTER TABLE u FORCE", "DROP DATABASE u"])
def test_statement_without_need_of_the_structure_is_none(sql: str) -> None:
    assert tracked(sql).tables() == []


@pytest.mark.parametrize(
    "sql",
    ["CREATE TABLE t (x INT)", "ALTER TABLE t ADD a INT", "ALTER TABLE t ADD b INT AFTER nothere",
     "ALTER TABLE t MODIFY nothere INT", "ALTER TABLE t RENAME COLUMN nothere TO x", "ALTER TABLE t ADD KEY (nothere)",
     "ALTER TABLE t ADD UNIQUE KEY uk (a)", "ALTER TABLE t ADD x CHAR(1) CHARACTER SET klingon"],
)  # fmt: skip
def test_statement_that_cannot_apply_is_an_error_and_changes_nothing(sql: str) -> None:
    tracker = tracked("CREATE TABLE t (a INT, UNIQUE KEY uk (a))")
    before = tracker.snapshot()
    with pytest.raises(DMError) as info:
        tracker.apply(parse(sql, default_schema="d"))
    assert info.value.kind is Code.SchemaTrackerCannotExecDDL
    assert "`d`.`t`" in info.value.message
    assert tracker.snapshot() == before


def test_dropping_what_is_gone_is_no_error() -> None:
    tracker = tracked("CREATE TABLE t (a INT)", "ALTER TABLE t DROP KEY k, DROP COLUMN b", "DROP INDEX i ON t")
    assert [column.name for column in table(tracker, "t").columns] == ["a"]


def test_column_dropped_from_a_key_shrinks_it() -> None:
    tracker = tracked(
        "CREATE TABLE t (a INT, b INT, UNIQUE k (a, b), KEY l (b))", "ALTER TABLE t DROP b", server=MYSQL56
    )
    assert [(index.name, index.columns) for index in table(tracker, "t").indexes] == [("k", ("a",))]


def test_snapshot_restores_into_an_equal_tracker() -> None:
    tracker = tracked("CREATE TABLE t (a INT PRIMARY KEY, b ENUM('x','it''s'))", "CREATE TABLE x.u (c TEXT)")
    copy = SchemaTracker(MARIADB)
    copy.restore(tracker.snapshot())
    assert copy.tables() == tracker.tables()
    assert list(tracker.snapshot([("d", "t"), ("d", "nothere")])) == [("d", "t")]


@pytest.mark.parametrize("text", ["", "{}", "null", '{"schema": 1}'])
def test_broken_snapshot_is_an_error(text: str) -> None:
    with pytest.raises(DMError) as info:
        SchemaTracker(MARIADB).restore({("d", "t"): text})
    assert info.value.kind is Code.SchemaTrackerInvalidJSON


@pytest.mark.parametrize("sql", ["DROP TABLE t", "CREATE TABLE t LIKE u", "INSERT INTO t VALUES (1)", "nonsense"])
def test_schema_text_has_to_be_one_whole_table(sql: str) -> None:
    with pytest.raises(DMError) as info:
        parse_create_table(sql, "d", MARIADB)
    assert info.value.kind in (
        Code.SchemaTrackerInvalidCreateTableStmt,
        Code.SyncUnitDMLStatementFound,
        Code.SyncerParseDDL,
    )


def test_row_key_is_the_first_unique_key_by_name_whatever_the_order_of_the_text() -> None:
    one = parse_create_table(
        "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, UNIQUE z (a), UNIQUE y (b))", "d", MARIADB
    )
    two = parse_create_table(
        "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, UNIQUE y (b), UNIQUE z (a))", "d", MARIADB
    )
    assert one.row_key() == two.row_key()
    assert one.indexes == two.indexes


def test_keys_of_a_later_time_are_no_contradiction_and_stay_uncertain() -> None:
    tracker = tracked("CREATE TABLE t (a INT NOT NULL, b INT, PRIMARY KEY (a), UNIQUE KEY k (b), UNIQUE KEY l (b, a))")
    tracker.set_table(replace(table(tracker, "t"), keys_certain=False))
    tracker.restore(tracker.snapshot())
    for change in (
        "ADD PRIMARY KEY (a)",
        "ADD UNIQUE KEY k (b, a)",
        "ADD UNIQUE KEY (b, a)",
        "RENAME INDEX other TO more",
    ):
        tracker.apply(parse(f"ALTER TABLE t {change}", default_schema="d"))
    found = table(tracker, "t")
    assert [(index.name, index.columns) for index in found.indexes] == [
        ("k", ("b", "a")),
        ("l", ("b", "a")),
        ("PRIMARY", ("a",)),
    ]
    assert not found.keys_certain
    assert table(tracked("CREATE TABLE t (a INT)"), "t").keys_certain
