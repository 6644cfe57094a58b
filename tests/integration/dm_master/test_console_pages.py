"""Hazard: a page that needs a mouse or good eyes, that its own policy breaks, or that does not follow the cluster.

A real Chromium shows the console of a canned cluster. tests/e2e/test_console.py makes the pictures of docs/console.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from google.protobuf.message import Message

from dm_master.console.app import add_console
from dm_master.service.event_log import EventLog
from pkg.ha.records import OperatorEvent
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes, PortServer
from pkg.settings.password_hash import user_line
from tests.harness.canned_cluster import CannedCluster, rules, small_cluster
from tests.harness.pages import ConsolePages, console_pages

PASSWORD = "correct horse"
PAGES = {
    "overview": "",
    "task": "task?name=orders",
    "failed-task": "task?name=invoices",
    "copy": "task?name=catalogue",
    "sources": "sources",
    "locks": "locks",
    "members": "members",
    "rules": "rules?task=orders",
    "checks": "checks?task=orders",
    "cutover": "cutover?task=orders",
    "config": "config?kind=task&name=orders",
    "events": "events",
    "preview": "confirm?do=stop&task=orders",
    "clear": "confirm?do=clear-error&task=orders&error=7",
    "disable": "confirm?do=disable-source&source=eu-shop-1",
    "remove": "confirm?do=remove-worker&worker=worker9",
    "new-source": "add-source",
    "new-task": "add-task",
    "purge": "purge?source=eu-shop-1",
    "move": "move?source=eu-shop-2",
    "missing": "nope",
}


EVENTS = [
    OperatorEvent(
        "2026-11-26T06:10:00Z", "console: anna", "Pause task orders on all of its sources", "dmctl pause-task orders",
        "done", "",
    ),
    OperatorEvent(
        "2026-11-26T06:09:00Z", "OpenAPI", "Move source eu-shop-1 to worker worker2",
        "dmctl transfer-source eu-shop-1 worker2", "failed", "[code=46010] worker2 serves eu-shop-2",
    ),
]  # fmt: skip


def _answers() -> dict[str, Message]:
    checks = [
        pb.CutoverCheck(name="replication", verdict="yes", evidence=["2 subtasks run in unit Sync"]),
        pb.CutoverCheck(
            name="read-only",
            verdict="no",
            evidence=["eu-shop-1: read_only is OFF", "eu-shop-2: read_only is OFF"],
            remedy="SET GLOBAL read_only = 1",
        ),
        pb.CutoverCheck(name="validator", verdict="unknown", evidence=["no validator runs"], remedy="start one"),
    ]
    tables = [
        worker_pb.DiffTableStatus(target="`shop`.`orders`", state="equal", rows=1_200_000, chunks=12, chunksDone=12),
        worker_pb.DiffTableStatus(
            target="`shop`.`items`", state="different", rows=900, chunks=1, chunksDone=1, missing=2, firstKeys=["id=7"]
        ),
    ]
    source = worker_pb.DiffSourceStatus(source="eu-shop-1", stage="Finished", rows=1_200_900, tables=tables)
    validator = worker_pb.ValidationStatus(
        task="orders", source="eu-shop-1", mode="full", stage=worker_pb.Running,
        validatorBinlog="(mysql-bin.000012, 48210)", processedRowsStatus="insert/update/delete: 9120/310/12",
        pendingRowsStatus="insert/update/delete: 3/0/0", errorRowsStatus="new/ignored/resolved: 1/1/0",
    )  # fmt: skip
    found = [
        worker_pb.ValidationError(
            id=number, source="eu-shop-1", srcTable="`shop`.`orders`", dstTable="`shop`.`orders`", status=state,
            errorType="Column data not matched", srcData='{"id": "7", "note": "two pairs"}',
            dstData='{"id": "7", "note": null}', message="found 2 times", time="2026-11-26T06:10:00Z",
        )
        for number, state in (("7", worker_pb.NewErr), ("3", worker_pb.IgnoredErr))
    ]  # fmt: skip
    return {
        "GetValidationStatus": worker_pb.GetValidationStatusResponse(result=True, validators=[validator]),
        "GetValidationError": worker_pb.GetValidationErrorResponse(result=True, error=found),
        "GetCfg": pb.GetCfgResponse(result=True, cfg="name: orders\ntask-mode: all\n"),
        "ShowRules": rules(12, 4),
        "CheckCutover": pb.CheckCutoverResponse(msg="not ready: read-only, validator", checks=checks),
        "OperateDiff": pb.OperateDiffResponse(result=True, verdict="different", sources=[source]),
    }


@pytest.fixture
def cluster() -> CannedCluster:
    cluster = small_cluster()
    cluster.answers |= _answers()
    masters = next(one.master for one in cluster.members.members if one.WhichOneof("member") == "master")
    masters.masters.add(name="master2", memberID=2, clientURLs=["http://127.0.0.1:9262"])
    cluster.members.members[-1].worker.workers.add(name="worker9", addr="127.0.0.1:8279", stage="offline")
    return cluster


@pytest.fixture
def pages(cluster: CannedCluster, tmp_path: Path) -> Iterator[ConsolePages]:
    """A browser whose user has logged in."""
    users = tmp_path / "users"
    users.write_text(user_line("anna", PASSWORD) + "\n")
    routes = HttpRoutes(status=lambda: "", metrics=Metrics(), ready=lambda: True)
    events = cast(EventLog, SimpleNamespace(latest=lambda: list(EVENTS)))
    add_console(routes, cluster.call, str(users), lambda: events, interval=0.5)
    server = PortServer("127.0.0.1", 0, lambda _: None, routes)
    server.start()
    try:
        with console_pages(f"127.0.0.1:{server.port}") as pages:
            pages.open("login")
            assert pages.violations() == []
            pages.fill(user="anna", password=PASSWORD)
            pages.click("main button")
            pages.wait_for("All tasks")
            yield pages
    finally:
        server.stop(0)


@pytest.mark.timeout(600)
def test_axe_finds_nothing_on_any_page_in_both_themes(pages: ConsolePages) -> None:
    found = []
    for name, address in PAGES.items():
        pages.open(address)
        found += [f"{name}: {one}" for one in pages.violations()]
    assert found == []
    # The policy of the pages is violated by nothing of theirs.
    assert not [one for one in pages.complaints() if "nope" not in one]


def test_no_page_is_wider_than_a_phone(pages: ConsolePages) -> None:
    pages.driver.set_window_size(390, 800)
    for name, address in PAGES.items():
        pages.open(address)
        wide = pages.driver.execute_script(
            "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        assert not wide, name


def test_no_table_scrolls_sideways_on_a_phone(pages: ConsolePages) -> None:
    pages.driver.set_window_size(390, 800)
    for name, address in PAGES.items():
        pages.open(address)
        wide = pages.driver.execute_script(
            """document.querySelectorAll("details").forEach((one) => { one.open = true; });
            const wide = (one) => one.scrollWidth > one.clientWidth;
            return [...document.querySelectorAll(".scroll")].filter(wide).map((one) => one.ariaLabel);"""
        )
        assert wide == [], name


def test_the_bar_covers_no_field_that_gets_the_focus(pages: ConsolePages) -> None:
    for width in (1280, 390):
        pages.driver.set_window_size(width, 500)
        pages.open("add-task")
        covered = pages.driver.execute_script(
            """const fields = [...document.querySelectorAll("main input:not([type=hidden]), main select, main button")];
            const covered = (one) => {
              one.focus();
              const box = one.getBoundingClientRect();
              return !one.contains(document.elementFromPoint(box.left + box.width / 2, box.top + 3));
            };
            return fields.reverse().filter(covered).map((one) => one.id);"""
        )
        assert covered == [], width


def test_a_page_follows_the_cluster_and_a_button_acts(pages: ConsolePages, cluster: CannedCluster) -> None:
    pages.open("task?name=orders")
    pages.wait_for("live")
    for source in cluster.status.sources[:2]:
        source.subTaskStatus[0].stage = worker_pb.Paused
        source.subTaskStatus[0].result.isCanceled = True
    pages.wait_for("Paused on request.")
    pages.follow("Resume")
    assert cluster.calls["OperateTask"] == 0
    pages.confirm()
    (request,) = [request for method, request in cluster.requests if method == "OperateTask"]
    assert (request.op, request.name) == (worker_pb.Resume, "orders")


@pytest.mark.parametrize(
    ("page", "button", "method", "sent"),
    [
        (
            "checks?task=orders",
            "do=ignore-error&task=orders&error=7",
            "OperateValidationError",
            worker_pb.OperateValidationErrorRequest(op=worker_pb.IgnoreErrOp, taskName="orders", errId=7),
        ),
        (
            "members",
            "do=remove-worker&worker=worker9",
            "OfflineMember",
            pb.OfflineMemberRequest(type="worker", name="worker9"),
        ),
        (
            "sources",
            "do=disable-source&source=us-shop-1",
            "OperateSource",
            pb.OperateSourceRequest(op=pb.DisableSource, sourceID=["us-shop-1"]),
        ),
    ],
    ids=["difference", "member", "source"],
)
def test_a_button_leads_to_its_preview_which_sends_the_request(
    pages: ConsolePages, cluster: CannedCluster, page: str, button: str, method: str, sent: Message
) -> None:
    pages.open(page)
    pages.wait_for("live" if page != "checks?task=orders" else "Rows that differ")
    pages.click(f"a[href$='{button}']")
    pages.wait_for("The same on the command line")
    assert cluster.calls[method] == 0
    pages.confirm()
    assert [request for name, request in cluster.requests if name == method] == [sent]
    assert pages.violations() == []
    pages.follow("Back")
    pages.wait_for("Rows that differ" if page == "checks?task=orders" else "worker")


def test_a_form_keeps_what_was_typed_while_it_is_checked(pages: ConsolePages, cluster: CannedCluster) -> None:
    pages.open("add-task")
    pages.fill(name="t", host="h", user="u", password="p", routes="nonsense")
    pages.click("#check")
    pages.wait_for("'nonsense' is not like")
    pages.fill(routes="a > b")
    pages.click("#check")
    pages.wait_for("All checks passed.")
    (checked,) = [request for method, request in cluster.requests if method == "CheckTask"]
    assert "password: p\n" in checked.task
    pages.click("#start")
    pages.wait_for("Task t runs")
