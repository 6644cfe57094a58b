"""Hazard: a table that one of the users may not see, or that is dropped meanwhile, counts as equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.diff.compare_task import ComparedTable
from dm_worker.diff.progress import ComparedState, DiffProgress, TableProgress
from dm_worker.diff.state_table import DiffSettings
from dm_worker.diff.tables import UNSEEN, TableFinder
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.rules.model import BlockAllowList
from pkg.settings.connections import DBConfig
from tests.integration.syncer.support import subtask

A, B = ("shop", "a"), ("shop", "b")
USER = "'few'@'127.0.0.1'"


@pytest.fixture(params=["mariadb", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    return server


def few(server: SQLServer, *grants: str) -> DBConfig:
    """A user with only these grants."""
    server.execute(
        f"CREATE USER {USER} IDENTIFIED BY 'pw'",
        *(f"GRANT {one} TO {USER}" for one in grants),
    )
    return replace(server.db_config, user="few", password="pw")


@pytest.fixture
def cfg(upstream: SQLServer, target: SQLServer) -> Iterator[SubTaskConfig]:
    """A subtask on both servers, which other tests use after it: no user stays there."""
    tables = [f"CREATE TABLE shop.{name} (id INT PRIMARY KEY, v INT)" for name in "ab"]
    for server in (upstream, target):
        server.execute("CREATE DATABASE shop", *tables, "INSERT INTO shop.a VALUES (1, 1)")
    yield subtask(upstream, target, block_allow_list=BlockAllowList(do_dbs=("shop",)))
    for server in (upstream, target):
        server.execute(f"DROP USER IF EXISTS {USER}")


def finder(cfg: SubTaskConfig) -> TableFinder:
    made = TableFinder(cfg, DiffSettings(sources=(cfg.source_id,)), list, list)
    made.refresh()
    return made


def states(found: list[TableProgress]) -> dict[tuple[str, str], ComparedState]:
    return {table.target: table.state for table in found}


def reason(made: TableFinder, target: tuple[str, str]) -> DMError:
    found = made.compared([target])[target]
    assert isinstance(found, DMError)
    return found


def test_a_user_who_sees_all_tables_gets_no_line_more(upstream: SQLServer, cfg: SubTaskConfig) -> None:
    seen = replace(cfg, from_=few(upstream, "SELECT ON shop.*"))
    assert states(finder(seen).find()) == {A: ComparedState.PENDING, B: ComparedState.PENDING}


def test_upstream_tables_that_are_hidden_have_a_line_of_their_own(upstream: SQLServer, cfg: SubTaskConfig) -> None:
    hiding = replace(cfg, from_=few(upstream, "SELECT ON shop.a"))
    found = finder(hiding).find()
    assert states(found) == {A: ComparedState.PENDING, UNSEEN: ComparedState.NOT_COMPARED}
    (line,) = [table for table in found if table.target == UNSEEN]
    assert "lacks SELECT on shop." in line.reason
    # The visible table is equal, and the verdict is not.
    progress = DiffProgress(found)
    progress.planned(A, [])
    assert progress.verdict() == ComparedState.NOT_COMPARED.value


def test_an_upstream_table_without_the_right_to_read_is_named(upstream: SQLServer, cfg: SubTaskConfig) -> None:
    made = finder(replace(cfg, from_=few(upstream, "SELECT ON shop.a", "INSERT ON shop.b")))
    assert set(states(made.find())) == {A, B, UNSEEN}
    error = reason(made, B)
    assert "command denied" in str(error)
    assert not error.retryable


def test_a_target_table_that_is_hidden_is_not_compared(cfg: SubTaskConfig, target: SQLServer) -> None:
    made = finder(replace(cfg, to=few(target, "SELECT ON shop.a")))
    assert states(made.find()) == {A: ComparedState.PENDING, B: ComparedState.PENDING}
    assert isinstance(made.compared([A])[A], ComparedTable)
    assert not reason(made, B).retryable


@pytest.mark.parametrize("side", ["upstream", "target"])
@pytest.mark.parametrize("event", ["dropped", "revoked"])
def test_a_table_that_goes_away_meanwhile_is_named(
    upstream: SQLServer, target: SQLServer, cfg: SubTaskConfig, side: str, event: str
) -> None:
    server = upstream if side == "upstream" else target
    user = few(server, "SELECT ON shop.a", "SELECT ON shop.b", "INSERT ON shop.b")
    made = finder(replace(cfg, from_=user) if side == "upstream" else replace(cfg, to=user))
    assert {A, B} <= set(states(made.find()))
    server.execute("DROP TABLE shop.b" if event == "dropped" else f"REVOKE SELECT ON shop.b FROM {USER}")
    found = made.compared([A, B])
    assert isinstance(found[A], ComparedTable)
    error = found[B]
    assert isinstance(error, DMError)
    assert "b" in error.message
    assert not error.retryable
    if event == "revoked":
        assert error.scope == ("upstream" if side == "upstream" else "downstream")
        assert "denied" in error.message
