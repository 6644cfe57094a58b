"""Hazard: ordinary statements that nobody here thought of are lost, or change other rows at the target.

The statements are those of the server's own tests (Debian's ``mariadb-test-data``); errors that the server gives are
ignored, as long as the target has the same in the end. ``DM_TEST_STATEMENTS`` names other files of that package, as
patterns, to hunt with.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import HarnessError
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.ddl.server_statements import replay

FOLDER = Path("/usr/share/mysql/mysql-test")
FILES = (
    "auto_increment",
    "bigint",
    "case",
    "check_constraint",
    "column_compression",
    "create_or_replace",
    "ctype_gbk",
    "foreign_key",
    "func_json",
    "insert_update",
    "type_decimal",
    "type_set",
    "type_varchar",
    "type_year",
)
#: What stops with an error, by its code: nothing else may. Numbers that depend on the order of rows without a key, rows
#: that broke a CHECK upstream, and ALTER IGNORE TABLE that cuts values.
REFUSED = {
    "auto_increment": {f"f_auto_increment_{number}": 36068 for number in ("010", "011", "012")},
    "check_constraint": {f"f_check_constraint_{number}": 10006 for number in ("000", "004", "007")},
    "column_compression": {f"f_column_compression_{number:03}": 36067 for number in range(12, 19)},
}


def _patterns() -> list[str]:
    return os.environ.get("DM_TEST_STATEMENTS", "").split() or [f"main/{name}.test" for name in FILES]


def _files() -> list[Path]:
    files: list[Path] = []
    for pattern in _patterns():
        found = sorted(FOLDER.glob(pattern))
        if not found:
            raise HarnessError(f"{FOLDER / pattern} is missing: apt-get install mariadb-test-data")
        files += found
    return files


@pytest.mark.target_with("MariaDB's words")
@pytest.mark.parametrize("path", _files(), ids=lambda path: path.stem)
def test_statements_of_the_servers_own_tests(
    path: Path, mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    replayed = replay(path, mariadb_upstream, target, spark)
    assert replayed.ran > 0
    assert not replayed.differences
    assert {schema: error.code for schema, error in replayed.refused.items()} == REFUSED.get(path.stem, {})
