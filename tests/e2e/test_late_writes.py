"""Hazard: a write in the upstream after the cutover is noticed late or not at all: DDL, filtered rows, a relay log, a
transfer, a restart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer
from deploy.local.process import wait_until
from tests.harness.cutovers import INSTANCE, TASK, carried_out, ends_cutover, late_writes, read_only, start

#: The task leaves deletes out.
_FILTERED_TASK = f"{TASK}filters: {{{{no-delete: {{{{schema-pattern: app, events: [delete], action: Ignore}}}}}}}}\n"
_FILTERED_INSTANCE = INSTANCE.replace("}}", ", filter-rules: [no-delete]}}")
#: Seconds in which a write is noticed. A busy machine makes some later: the fastest of several counts.
_NOTICED = 5.0
_TRIES = 5


def _bound(cluster: Cluster) -> str:
    (listed,) = cluster.dmctl("list-member", "--worker")["members"]
    return next((str(one["name"]) for one in listed["worker"]["workers"] if one["source"] == "one"), "")


def _listed(cluster: Cluster, known: int, what: str) -> list[dict[str, Any]]:
    wait_until(lambda: len(late_writes(cluster)) > known, f"{what} is listed", 120, step=0.1)
    return late_writes(cluster)[known:]


def _shown(writes: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return [(one["kind"], one.get("before"), one.get("after"), one.get("statement")) for one in writes]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("reading", ["server", "relay"])
def test_each_kind_of_write_is_noticed_within_five_seconds_and_listed(
    free_cluster: Cluster, mysql_upstream: MySQLServer, target: MariaDBServer, tmp_path: Path, reading: str
) -> None:
    cluster, upstream = free_cluster, mysql_upstream
    start(
        cluster, {"one": upstream}, target, task=_FILTERED_TASK, instance=_FILTERED_INSTANCE, relay=reading == "relay"
    )
    with ends_cutover(cluster):
        with read_only(upstream):
            carried_out(cluster, tmp_path)
        seconds = []
        for number in range(_TRIES):
            upstream.execute(f"UPDATE app.orders SET price = {number + 10} WHERE id = 1")
            began = time.monotonic()
            _listed(cluster, number, "the row")
            seconds.append(time.monotonic() - began)
        print(f"noticed after {', '.join(f'{one:.1f}' for one in seconds)} s")
        assert min(seconds) <= _NOTICED
        upstream.execute("DELETE FROM app.orders WHERE id = 2")
        assert _shown(_listed(cluster, _TRIES, "the row of a filtered event")) == [
            ("delete", {"id": "2", "name": "'b'", "price": "NULL"}, None, None)
        ]
        upstream.execute("ALTER TABLE app.orders ADD COLUMN late INT FIRST")
        assert _shown(_listed(cluster, _TRIES + 1, "the statement")) == [
            ("statement", None, None, "ALTER TABLE app.orders ADD COLUMN late INT FIRST")
        ]
        upstream.execute("INSERT INTO app.orders (late, name) VALUES (7, 'behind it')")
        (row,) = _listed(cluster, _TRIES + 2, "the row behind the statement")
        assert row["after"] == {"late": "7", "id": "500", "name": "'behind it'", "price": "NULL"}
        before = late_writes(cluster)
        _moved(cluster, reading)
        # With the same values, also of the rows from before the statement.
        wait_until(lambda: len(late_writes(cluster)) == len(before), "the writes are listed again", 120)
        assert late_writes(cluster) == before
        upstream.execute("CREATE TABLE app.others (id INT PRIMARY KEY)", "INSERT INTO app.others VALUES (1)")
        wait_until(lambda: len(late_writes(cluster)) == len(before) + 2, "what was written after it is listed", 120)
        assert _shown(late_writes(cluster)[-1:]) == [("insert", None, {"id": "1"}, None)]


def _moved(cluster: Cluster, reading: str) -> None:
    """Another worker has the source, or the same one after a restart."""
    here = _bound(cluster)
    if reading == "server":
        other = next(one.member for one in cluster.workers if one.member != here)
        cluster.ok("transfer-source", "one", other)
        wait_until(lambda: _bound(cluster) == other, "the source is transferred", 60)
        return
    (worker,) = (one for one in cluster.workers if one.member == here)
    worker.kill()
    worker.start()
