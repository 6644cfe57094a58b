"""Hazard: what a framework's migrations and its rows are written with stops a task or arrives in another form.

The statements are those of Rails, Laravel, Doctrine, WordPress, Liquibase, Nextcloud, Drupal and Magento.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.support import assert_equal, running, subtask

_SECTION = re.compile(r"^== (.*)\n", re.MULTILINE)
_OF_ONE = re.compile(r"\[(\w+)\]")
_TABLES = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'app'"
_STRUCTURES = (
    "SELECT TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, REPLACE(COLUMN_TYPE, 'json', 'longtext'), IS_NULLABLE,"
    " COLUMN_COMMENT FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'app'",
    "SELECT TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE, SUB_PART, INDEX_TYPE, INDEX_COMMENT"
    " FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'app'",
    "SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_NAME, LOWER(REFERENCED_COLUMN_NAME)"
    " FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = 'app'",
)


def _sections(flavor: str) -> Iterator[tuple[str, list[str]]]:
    text = Path(__file__).with_name("frameworks.sql").read_text()
    found = _SECTION.split(text)[1:]
    for name, body in zip(found[::2], found[1::2], strict=True):
        statements = []
        for statement in filter(None, map(str.strip, body.split(";\n"))):
            of_one = _OF_ONE.match(statement)
            if of_one is None:
                statements.append(statement)
            elif of_one[1] == flavor:
                statements.append(statement[of_one.end() :])
        yield name, statements


@pytest.mark.target_with("every charset", "geometry", "stored columns added by ALTER")
@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_statements_of_frameworks_lead_to_the_same_tables(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, target: SQLServer, spark: SparkEngine, flavor: str
) -> None:
    upstream: SQLServer = {"mariadb": mariadb_upstream, "mysql": mysql_upstream}[flavor]
    for server in (upstream, target):
        server.execute("CREATE DATABASE app CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    with running(subtask(upstream, target), spark) as run:
        for name, statements in _sections(flavor):
            with closing(upstream.connect(database="app")) as session, session.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
            run.wait_synced(upstream)
            tables = sorted(table for (table,) in upstream.execute(_TABLES))
            assert sorted(table for (table,) in target.execute(_TABLES)) == tables, name
            for structures in _STRUCTURES:
                assert set(target.execute(structures)) == set(upstream.execute(structures)), name
            assert_equal(upstream, target, *(f"app.`{table}`" for table in tables))
