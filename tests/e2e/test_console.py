"""Hazard: an operator in a browser cannot do a migration, sees something else than what is, or needs a mouse and eyes.

A real Chromium drives a real cluster. ``DM_TEST_PICTURES=1`` writes the pictures of docs/console.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import ROOT, Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from pkg.settings.password_hash import user_line
from tests.harness.pages import ConsolePages, console_pages

PASSWORD = "correct horse"
SECRET = "battery staple"
PICTURES = ROOT / "docs" / "console"
#: The pages that docs/console.md shows.
SHOWN = {"overview", "new-task", "task", "failed-task", "preview", "rules", "locks", "diff", "cutover", "events"}


@pytest.fixture
def console_cluster(tmp_path: Path) -> Iterator[Cluster]:
    users = tmp_path / "users"
    users.write_text(user_line("anna", PASSWORD) + "\n")
    with Cluster(workers=2, master_extra=f'console-users-path = "{users}"') as cluster:
        yield cluster


class _Tour:
    """Looks at each page on the way: its picture, and what axe says."""

    def __init__(self, pages: ConsolePages) -> None:
        self._pages = pages
        self.found: list[str] = []

    def look(self, name: str) -> None:
        self.found += [f"{name}: {one}" for one in self._pages.violations()]
        if name in SHOWN and os.environ.get("DM_TEST_PICTURES"):
            PICTURES.mkdir(exist_ok=True)
            self._pages.picture(PICTURES / f"{name}.png")


def _shard(server: SQLServer, number: int) -> None:
    server.execute(
        f"CREATE USER dm IDENTIFIED BY '{SECRET}'",
        "GRANT ALL ON *.* TO dm",
        f"CREATE DATABASE shop_{number}",
        f"CREATE TABLE shop_{number}.orders (id INT PRIMARY KEY, amount INT)",
        *(f"INSERT INTO shop_{number}.orders VALUES ({number * 1000 + row}, {row})" for row in range(50)),
    )


def _add_sources(pages: ConsolePages, tour: _Tour, ports: dict[str, int]) -> None:
    for name, port in ports.items():
        pages.open("add-source")
        pages.fill(source=name, host="127.0.0.1", port="1", user="dm", password=SECRET)
        pages.click("#add")
        pages.wait_for("10001: ")  # nothing listens there: the error is shown, and nothing typed is lost
        pages.fill(port=str(port))
        pages.click("#add")
        pages.wait_for(f"Source {name} is added")
    pages.open("sources")
    tour.look("sources")


def _compose(pages: ConsolePages, tour: _Tour, target: SQLServer) -> None:
    pages.open("add-task")
    pages.fill(name="orders", host="127.0.0.1", port=str(target.port), user="root", tables="shop_*")
    pages.fill(shard_mode="pessimistic", routes="nonsense")
    pages.click("#source-1")
    pages.click("#source-2")
    pages.click("#check")
    pages.wait_for("'nonsense' is not like")
    pages.fill(routes="shop_*.orders > shop.orders\nshop_* > shop")
    pages.click("#check")
    pages.wait_for(" checks: ")
    tour.look("new-task")
    pages.click("#start")
    pages.wait_for("Task orders runs")


def _pass_a_lock(pages: ConsolePages, tour: _Tour, first: SQLServer, second: SQLServer) -> None:
    first.execute("ALTER TABLE shop_1.orders ADD COLUMN note INT", "INSERT INTO shop_1.orders VALUES (1900, 1, 1)")
    pages.open("locks")
    pages.wait_for("Have not sent it")
    tour.look("locks")
    pages.follow("Unlock: do not wait for the others")
    pages.confirm()
    pages.open("locks")
    pages.wait_for("This DDL is executed.")
    assert "Unlock" not in pages.text
    second.execute("ALTER TABLE shop_2.orders ADD COLUMN note INT")
    pages.wait_for("No DDL waits for other shards.")


def _fail_and_resume(pages: ConsolePages, tour: _Tour, first: SQLServer, target: SQLServer) -> None:
    """Somebody renames the target's table: the page says what happened, and has the button for it."""
    target.execute("RENAME TABLE shop.orders TO shop.orders_old")
    first.execute("INSERT INTO shop_1.orders VALUES (1901, 2, 2)")
    pages.open("task?name=orders")
    pages.wait_for("What to do:")
    assert "orders" in pages.text
    tour.look("failed-task")
    target.execute("RENAME TABLE shop.orders_old TO shop.orders")
    pages.follow("Resume")
    pages.confirm()
    pages.open("task?name=orders")
    # The other source is in step all the time.
    row = "SELECT amount FROM shop.orders WHERE id = 1901"
    wait_until(lambda: target.execute(row) == [(2,)], "the row is there", WAIT_TIMEOUT)
    pages.wait_for("in step with the upstream")


