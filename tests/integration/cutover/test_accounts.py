"""Hazard: an account's rights are read wrongly from a kind of server, or the commands do not give them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from deploy.local.mysql import SQLServer
from dm_master.cutover.reading import server_facts
from dm_master.cutover.verdict import Unreadable
from dm_master.inspection.inspected_server import InspectedServer
from tests.harness.accounts import proves_that_the_commands_give_all_rights


@pytest.mark.parametrize(
    ("kind", "other"),
    [("mariadb", "mysql"), ("mysql", "mariadb"), ("mariadb", "mariadb_11_8"), ("mariadb_11_8", "mysql")],
)
def test_the_commands_give_each_account_its_rights(kind: str, other: str, request: pytest.FixtureRequest) -> None:
    source: SQLServer = request.getfixturevalue(f"{kind}_upstream")
    there: SQLServer = request.getfixturevalue(f"{other}_upstream")
    proves_that_the_commands_give_all_rights(source, there)


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_accounts_that_the_user_may_not_read_are_unknown(kind: str, request: pytest.FixtureRequest) -> None:
    source: SQLServer = request.getfixturevalue(f"{kind}_upstream")
    # The list of accounts without their grants is not enough.
    source.execute("CREATE USER blind@'%' IDENTIFIED BY ''", "GRANT SELECT ON mysql.user TO blind@'%'")
    config = replace(source.db_config, user="blind")
    with closing(InspectedServer(config, "upstream")) as inspected:
        found = server_facts("one", inspected, {}, set()).users
    assert isinstance(found, Unreadable)
    assert "SELECT on mysql.*" in found.remedy
