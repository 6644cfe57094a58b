"""Hazards: a session's oddity is silently ignored, or stops statements that it has no bearing on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_worker.syncer.ddl.differences import Sides, doubts
from dm_worker.syncer.ddl.executor import StatementContext, contexts_of, contexts_text
from dm_worker.syncer.ddl.ordered_statements import typed
from dm_worker.syncer.ddl.variables import (
    EXPLICIT_TIMESTAMP,
    TargetSession,
    UpstreamSession,
    in_plain_words,
    settings,
    target_modes,
    truncates_fractions,
    unknown_modes,
)
from dm_worker.syncer.online_ddl.ghost_records import NO_QUERY, GhostDDL, GhostRecord, GhostSession
from pkg import ddl
from pkg.binlog.events import QueryEvent
from pkg.binlog.status_variables import VARIABLES
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

MARIADB, MYSQL = UpstreamSession("mariadb", (10, 11, 6)), UpstreamSession("mysql", (8, 0, 12))
TO_MARIADB, TO_57 = (
    TargetSession("mariadb", (10, 11, 6)),
    TargetSession("mysql", (5, 7, 22), frozenset({"lc_time_names"})),
)
TO_80, TO_TIDB = TargetSession("mysql", (8, 0, 12)), TargetSession("tidb", (8, 0, 11))
ROUND, TRUNCATE = 1 << 34, 1 << 32


def found(
    sql: str,
    upstream: UpstreamSession = MARIADB,
    target: TargetSession = TO_MARIADB,
    *,
    tables: tuple[TableInfo | None, TableInfo] | None = None,
    shown: str = "",
    **session: object,
) -> list[str]:
    """The doubts' conditions of rows."""
    parsed = ddl.parse(sql, default_schema="d", flavor=upstream.flavor)
    query = replace(NO_QUERY, sql_mode=session.pop("sql_mode", ROUND if upstream.flavor == "mariadb" else 0), **session)  # type: ignore[arg-type]
    source, copy = tables or (None, None)
    return [doubt.rows for doubt in doubts(parsed, query, Sides(upstream, target, source, copy, shown))]


def test_defaults_that_tidb_does_not_keep() -> None:
    for default in ("x'FE00'", "0xFE00", "b'11111111'", "_binary x'FE00'"):
        add = f"ALTER TABLE t ADD c VARBINARY(9) NOT NULL DEFAULT {default}"
        assert found(add, target=TO_TIDB) == ["TRUE"]
        assert found(add) == []
    for column in (
        "VARBINARY(9) DEFAULT x'C3A400'",
        "BINARY(2) DEFAULT 'a'",
        "BIT(8) DEFAULT x'FE'",
        "INT DEFAULT x'FE'",
    ):
        assert found(f"ALTER TABLE t ADD c {column}", target=TO_TIDB) == []
    assert found("ALTER TABLE t MODIFY c BINARY(2) DEFAULT x'FE00'", target=TO_TIDB) == []
    assert found("CREATE TABLE t (c BINARY(2) DEFAULT x'FE00')", target=TO_TIDB) == []


def test_what_failed_or_is_not_known_is_reported() -> None:
    add = "ALTER TABLE t ADD a INT"
    assert found(add) == []
    assert found(add, error_code=1317) == [""]
    assert found("DROP TABLE t", error_code=1051) == []
    assert found("DROP TABLE t", error_code=1317) == [""]
    assert found(add, unknown_variable=200) == [""]
    assert found(add, sql_mode=ROUND | 1 << 40) == [""]
    assert found(add, MYSQL, TO_80, sql_mode=ROUND) == [""]


def test_an_operators_statement_is_not_judged_by_the_event() -> None:
    given = typed(replace(NO_QUERY, error_code=1317, unknown_variable=9, sql_mode=4))
    assert (given.error_code, given.unknown_variable, given.sql_mode) == (0, None, 0)


