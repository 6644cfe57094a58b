"""Hazard: a structure is missing at the target and passes, or is there in another spelling and does not; or the command
of a check does not mend it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from dm_master.cutover.runner import CHECKS
from tests.harness.structures import PARENT, facts_of, proves, table_with

#: Check, what the upstream's table has, what the target's has instead, and the evidence.
_WITH_FAULTS = [
    ("indexes", "KEY k (a)", "", "lacks k (`a`)"),
    ("indexes", "UNIQUE KEY k (a)", "KEY other (a)", "lacks UNIQUE k (`a`)"),
    ("indexes", "KEY k (s(5))", "KEY k2 (s(6))", "lacks k (`s`(5))"),
    ("indexes", "FULLTEXT KEY k (s)", "KEY k2 (s)", "lacks FULLTEXT k (`s`)"),
    ("foreign-keys", "FOREIGN KEY (a) REFERENCES {}.parent (id)", "", "(a) → `moved`.`parent` is not at the target"),
    ("foreign-keys", "FOREIGN KEY (a) REFERENCES {}.parent (id) ON DELETE CASCADE",
     "FOREIGN KEY (a) REFERENCES {}.parent (id)", "has other actions than ON DELETE CASCADE"),
    ("foreign-keys", "FOREIGN KEY (a) REFERENCES {}.parent (id)",
     "FOREIGN KEY (a) REFERENCES {}.parent (id) ON UPDATE SET NULL", "has other actions than none"),
]  # fmt: skip
_CHECKS = [
    ("checks", "CHECK (a > 0)", "", "> 0"),
    ("checks", "CHECK (a > 0), CHECK (a < 9)", "CHECK (a > 0), CHECK (a < 10)", "< 9"),
    ("checks", "CONSTRAINT c CHECK (a > 0)", "CONSTRAINT c CHECK (a > 1)", "the one of that name is"),
    ("checks", "CHECK (s IN ('x', 'y''z') AND (a <> 5 OR LENGTH(s) > 1))", "", "lacks CHECK"),
    ("checks", "CHECK (d > '2020-01-01' AND NOT a BETWEEN 1 AND -2)", "CHECK (d > '2020-01-01')", "lacks CHECK"),
]  # fmt: skip
_OF_MYSQL = [
    ("indexes", "KEY k ((lower(s)))", "KEY k2 ((upper(s)))", "lacks k ((lower(`s`)))"),
    ("checks", "CONSTRAINT c CHECK (a > 0)", "CONSTRAINT c CHECK (a > 0) NOT ENFORCED", "NOT ENFORCED"),
]
_PARTITIONS = [
    ("BY HASH (id) PARTITIONS 3", "", "is not partitioned, but by HASH"),
    ("BY HASH (id) PARTITIONS 3", "BY HASH (id) PARTITIONS 2", "has 2 partitions, but 3 on one"),
    ("BY KEY () PARTITIONS 2", "BY HASH (id) PARTITIONS 2", "is partitioned by HASH (`id`), but by KEY () on one"),
    ("BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
     "BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))", "lacks partition p1 (MAXVALUE)"),
    ("BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))",
     "BY RANGE (id) (PARTITION p0 VALUES LESS THAN (11))", "has partition p0 (11), but (10) on one"),
    ("BY LIST (id) (PARTITION p0 VALUES IN (1, 2))", "BY LIST (id) (PARTITION p0 VALUES IN (1, 3))", "(1,3), but"),
    ("BY RANGE (id) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (10))",
     "BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))", "then by HASH"),
]  # fmt: skip


@pytest.fixture(scope="module")
def newer_mysql() -> Iterator[MySQLServer]:
    """Of a version that keeps CHECK constraints and has indexes of expressions."""
    server = MySQLServer(version="8.4")
    with up(server):
        yield server


@pytest.fixture(params=["mariadb to mysql", "mysql to mariadb", "mysql to mysql"])
def pair(
    request: pytest.FixtureRequest, mariadb_upstream: MariaDBServer, newer_mysql: MySQLServer
) -> tuple[SQLServer, SQLServer]:
    """The upstream and the target, which may be one server."""
    newer_mysql.wipe()
    servers = {"mariadb": mariadb_upstream, "mysql": newer_mysql}
    source, there = request.param.split(" to ")
    return servers[source], servers[there]


@pytest.mark.parametrize(("check", "here", "other", "why"), _WITH_FAULTS + _CHECKS)
def test_keys_and_constraints_that_are_missing_are_named_and_mended(
    pair: tuple[SQLServer, SQLServer], check: str, here: str, other: str, why: str
) -> None:
    proves(check, pair, table_with(here, "app"), table_with(other, "moved"), why)


@pytest.mark.parametrize(("check", "here", "other", "why"), _OF_MYSQL)
@pytest.mark.parametrize("pair", ["mysql to mysql"], indirect=True)
def test_what_only_mysql_has_is_named_and_mended(
    pair: tuple[SQLServer, SQLServer], check: str, here: str, other: str, why: str
) -> None:
    proves(check, pair, table_with(here, "app"), table_with(other, "moved"), why)


@pytest.mark.parametrize(("here", "other", "why"), _PARTITIONS)
def test_partitions_that_are_missing_are_named_and_mended(
    pair: tuple[SQLServer, SQLServer], here: str, other: str, why: str
) -> None:
    made, fault = (
        f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, a INT){f' PARTITION {clause}' if clause else ''}"
        for schema, clause in (("app", here), ("moved", other))
    )
    proves("partitions", pair, made, fault, why)


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_user_with_only_select_sees_keys_and_constraints(
    kind: str, mariadb_upstream: MariaDBServer, newer_mysql: MySQLServer
) -> None:
    server = mariadb_upstream if kind == "mariadb" else newer_mysql
    server.wipe()
    server.execute(
        "CREATE DATABASE app",
        PARENT.format("app"),
        table_with("FOREIGN KEY (a) REFERENCES {}.parent (id), CHECK (a > 0)", "app"),
        "CREATE DATABASE moved",
        PARENT.format("moved"),
        table_with("", "moved"),
        "CREATE USER IF NOT EXISTS only_select@'%' IDENTIFIED BY ''",
        "GRANT SELECT ON app.* TO only_select@'%'",
    )
    facts = facts_of(server, server, user="only_select")
    assert {name: CHECKS[name](facts).verdict for name in ("foreign-keys", "checks")} == {
        "foreign-keys": "no",
        "checks": "no",
    }
