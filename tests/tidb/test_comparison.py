"""Hazard: a comparison with TiDB as the target calls different values equal, or equal ones different."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.tidb import TiDBServer
from tests.integration.comparison.support import compare
from tests.integration.comparison.test_collisions import COLLISIONS, SCHEMA, Collision, create

#: Types that TiDB lacks.
LACKING = {"point"}
CASES = [case for case in COLLISIONS if not case.only and case.name not in LACKING]


def told_apart(upstream: SQLServer, tidb: TiDBServer, case: Collision, key: str) -> str:
    """What is wrong with the answer; '' if it is right, by checksums and by rows."""
    create(upstream, case, case.types, case.one, key)
    create(tidb, case, case.target or case.types, case.another, key)
    for streamed in (False, True):
        found = compare(upstream, tidb, schema=SCHEMA, table=key, streamed=streamed)
        wanted = ["changed"] if key == "keyed" else ["extra", "missing"]
        if found.outcome.rows != (3, 3) or found.kinds != wanted:
            return f"{case.name}, {key}, {'rows' if streamed else 'checksums'}: {found.kinds}, {found.differences}"
    return ""


@pytest.mark.parametrize("key", [pytest.param("keyed", marks=pytest.mark.core), "keyless"])
@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_values_are_told_apart(
    flavor: str, key: str, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, tidb: TiDBServer
) -> None:
    upstream: SQLServer = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    for server in (upstream, tidb):
        server.execute(f"CREATE DATABASE {SCHEMA}")
    wrong = [told_apart(upstream, tidb, case, key) for case in CASES]
    assert list(filter(None, wrong)) == []
