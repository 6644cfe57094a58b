"""Hazards: the target's own default collations replace those that the upstream's tables have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.mysql import MYSQL_8_COLLATION, MySQLServer, SQLServer
from deploy.local.process import up
from dm_worker.engine.engine import SparkEngine
from tests.harness.full_copy import config, dump, load
from tests.integration.syncer.support import running, subtask

_TABLE = """CREATE TABLE {} (id INT PRIMARY KEY, plain VARCHAR(9), own VARCHAR(9) CHARACTER SET utf8mb4 COLLATE
    utf8mb4_bin, other TEXT CHARACTER SET latin1, made VARCHAR(9) CHARACTER SET utf8mb4 GENERATED ALWAYS AS
    (CONCAT(plain, 'x')) STORED, e ENUM('a') CHARSET utf8, k CHAR(3) CHARACTER SET latin1 BINARY, b BLOB){}"""
_ALTERED = (
    "ALTER TABLE {0} ADD added TEXT CHARACTER SET utf8mb4, ADD (a1 CHAR(3) CHARSET utf8mb4, a2 CHAR(4))",
    "ALTER TABLE {0} MODIFY other VARCHAR(9) CHARACTER SET utf8mb4 NOT NULL, CHANGE e f CHAR(9) CHARSET `utf8mb4`",
    "ALTER TABLE {0} DEFAULT CHARSET latin1, ENGINE=InnoDB",
    "ALTER TABLE {0} DEFAULT CHARSET=utf8mb4, ADD last CHAR(3)",
)


@pytest.fixture(scope="module")
def upstreams() -> Iterator[dict[str, MySQLServer]]:
    servers = {"5.7": MySQLServer(version="5.7"), "8.0": MySQLServer(version="8.0", extra=[MYSQL_8_COLLATION])}
    with up(*servers.values()):
        yield servers


@pytest.fixture(scope="module")
def newer() -> Iterator[MySQLServer]:
    """A target whose default for utf8mb4 is not that of MySQL 5.7."""
    server = MySQLServer(version="8.0", extra=[MYSQL_8_COLLATION])
    with up(server):
        yield server


@pytest.fixture
def old(upstreams: dict[str, MySQLServer], newer: MySQLServer) -> MySQLServer:
    for server in (*upstreams.values(), newer):
        server.wipe()
    return upstreams["5.7"]


def collations(server: SQLServer, *schemas: str) -> list[tuple[Any, ...]]:
    """Of the schemas, their tables and their columns."""
    names = ", ".join(f"'{name}'" for name in schemas)
    return [
        *server.execute(
            "SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA"
            f" WHERE SCHEMA_NAME IN ({names}) ORDER BY 1"
        ),
        *server.execute(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COLLATION FROM information_schema.TABLES"
            f" WHERE TABLE_SCHEMA IN ({names}) ORDER BY 1, 2"
        ),
        *server.execute(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLLATION_NAME FROM information_schema.COLUMNS"
            f" WHERE TABLE_SCHEMA IN ({names}) ORDER BY 1, 2, 3"
        ),
    ]


def _others(upstream: SQLServer, target: SQLServer, *schemas: str) -> set[Any]:
    """The names of schemas, tables and columns whose collations differ."""
    have, want = collations(target, *schemas), collations(upstream, *schemas)
    assert [row[:-1] for row in have] == [row[:-1] for row in want]
    return {row[-2] for row, other in zip(want, have, strict=True) if row[-1] != other[-1]}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("setting", ["strict", "loose"])
def test_a_copy_has_the_upstreams_collations_with_strict_alone(
    old: MySQLServer, newer: MySQLServer, spark: SparkEngine, tmp_path: Path, setting: str
) -> None:
    old.execute(
        "CREATE DATABASE d",
        _TABLE.format("d.plain", ""),
        _TABLE.format("d.named", " CHARSET utf8mb4 COLLATE utf8mb4_unicode_ci"),
        _TABLE.format("d.latin", " CHARSET latin1"),
        "INSERT INTO d.plain (id, plain, other) VALUES (1, 'ä', 'é')",
        "CREATE DATABASE empty CHARACTER SET utf8mb4",
        "CREATE DATABASE binary_one COLLATE utf8mb4_bin",
    )
    cfg = config(old, newer, tmp_path, online_ddl=False, collation_compatible=setting)
    dump(cfg, spark)
    load(cfg, spark)
    assert newer.execute("SELECT plain, other, made FROM d.plain") == [("ä", "é", "äx")]
    others = _others(old, newer, "d", "empty", "binary_one")
    assert others == (set() if setting == "strict" else {"d", "empty", "plain", "made"})
    with running(cfg, spark) as run:
        old.execute(*[sql.format("d.plain") for sql in _ALTERED])
        run.wait_synced(old)
    others = _others(old, newer, "d")
    assert not others if setting == "strict" else others >= {"added", "a1", "other", "f", "last"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("setting", ["strict", "loose"])
def test_statements_give_the_upstreams_collations_with_strict_alone(
    old: MySQLServer, newer: MySQLServer, spark: SparkEngine, setting: str
) -> None:
    with running(subtask(old, newer, collation_compatible=setting), spark) as run:
        old.execute(
            "CREATE DATABASE d",
            "CREATE DATABASE named CHARACTER SET utf8mb4",
            "CREATE DATABASE chosen /*!40100 COLLATE utf8mb4_unicode_ci */",
            "CREATE DATABASE turned CHARSET latin1",
            "ALTER DATABASE turned CHARACTER SET = utf8mb4",
            "SET collation_server = utf8mb4_polish_ci",
            "CREATE DATABASE polish",
            "USE d",
            _TABLE.format("plain", ""),
            _TABLE.format("`charset`", " CHARSET='utf8mb4'COMMENT 'CHARSET latin1'"),
            _TABLE.format("latin", "/*!40100 CHARACTER SET latin1*/"),
            "CREATE TABLE alike LIKE plain",
            *[sql.format(name) for sql in _ALTERED for name in ("plain", "`charset`", "alike")],
            "ALTER TABLE latin DROP made, CONVERT TO CHARACTER SET utf8mb4",
        )
        run.wait_synced(old)
    others = _others(old, newer, "d", "named", "chosen", "turned", "polish")
    if setting == "strict":
        assert not others
    else:
        assert others >= {"named", "turned", "plain", "charset", "latin", "added", "f"}
        # Named, or that of the session, which the target knows too.
        assert not others & {"chosen", "d", "polish"}


@pytest.mark.timeout(600)
def test_a_session_s_own_default_for_utf8mb4_counts(
    old: MySQLServer, upstreams: dict[str, MySQLServer], newer: MySQLServer, spark: SparkEngine
) -> None:
    upstream = upstreams["8.0"]
    with running(subtask(upstream, newer, collation_compatible="strict"), spark) as run:
        upstream.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.usual (a TEXT CHARACTER SET utf8mb4, b TEXT CHARACTER SET latin1) CHARSET utf8mb4",
            "SET default_collation_for_utf8mb4 = utf8mb4_general_ci",
            "CREATE TABLE d.other (a TEXT CHARACTER SET utf8mb4, b TEXT CHARACTER SET latin1) CHARSET utf8mb4",
        )
        run.wait_synced(upstream)
    assert not _others(upstream, newer, "d")
    assert ("d", "other", "a", "utf8mb4_general_ci") in collations(newer, "d")
