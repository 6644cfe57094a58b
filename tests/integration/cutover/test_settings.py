"""Hazard: a setting or a right that is missing passes, or the command that the check names does not mend it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_master.cutover.facts import CutoverFacts
from dm_master.cutover.reading import server_facts, target_facts
from dm_master.cutover.server_checks import check_settings, check_way_back
from dm_master.inspection.inspected_server import InspectedServer
from tests.unit.dm_master.cutover.made_facts import ready, upstream

#: A target's setting, and a value that differs.
_SETTINGS = [
    ("sql_mode", "'ANSI_QUOTES'"),
    ("time_zone", "'+03:00'"),
    ("character_set_server", "'latin1'"),
    ("collation_server", "'utf8mb4_bin'"),
    ("tx_isolation", "'READ-COMMITTED'"),
    ("auto_increment_increment", "2"),
    ("auto_increment_offset", "3"),
    ("max_allowed_packet", "1048576"),
    ("innodb_strict_mode", "OFF"),
    ("foreign_key_checks", "OFF"),
]


def _facts(source: SQLServer, there: SQLServer, may_write: bool = True, user: str = "root") -> CutoverFacts:
    """``user``: of the target."""
    with ExitStack() as stack:
        here = stack.enter_context(closing(InspectedServer(source.db_config, "upstream")))
        at = stack.enter_context(closing(InspectedServer(replace(there.db_config, user=user), "downstream")))
        return ready(
            upstreams=(upstream(server=server_facts("one", here, {}, set()), may_write=may_write),),
            target=target_facts(at, []),
        )


def _statements(remedy: str) -> list[str]:
    assert remedy.startswith("on the target: ")
    return remedy.removeprefix("on the target: ").partition(" — ")[0].split("; ")


@pytest.fixture
def own_target(new_mariadb: Callable[..., MariaDBServer]) -> MariaDBServer:
    return new_mariadb()


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_each_setting_that_differs_is_named_and_mended(
    kind: str, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, own_target: MariaDBServer
) -> None:
    source: SQLServer = mariadb_upstream if kind == "mariadb" else mysql_upstream
    # MySQL's own collation and modes are other ones.
    for statement in _statements(check_settings(_facts(source, own_target)).remedy or "on the target: SELECT 1"):
        own_target.execute(statement)
    known = check_settings(_facts(source, own_target)).evidence
    for name, value in _SETTINGS:
        own_target.execute(f"SET GLOBAL {name} = {value}")
        found = check_settings(_facts(source, own_target))
        assert found.verdict == "no", name
        (line, *others) = sorted(set(found.evidence) - set(known))
        assert line.startswith(name.replace("tx_", "transaction_")) or others, found
        own_target.execute(*_statements(found.remedy))
        mended = check_settings(_facts(source, own_target))
        assert mended.evidence == known, (name, found, mended)
    assert check_settings(_facts(source, own_target)).verdict == "yes", known


def test_what_the_way_back_lacks_is_named_and_mended(
    mariadb_upstream: MariaDBServer, own_target: MariaDBServer
) -> None:
    own_target.execute(
        "CREATE USER dm_user@'%' IDENTIFIED BY ''",
        "SET GLOBAL binlog_format = 'STATEMENT'",
        "SET GLOBAL binlog_row_image = 'MINIMAL'",
        "SET GLOBAL expire_logs_days = 0.25",
    )
    found = check_way_back(_facts(mariadb_upstream, own_target, user="dm_user"))
    assert found.verdict == "no"
    shown = "\n".join(found.evidence)
    for word in ("binlog_format is STATEMENT", "binlog_row_image is MINIMAL", "21600 s", "lacks REPLICATION SLAVE"):
        assert word in shown
    own_target.execute(*_statements(found.remedy))
    mended = check_way_back(_facts(mariadb_upstream, own_target, user="dm_user"))
    assert mended.verdict == "yes", mended
    closed = check_way_back(_facts(mariadb_upstream, own_target, may_write=False))
    assert "on one: GRANT INSERT, UPDATE, DELETE ON `app`.* TO 'root'@'127.0.0.1'" in closed.remedy