@pytest.mark.parametrize(
    ("upstream", "mode", "target", "sql", "conditions"),
    [
        (MARIADB, 0, TO_57, "ALTER TABLE t MODIFY c DATETIME", ["TRUE"]),
        (MARIADB, ROUND, TO_57, "ALTER TABLE t MODIFY c DATETIME", []),
        (MARIADB, 0, TO_57, "ALTER TABLE t ADD c DATETIME DEFAULT '2001-01-01 00:00:00.7'", [""]),
        (MARIADB, 0, TO_57, "CREATE TABLE t (c TIME DEFAULT '00:00:00.7')", [""]),
        (MARIADB, 0, TO_57, "CREATE TABLE t (c TIME DEFAULT '00:00:00', d VARCHAR(9) DEFAULT '1.5')", []),
        (MARIADB, 0, TO_57, "ALTER TABLE t MODIFY c INT, ADD d DATETIME", []),
        (MARIADB, 0, TO_80, "ALTER TABLE t MODIFY c DATETIME", []),
        (MARIADB, 0, TO_TIDB, "ALTER TABLE t CHANGE c d TIMESTAMP", ["TRUE"]),
        (MYSQL, 0, TO_TIDB, "ALTER TABLE t CHANGE c d TIMESTAMP", []),
        (MYSQL, TRUNCATE, TO_57, "ALTER TABLE t CHANGE c d TIMESTAMP", ["TRUE"]),
        (MYSQL, 0, TargetSession("mariadb", (10, 3, 0)), "ALTER TABLE t CHANGE c d TIMESTAMP", ["TRUE"]),
    ],
)
def test_fractions_that_the_target_treats_differently(
    upstream: UpstreamSession, mode: int, target: TargetSession, sql: str, conditions: list[str]
) -> None:
    assert found(sql, upstream, target, sql_mode=mode) == conditions


@pytest.mark.parametrize(
    ("sql", "conditions"),
    [
        ("ALTER TABLE t MODIFY c DATETIME NOT NULL", ["MICROSECOND(`c`) % 1000000 <> 0"]),
        ("ALTER TABLE t CHANGE C d TIMESTAMP(3)", ["MICROSECOND(`C`) % 1000 <> 0"]),
        ("ALTER TABLE t MODIFY c TIME(6)", []),
        ("ALTER TABLE t MODIFY c DATE", ["MICROSECOND(`c`) % 1000000 <> 0"]),
        # Texts and numbers may have any fraction.
        ("ALTER TABLE t MODIFY s DATETIME", ["TRUE"]),
        ("ALTER TABLE t ADD d DATETIME(1) DEFAULT '2001-02-03 04:05:06.70'", []),
        ("ALTER TABLE t ADD d DATETIME(1) DEFAULT '2001-02-03 04:05:06.75'", [""]),
    ],
)
def test_only_rows_that_lose_fractions_matter(sql: str, conditions: list[str]) -> None:
    columns = (Column("c", "datetime", "datetime(6)"), Column("s", "varchar", "varchar(30)"))
    copy = TableInfo("d", "t", columns)
    assert found(sql, MARIADB, TO_TIDB, sql_mode=0, tables=(None, copy)) == conditions


def test_empty_strings_and_names_of_months_where_the_target_knows_no_such_session() -> None:
    empty = ROUND | 1 << 32
    assert found("ALTER TABLE t ADD a CHAR(1) DEFAULT ''", MARIADB, TO_80, sql_mode=empty) == [""]
    assert found("ALTER TABLE t ADD a CHAR(1) DEFAULT 'x'", MARIADB, TO_80, sql_mode=empty) == []
    named = "ALTER TABLE t ADD a CHAR(9) AS (DATE_FORMAT(d, '%M'))"
    assert found(named, MYSQL, TO_80, lc_time_names=4) == [""]
    assert found(named, MYSQL, TO_57, lc_time_names=4) == []
    assert found("ALTER TABLE t ADD a INT", MYSQL, TO_80, lc_time_names=4) == []


