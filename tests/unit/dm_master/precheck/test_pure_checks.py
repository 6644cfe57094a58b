"""Hazards: a privilege seen where there is none, shards that cannot merge, an answer that scripts cannot read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dm_master.inspection.grants import Grants, roles_of
from dm_master.precheck.privilege_checks import consistency_of
from dm_master.precheck.result import HEADER, PASSED, CheckResult, conclude, fail, warn
from dm_master.precheck.server_checks import TRIED, version_findings
from dm_master.precheck.table_checks import (
    RoutedTable,
    check_merge_rules,
    check_same_names,
    check_shards,
    check_table,
    compare_with_target,
)
from pkg.mysql.introspect import ServerInfo
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.rules.column_mapping import ColumnMapper, TableMapping
from pkg.rules.model import ColumnMappingRule
from tests.harness.mysql import MARIADB_VERSIONS, MYSQL_VERSIONS


@pytest.mark.parametrize(
    ("line", "privilege", "place", "held"),
    [
        ("GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION", "RELOAD", (), True),
        ("GRANT USAGE ON *.* TO 'u'@'%' IDENTIFIED BY PASSWORD '*X'", "SELECT", ("a", "t"), False),
        ("GRANT SELECT, RELOAD ON *.* TO 'u'@'%'", "SELECT", ("a", "t"), True),
        ("GRANT SELECT ON `a`.* TO 'u'@'%'", "SELECT", ("a", "t"), True),
        ("GRANT SELECT ON `a`.* TO 'u'@'%'", "SELECT", ("b", "t"), False),
        ("GRANT SELECT ON `a`.* TO 'u'@'%'", "SELECT", (), False),
        ("GRANT SELECT ON `a\\_1`.* TO 'u'@'%'", "SELECT", ("a_1", "t"), True),
        ("GRANT SELECT ON `a\\_1`.* TO 'u'@'%'", "SELECT", ("ax1", "t"), False),
        ("GRANT SELECT ON `a_%`.* TO 'u'@'%'", "SELECT", ("ab123", "t"), True),
        ("GRANT SELECT ON `a`.`t` TO 'u'@'%'", "SELECT", ("a", "t"), True),
        ("GRANT SELECT ON `a`.`t` TO 'u'@'%'", "SELECT", ("a", "t2"), False),
        ("GRANT SELECT ON `a`.`t` TO 'u'@'%'", "SELECT", ("a",), False),
        ("GRANT SELECT (`x`, `y`), INSERT ON `a`.`t` TO 'u'@'%'", "SELECT", ("a", "t"), False),
        ("GRANT SELECT (`x`, `y`), INSERT ON `a`.`t` TO 'u'@'%'", "INSERT", ("a", "t"), True),
        ("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `u`@`%`", "REPLICATION CLIENT", (), True),
        ("GRANT FLUSH_TABLES ON *.* TO `u`@`%`", "RELOAD", (), True),
        ("GRANT SELECT ON `we``ird`.* TO `u`@`%`", "SELECT", ("we`ird", "t"), True),
        ("GRANT PROXY ON ''@'' TO 'root'@'%'", "SELECT", ("a", "t"), False),
    ],
)
def test_privileges_are_read_from_show_grants(line: str, privilege: str, place: tuple[str, ...], held: bool) -> None:
    assert Grants([line]).allows(privilege, *place) is held


def test_partial_revoke_takes_a_schema_out() -> None:
    grants = Grants(["GRANT SELECT ON *.* TO `u`@`%`", "REVOKE SELECT ON `secret`.* FROM `u`@`%`"])
    assert grants.allows("SELECT", "open", "t")
    assert not grants.allows("SELECT", "secret", "t")


def test_roles_are_told_from_privileges() -> None:
    lines = ["GRANT USAGE ON *.* TO `u`@`%`", "GRANT `reader`@`%`,`dumper`@`%` TO `u`@`%`", "GRANT `r` TO `u`@`%`"]
    assert roles_of(lines) == ("`reader`@`%`", "`dumper`@`%`", "`r`")


@pytest.mark.parametrize(
    ("args", "consistency"),
    [
        ("", "auto"),
        ("--consistency lock -t 4", "lock"),
        ("--consistency=none", "none"),
        ("-t 4 --no-locks", "none"),
        ("--where 'a = \"--no-locks x\"'", "auto"),
    ],
)
def test_consistency_is_read_from_extra_args(args: str, consistency: str) -> None:
    assert consistency_of(args) == consistency


def _info(name: str, *columns: Column, key: str = "id", schema: str = "s") -> TableInfo:
    indexes = (Index("PRIMARY", (IndexPart(key),), True),) if key else ()
    return TableInfo(schema, name, columns, indexes)


ID = Column("id", "bigint", "bigint(20)", nullable=False)
V = Column("v", "varchar", "varchar(10)", charset="utf8mb4")
T = ("s", "t")


def _shards(*infos: TableInfo) -> dict[tuple[str, str], list[RoutedTable]]:
    return {T: [RoutedTable("s1", info) for info in infos]}


def test_equal_shards_merge() -> None:
    other_width = Column("id", "bigint", "bigint", nullable=False)
    assert check_shards(_shards(_info("t1", ID, V), _info("t2", V, other_width))) == []


@pytest.mark.parametrize(
    ("other", "severity", "text"),
    [
        (_info("t2", ID), "fail", "columns v"),
        (_info("t2", ID, V, Column("w", "int", "int(11)")), "fail", "columns w"),
        (_info("t2", ID, Column("v", "int", "int(11)")), "fail", "v is varchar(10) utf8mb4 and int"),
        (_info("t2", ID, Column("v", "varchar", "varchar(20)", charset="utf8mb4")), "warn", "varchar(20)"),
        (_info("t2", ID, Column("v", "varchar", "varchar(10)", charset="latin1")), "warn", "latin1"),
        (_info("t2", ID, V, key="v"), "warn", "keys"),
    ],
)
def test_shards_that_differ_are_named(other: TableInfo, severity: str, text: str) -> None:
    (finding,) = check_shards(_shards(_info("t1", ID, V), other))
    assert finding.severity == severity
    assert text in finding.message
    assert (finding.subject, finding.other) == ("s1 `s`.`t2`", "s1 `s`.`t1`")


def test_targets_that_differ_in_case_alone_are_refused() -> None:
    assert check_same_names([("a", "t"), ("a", "u"), ("b", "t")]) == []
    (finding,) = check_same_names([("a", "t"), ("A", "t"), ("b", "t")])
    assert finding.severity == "fail"
    assert "code=26001" in finding.message


@pytest.mark.parametrize(
    ("there", "states"),
    [
        (_info("t", ID, V), []),
        (_info("t", V, ID, Column("x", "int", "int(11)")), []),
        (_info("t", ID), ["fail"]),
        (_info("t", ID, V, Column("x", "int", "int(11)", nullable=False)), ["fail"]),
        (_info("t", ID, V, Column("x", "int", "int(11)", nullable=False, default="1")), []),
        (_info("t", ID, Column("v", "text", "text", charset="utf8mb4")), ["warn"]),
        (_info("t", ID, V, key=""), ["warn"]),
    ],
)
def test_a_table_is_compared_with_its_target(there: TableInfo, states: list[str]) -> None:
    shard = RoutedTable("s1", _info("t", ID, V))
    assert [finding.severity for finding in compare_with_target(shard, there)] == states
    uncertain = compare_with_target(shard, there, certain=False)
    assert [finding.severity for finding in uncertain] == ["warn"] * len(states)


def test_generated_columns_need_no_target() -> None:
    made = Column("g", "int", "int(11)", generated="VIRTUAL")
    assert compare_with_target(RoutedTable("s1", _info("t", ID, made)), _info("t", ID)) == []


def test_tables_without_key_or_with_foreign_keys_warn() -> None:
    assert [f.severity for f in check_table(RoutedTable("s", _info("t", ID, key="")))] == ["warn"]
    linked = TableInfo("s", "t", (ID,), (Index("PRIMARY", (IndexPart("id"),), True),), foreign_keys=(("s", "p"),))
    assert [f.severity for f in check_table(RoutedTable("s", linked))] == ["warn"]


# The answer


def _detail(text: str) -> dict[str, object]:
    data: dict[str, object] = json.loads(text.partition("detail: ")[2])
    return data


def test_all_well() -> None:
    result = conclude([CheckResult("a", "b")])
    assert (result.passed, result.text) == (True, PASSED)


def test_warnings_pass_and_are_shown() -> None:
    result = conclude([CheckResult("a", "b"), CheckResult("c", "d", (warn("w", "do"),), "place")])
    assert result.passed
    assert result.text.startswith(f'{HEADER}: no errors but some warnings\n detail: {{\n\t\t\t"results"')
    assert _detail(result.text) == {
        "results": [
            {
                "id": 1, "name": "c", "desc": "d", "state": "warn",
                "errors": [{"severity": "warn", "short_error": "w", "instruction": "do"}],
                "instruction": "do", "extra": "place",
            }
        ],
        "summary": {"passed": True, "total": 2, "successful": 1, "failed": 0, "warning": 1},
    }  # fmt: skip


def test_failures_carry_dms_code() -> None:
    result = conclude([CheckResult("c", "d", (fail("f", "do"), warn("w", "")))])
    assert not result.passed
    assert result.text.startswith("[code=26005:class=task-check:scope=internal:level=medium]")
    assert f"Message: {HEADER}: check was failed, please see detail" in result.text
    assert _detail(result.text)["summary"] == {"passed": False, "total": 1, "successful": 0, "failed": 1, "warning": 0}


def test_counts_bound_what_is_shown_but_not_the_verdict() -> None:
    many = [CheckResult(str(i), "", (fail(f"f{i}", ""), warn(f"w{i}", ""))) for i in range(5)]
    result = conclude(many, err_count=2, warn_count=1)
    assert (result.text.count('"fail",'), result.text.count("short_error")) == (4, 3)
    assert not conclude(many, err_count=0, warn_count=0).passed


def _mapping(schema: str, table: str, instance: str = "1") -> TableMapping:
    rule = ColumnMappingRule("*", "id", "partition id", "", "", (instance, "", "t"))
    mapping = ColumnMapper([rule], False).compile(schema, table, [ID, V])
    assert mapping is not None
    return mapping


SMALL = Column("id", "int", "int(11)", nullable=False)
ORIGIN = Column("origin", "varchar", "varchar(20)", nullable=False)


@pytest.mark.parametrize(
    ("there", "texts"),
    [
        (_info("t", ID, V, ORIGIN), []),
        (_info("t", ID, V), ["lacks the column `origin`"]),
        (_info("t", SMALL, V, ORIGIN), ["does not fit into the target's column, which is int(11)"]),
        (None, ["would lack the column `origin`", "does not fit into int(11)"]),
    ],
)
def test_the_target_has_what_the_merge_rules_need(there: TableInfo | None, texts: list[str]) -> None:
    shard = RoutedTable("s1", _info("t1", SMALL, V), (("origin", "s1"),), _mapping("s", "t1"))
    findings = check_merge_rules(shard, there)
    assert [finding.severity for finding in findings] == ["fail"] * len(texts)
    for finding, text in zip(findings, texts, strict=True):
        assert text in finding.message
        assert finding.instruction
    assert {finding.severity for finding in check_merge_rules(shard, there, certain=False)} <= {"warn"}


def test_columns_that_rules_fill_or_map_are_no_difference() -> None:
    there = TableInfo("s", "t", (ID, V, ORIGIN), (Index("PRIMARY", (IndexPart("id"), IndexPart("origin")), True),))
    shard = RoutedTable("s1", _info("t1", SMALL, V), (("Origin", "s1"),), _mapping("s", "t1"))
    assert compare_with_target(shard, there) == []
    assert len(compare_with_target(RoutedTable("s1", shard.info), there)) == 3


def _server(flavor: str, *version: int) -> ServerInfo:
    major, minor, patch = version
    return ServerInfo(flavor, (major, minor, patch), f"{major}.{minor}.{patch}-log", 1, "", True)


@pytest.mark.parametrize(
    "server",
    [
        *(_server("mysql", *version) for version in ((5, 6, 24), (5, 7, 44), (8, 0, 36))),
        *(_server("mariadb", *version) for version in ((10, 11, 6), (11, 8, 6))),
    ],
)
def test_a_series_that_was_tried_is_not_warned_about(server: ServerInfo) -> None:
    assert version_findings(server) == []


@pytest.mark.parametrize(
    "server",
    [
        *(_server("mysql", *version) for version in ((8, 4, 2), (5, 5, 8), (11, 8, 6))),
        *(_server("mariadb", *version) for version in ((11, 4, 5), (10, 6, 1), (12, 1, 1))),
    ],
)
def test_every_other_series_is_warned_about_with_what_was_tried(server: ServerInfo) -> None:
    """MariaDB 11.4, whose events are of another form, counted as tested because it lay between two others."""
    (finding,) = version_findings(server)
    assert finding.severity == "warn"
    for text in (server.version_text, "MySQL 5.6.24, 5.7.22, 8.0.12", "MariaDB 10.11, 11.8.6"):
        assert text in finding.message
    assert finding.instruction


def test_the_releases_that_were_tried_are_those_of_the_tests() -> None:
    assert {f"{major}.{minor}" for major, minor in TRIED["mysql"]} == set(MYSQL_VERSIONS)
    assert {"11.8"} == set(MARIADB_VERSIONS) - {""}
    documented = (Path(__file__).parents[4] / "docs" / "operations.md").read_text()
    for name, flavor in (("MySQL", "mysql"), ("MariaDB", "mariadb")):
        assert f"| {name} | {', '.join(TRIED[flavor].values())} |" in documented