def _disable_and_enable(pages: ConsolePages, tour: _Tour) -> None:
    """The tasks of a disabled source stop and stay; they start again with it."""
    pages.open("sources")
    pages.follow("Disable")
    pages.confirm()
    pages.follow("Back")
    pages.wait_for("disabled")
    tour.look("disabled source")
    pages.open("task?name=orders")
    pages.wait_for("Stopped: it is kept")
    pages.open("sources")
    pages.follow("Enable")
    pages.confirm()


@pytest.fixture
def shards(mariadb_upstream: MariaDBServer, mysql_upstream: SQLServer) -> Iterator[tuple[SQLServer, SQLServer]]:
    """Both upstreams, which other tests use after this one: the user does not stay there."""
    servers = mariadb_upstream, mysql_upstream
    for number, server in enumerate(servers, 1):
        _shard(server, number)
    yield servers
    for server in servers:
        server.execute("DROP USER dm")


@pytest.mark.timeout(1100)
def test_a_whole_migration_in_a_browser(
    console_cluster: Cluster, shards: tuple[SQLServer, SQLServer], target: SQLServer
) -> None:
    first, second = shards
    with console_pages(console_cluster.master.address) as pages:
        tour = _Tour(pages)
        pages.open("")
        pages.wait_for("No task yet")
        pages.open("login")
        tour.look("login")
        pages.fill(user="anna", password=PASSWORD)
        pages.click("main button")
        pages.wait_for("No task yet")
        _add_sources(pages, tour, {"one": first.port, "two": second.port})
        _compose(pages, tour, target)

        # The page follows by itself.
        pages.open("task?name=orders")
        pages.wait_for("Running · Sync")
        pages.wait_for("in step with the upstream")
        console_cluster.wait_stage("orders", "Running", unit="Sync")
        assert target.execute("SELECT COUNT(*) FROM shop.orders") == [(100,)]

        pages.follow("Pause")
        tour.look("preview")
        pages.confirm()
        assert "done" in pages.text
        pages.open("task?name=orders")
        pages.wait_for("Paused on request.")
        console_cluster.wait_stage("orders", "Paused")
        pages.follow("Resume")
        pages.confirm()
        console_cluster.wait_stage("orders", "Running", unit="Sync")

        _pass_a_lock(pages, tour, first, second)
        pages.open("task?name=orders")
        pages.wait_for("in step with the upstream")
        tour.look("task")
        row = "SELECT note FROM shop.orders WHERE id = 1900"
        wait_until(lambda: target.execute(row) == [(1,)], "the row is there", WAIT_TIMEOUT)
        _fail_and_resume(pages, tour, first, target)

        pages.open("rules?task=orders")
        pages.wait_for("merged from 2 tables")
        tour.look("rules")
        pages.open("checks?task=orders")
        pages.follow("Compare now")
        pages.confirm()
        pages.open("checks?task=orders")
        pages.wait_reloading("102 rows")
        pages.wait_reloading("equal")
        tour.look("diff")
        pages.open("cutover?task=orders")
        pages.wait_for("read_only is OFF")
        tour.look("cutover")

        _disable_and_enable(pages, tour)
        console_cluster.wait_stage("orders", "Running", unit="Sync")

        pages.open("events")
        pages.wait_for("Pause task orders on all of its sources")
        assert "console: anna" in pages.text
        tour.look("events")
        for page in ("overview", "members", "config?kind=source&name=one"):
            pages.open(page)
            tour.look(page.partition("?")[0])
        assert "password: '******'" in pages.text
        assert SECRET not in pages.driver.page_source
        pages.open("task?name=orders")
        pages.follow("Stop")
        pages.confirm()
        pages.open("overview")
        pages.wait_for("No task yet")
        assert tour.found == []
        # A refused request is noted by the browser; a violated policy would be, too.
        assert not [one for one in pages.complaints() if " 403 " not in one and " 422 " not in one]
