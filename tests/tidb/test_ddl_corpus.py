"""Hazard: a statement of MySQL or MariaDB has another effect in TiDB than upstream, or stops a task there unnoticed.

Every statement of the corpus runs upstream; what the binlog has of it is executed in TiDB as a task does it, and the
structures are compared. What TiDB does not do, or does in another way, is in ``corpus_differences.txt``, with the
reason: no statement leaves that list or gets onto it unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from deploy.local.mysql import MYSQL_VERSION, MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from deploy.local.tidb import TiDBServer
from tests.ddl_corpus import Flavor, Version, cases
from tests.tidb.corpus_into_tidb import CorpusIntoTiDB, reviewed

pytestmark = [pytest.mark.timeout(900, func_only=True)]

#: What the harness starts.
VERSIONS: dict[Flavor, Version] = {"mariadb": (10, 11, 0), "mysql": (8, 0, 12)}
GROUPS = sorted({case.group for case in cases()})


@pytest.fixture(scope="module")
def into_tidb(_mariadb_upstream: MariaDBServer, _tidb: TiDBServer) -> Iterator[Callable[[Flavor], CorpusIntoTiDB]]:
    # With GTIDs, MySQL 8.0.12 refuses CREATE TABLE … SELECT.
    with up(mysql := MySQLServer()):
        upstreams: dict[Flavor, SQLServer] = {"mariadb": _mariadb_upstream, "mysql": mysql}
        yield lambda flavor: CorpusIntoTiDB(upstreams[flavor], flavor, VERSIONS[flavor], _tidb)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("flavor", VERSIONS)
def test_every_statement_has_its_effect_in_tidb_or_is_known_not_to(
    into_tidb: Callable[[Flavor], CorpusIntoTiDB], flavor: Flavor, group: str
) -> None:
    assert MYSQL_VERSION == "8.0"
    assert into_tidb(flavor).differences(group) == reviewed(flavor, group)
