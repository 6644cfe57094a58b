"""A release that was never tried must be warned about, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.mysql import MARIADB_VERSIONS, MYSQL_VERSIONS
from dm_master.precheck.server_checks import TRIED, version_findings
from pkg.mysql.introspect import ServerInfo


def _server(flavor: str, *version: int) -> ServerInfo:
    major, minor, patch = version
    return ServerInfo(flavor, (major, minor, patch), f"{major}.{minor}.{patch}-log", 1, "", True)


@pytest.mark.parametrize(
    "server",
    [
        *(_server("mysql", *version) for version in ((5, 6, 24), (5, 7, 44), (8, 0, 36), (8, 4, 2), (9, 7, 1))),
        *(_server("mariadb", *version) for version in ((10, 11, 6), (11, 8, 6))),
    ],
)
def test_a_series_that_was_tried_is_not_warned_about(server: ServerInfo) -> None:
    assert version_findings(server) == []


@pytest.mark.parametrize(
    "server",
    [
        *(_server("mysql", *version) for version in ((8, 3, 0), (9, 1, 0), (5, 5, 8), (11, 8, 6))),
        *(_server("mariadb", *version) for version in ((11, 4, 5), (10, 6, 1), (12, 1, 1))),
    ],
)
def test_every_other_series_is_warned_about_with_what_was_tried(server: ServerInfo) -> None:
    """MariaDB 11.4, whose events are of another form, counted as tested because it lay between two others."""
    (finding,) = version_findings(server)
    assert finding.severity == "warn"
    for text in (server.version_text, "MySQL 5.6.24, 5.7.22, 8.0.12, 8.0.46, 8.4.8, 9.7.4", "MariaDB 10.11, 11.8.6"):
        assert text in finding.message
    assert finding.instruction


def test_the_releases_that_were_tried_are_those_of_the_tests() -> None:
    assert {f"{major}.{minor}" for major, minor in TRIED["mysql"]} == {name.split("-")[0] for name in MYSQL_VERSIONS}
    assert {"11.8"} == set(MARIADB_VERSIONS) - {""}
    documented = (Path(__file__).parents[4] / "docs" / "servers.md").read_text()
    for name, flavor in (("MySQL", "mysql"), ("MariaDB", "mariadb")):
        for release in ", ".join(TRIED[flavor].values()).split(", "):
            assert f"| {name} {release} |" in documented