def table(*key: str, engine: str = "InnoDB", collation: str = "utf8mb4_bin") -> TableInfo:
    columns = (Column("a", "varchar", "varchar(9)", collation=collation), Column("b", "int", "int(11)"))
    indexes = (Index("PRIMARY", tuple(IndexPart(name) for name in key), unique=True),) if key else ()
    return TableInfo("d", "t", columns, indexes, engine=engine)


@pytest.mark.parametrize(
    ("source", "copy", "alike"),
    [
        (table("a"), table("A"), True),
        (table("a"), table("a", collation="utf8mb4_general_ci"), False),
        (table("b"), table("b", collation="utf8mb4_general_ci"), True),
        (table("a"), table("a", "b"), False),
        (table(), table(), False),
        (table("a"), table("a", engine="MyISAM"), False),
    ],
)
def test_the_order_of_rows_is_known_by_the_same_primary_key_alone(
    source: TableInfo, copy: TableInfo, alike: bool
) -> None:
    for sql in ("ALTER TABLE t ADD c INT AUTO_INCREMENT UNIQUE", "ALTER TABLE t ADD c SERIAL"):
        assert found(sql, tables=(source, copy)) == ([] if alike else ["TRUE"])
    change = "ALTER TABLE t CHANGE b c INT AUTO_INCREMENT UNIQUE"
    assert found(change, tables=(source, copy)) == ([] if alike else ["`b` = 0 OR `b` IS NULL"])


@pytest.mark.parametrize(("engine", "alike"), [("InnoDB", True), ("MyISAM", False), ("", False)])
def test_a_table_without_an_engine_has_the_upstreams_default(engine: str, alike: bool) -> None:
    add, session = "ALTER TABLE t ADD c SERIAL", replace(MARIADB, engine=engine)
    assert found(add, session, tables=(table("a", engine=""), table("a"))) == ([] if alike else ["TRUE"])


@pytest.mark.parametrize("what", ["TRUNCATE PARTITION p0", "EXCHANGE PARTITION p0 WITH TABLE d.u"])
def test_rows_of_a_partition_by_hash_are_others_in_tidb(what: str) -> None:
    """Both servers hash, in another way: the statement would silently be about other rows."""
    hashed = "CREATE TABLE `t` (`a` int)\nPARTITION BY KEY (`a`) PARTITIONS 4"
    ranges = "CREATE TABLE `t` (`a` int)\nPARTITION BY RANGE (`a`)\n(PARTITION `p0` VALUES LESS THAN (1))"
    sql = f"ALTER TABLE t {what}"
    assert found(sql, target=TO_TIDB, shown=hashed, sql_mode=0) == ["TRUE"]
    assert found(sql, target=TO_TIDB, shown=ranges, sql_mode=0) == []
    assert found(sql, MYSQL, TO_80, shown=hashed) == []
    assert found("ALTER TABLE t TRUNCATE PARTITION ALL", target=TO_TIDB, shown=hashed, sql_mode=0) == []
    assert found("ALTER TABLE t COALESCE PARTITION 1", target=TO_TIDB, shown=hashed, sql_mode=0) == []


def test_a_column_that_is_dropped_and_added_again_stays_in_its_keys_or_stops() -> None:
    keyed, plain = (None, table("A")), (None, table("b"))
    again = "ALTER TABLE t DROP a, ADD a VARCHAR(5)"
    assert found(again, target=TO_TIDB, tables=keyed, sql_mode=0) == [""]
    assert found(again, target=TO_TIDB, tables=plain, sql_mode=0) == []
    assert found(again, MYSQL, TO_80, tables=keyed) == []
    assert found("ALTER TABLE t DROP a, ADD c INT", target=TO_TIDB, tables=keyed, sql_mode=0) == []


