"""Which errors say that a statement had its effect before, on real servers: those of running it a second time."""

from __future__ import annotations

from contextlib import closing

import pymysql
import pytest

from deploy.local.mysql import SQLServer
from pkg.ddl import ignorable_errors, parse
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import server_info
from tests.ddl_corpus import Version

SETUP = (
    "CREATE DATABASE again",
    "CREATE TABLE again.p (id INT PRIMARY KEY)",
    "CREATE TABLE again.t (a INT NOT NULL, b INT, c INT, KEY k (a), UNIQUE KEY u (b),"
    " CONSTRAINT f FOREIGN KEY (c) REFERENCES again.p (id))",
    "CREATE TABLE again.r (a INT) PARTITION BY RANGE (a)"
    " (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (9))",
)

TWICE = (
    "CREATE DATABASE fresh",
    "CREATE TABLE fresh.x (a INT)",
    "DROP TABLE fresh.x",
    "DROP DATABASE fresh",
    "ALTER TABLE again.t ADD COLUMN n INT",
    "ALTER TABLE again.t ADD n2 INT UNIQUE AFTER a",
    "ALTER TABLE again.t CHANGE n m BIGINT",
    "ALTER TABLE again.t DROP COLUMN m",
    "ALTER TABLE again.t ADD KEY k2 (a, b)",
    "ALTER TABLE again.t ADD UNIQUE KEY u2 (a, b), ALGORITHM=COPY",
    "ALTER TABLE again.t DROP KEY k2",
    "ALTER TABLE again.t ADD PRIMARY KEY (a)",
    "ALTER TABLE again.t DROP PRIMARY KEY",
    "ALTER TABLE again.t DROP FOREIGN KEY f",
    "CREATE INDEX i ON again.t (b, a)",
    "DROP INDEX i ON again.t",
    "ALTER TABLE again.r ADD PARTITION (PARTITION p2 VALUES LESS THAN (20))",
    "ALTER TABLE again.r DROP PARTITION p2",
)
#: By the first version of MySQL that knows it, as the corpus's marks say; none does where there is no version.
NEWER_TWICE: tuple[tuple[Version | None, str], ...] = (
    ((5, 6, 0), "ALTER TABLE again.t ADD n INT"),
    ((8, 0, 0), "ALTER TABLE again.t RENAME COLUMN n TO m"),
    ((5, 7, 0), "ALTER TABLE again.t RENAME KEY k TO kk"),
    (None, "ALTER TABLE again.t DROP CONSTRAINT u2"),
)
#: The table lacks something that the statement needs, so it had no effect: silence would lose it.
WITHOUT_EFFECT = (
    "ALTER TABLE again.t ADD x INT AFTER nothere",
    "ALTER TABLE again.t MODIFY b BIGINT AFTER nothere",
    "ALTER TABLE again.t CHANGE b y BIGINT AFTER nothere",
    "ALTER TABLE again.t CHANGE b a BIGINT",
    "ALTER TABLE again.t ADD KEY x (nothere)",
    "ALTER TABLE again.t ADD PRIMARY KEY (nothere)",
    "ALTER TABLE again.t ADD FOREIGN KEY (nothere) REFERENCES again.p (id)",
    "ALTER TABLE again.t RENAME again.p",
    "ALTER TABLE again.nothere ADD a INT",
    "RENAME TABLE again.t TO again.p",
    "CREATE INDEX x ON again.t (nothere)",
    "TRUNCATE again.nothere",
)
NEWER_WITHOUT_EFFECT: tuple[tuple[Version | None, str], ...] = (
    (None, "ALTER TABLE again.t ADD CHECK (nothere > 1)"),
    ((5, 7, 0), "ALTER TABLE again.t ADD g INT AS (nothere)"),
    ((5, 7, 0), "ALTER TABLE again.t MODIFY b INT AS (nothere)"),
    ((8, 0, 0), "ALTER TABLE again.t RENAME COLUMN a TO b"),
)


def known(server: SQLServer, statements: tuple[tuple[Version | None, str], ...]) -> list[str]:
    with closing(server.connect()) as conn:
        version = server_info(conn).version
    mariadb = server.flavor == "mariadb"
    return [sql for since, sql in statements if mariadb or (since is not None and since <= version)]


def refused(server: SQLServer, sql: str) -> int:
    with pytest.raises(pymysql.Error) as caught:
        server.execute(sql)
    return error_number(caught.value)


def prepared(request: pytest.FixtureRequest, family: str) -> SQLServer:
    server: SQLServer = request.getfixturevalue(family)
    server.execute(*SETUP)
    return server


@pytest.mark.parametrize("family", ["mariadb_upstream", "mysql_upstream"])
def test_what_ran_before_says_so_the_second_time(request: pytest.FixtureRequest, family: str) -> None:
    server = prepared(request, family)
    for sql in (*TWICE, *known(server, NEWER_TWICE)):
        server.execute(sql)
        assert refused(server, sql) in ignorable_errors(parse(sql, flavor=server.flavor)), sql


@pytest.mark.parametrize("family", ["mariadb_upstream", "mysql_upstream"])
def test_what_had_no_effect_is_an_error(request: pytest.FixtureRequest, family: str) -> None:
    server = prepared(request, family)
    for sql in (*WITHOUT_EFFECT, *known(server, NEWER_WITHOUT_EFFECT)):
        assert refused(server, sql) not in ignorable_errors(parse(sql, flavor=server.flavor)), sql