def test_modes_for_each_target() -> None:
    everything = (1 << 35) - 1
    assert unknown_modes(everything, "mariadb") == 0
    assert unknown_modes((1 << 33) - 1, "mysql") == 1 << 4
    assert target_modes(1 << 7, MARIADB, TO_80) == "NO_DIR_IN_CREATE,TIME_TRUNCATE_FRACTIONAL"
    assert target_modes(ROUND | 1 << 4 | 1 << 32, MARIADB, TO_MARIADB).split(",") == [
        "IGNORE_BAD_TABLE_OPTIONS",
        "EMPTY_STRING_IS_NULL",
        "TIME_ROUND_FRACTIONAL",
    ]
    assert target_modes(ROUND | 1 << 4 | 1 << 32, MARIADB, TO_80) == ""
    assert target_modes(0, MYSQL, TO_MARIADB) == "TIME_ROUND_FRACTIONAL"
    assert target_modes(TRUNCATE, MYSQL, TO_TIDB) == ""
    assert truncates_fractions(TRUNCATE, "mysql")


@pytest.mark.parametrize(
    ("version", "flags", "told"),
    [
        ((10, 11, 6), 0, False),
        ((11, 8, 6), EXPLICIT_TIMESTAMP, True),
        ((10, 5, 16), 0, None),
        ((10, 5, 17), 0, False),
        ((10, 4, 99), 0, None),
    ],
)
def test_flags_show_what_timestamp_means_where_the_version_writes_it(
    version: tuple[int, int, int], flags: int, told: bool | None
) -> None:
    query = replace(NO_QUERY, flags=flags)
    assert in_plain_words(query, UpstreamSession("mariadb", version)).explicit_defaults_for_timestamp is told
    assert in_plain_words(query, UpstreamSession("mysql", version)).explicit_defaults_for_timestamp is None


def test_a_target_receives_only_what_it_knows() -> None:
    query = replace(NO_QUERY, charsets=(45, 255, 45), auto_increment=(5, 3))
    told = "; ".join(settings("alter table", query, 7, upstream=MYSQL, target=TO_TIDB, foreign_keys=True))
    assert "auto_increment" not in told
    assert "collation" not in told
    assert "SET TIMESTAMP = 7.000000" in told
    target = TargetSession("mariadb", (10, 11, 6), frozenset({"auto_increment_increment"}), {45: "utf8mb4_general_ci"})
    told = "; ".join(settings("alter table", query, 7, upstream=MYSQL, target=target, foreign_keys=True))
    assert "SET SESSION auto_increment_increment = 5, SESSION auto_increment_offset = 3" in told
    # The target lacks the collation, and gets its charset.
    assert "SET SESSION character_set_connection = utf8mb4" in told


FULL = QueryEvent(
    *(0, 0, 1317, "", b""),
    sql_mode=7,
    charsets=(1, 2, 3),
    time_zone="+02:00",
    explicit_defaults_for_timestamp=True,
    microseconds=5,
    flags=6,
    utf8mb4_collation=45,
    auto_increment=(2, 1),
    lc_time_names=4,
    charset_collations=((45, 46), (33, 83)),
    unknown_variable=200,
)


def test_what_is_kept_of_a_session_for_later_is_all_that_has_a_bearing() -> None:
    assert contexts_of(contexts_text([StatementContext(FULL, 9)])) == [StatementContext(FULL, 9)]
    fields = {variable.field for variable in VARIABLES.values() if variable.bearing == "statement"}
    assert all(getattr(FULL, name) not in (None, "", 0, ()) for name in fields)
    kept = GhostSession.of(FULL)
    record = GhostRecord("d", "t", (GhostDDL("ALTER TABLE x.y ADD a INT", kept),))
    assert GhostRecord.from_json(record.to_json(), ("d", "g")) == record
    # The time is that of the renaming.
    assert kept.onto(NO_QUERY) == replace(FULL, error_code=0, microseconds=0, unknown_variable=None)


def test_what_earlier_versions_kept_is_read() -> None:
    (old, older) = contexts_of('[[7, [1, 2, 3], "+02:00", 9, true, 45], [null, null, "", 9]]')
    assert (old.query.sql_mode, old.query.utf8mb4_collation, old.query.flags) == (7, 45, None)
    assert older == StatementContext(NO_QUERY, 9)
