"""The position of a snapshot is exact while many sessions commit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.diff.upstream_snapshot import UpstreamKind, open_upstream_snapshot
from dm_worker.table_reads.session import open_session
from pkg.binlog.position import Location
from pkg.mysql.introspect import query

SNAPSHOTS = 50
WRITERS = 4


@contextmanager
def writers(server: SQLServer, pause: float) -> Iterator[None]:
    """Sessions that insert one row in each transaction, into the table ``snap.t``."""
    stop = threading.Event()

    def write() -> None:
        conn = server.connect(autocommit=True)
        while not stop.wait(pause):
            query(conn, "INSERT INTO snap.t (v) VALUES (1)")
        conn.close()

    threads = [threading.Thread(target=write) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def committed(server: SQLServer, place: Location) -> int:
    """How many rows the transactions before ``place`` inserted, as the binlog tells."""
    events = server.execute(f"SHOW BINLOG EVENTS IN '{place.position.name}'")
    return sum(1 for row in events if row[2].lower().startswith("write_rows") and row[4] <= place.position.pos)


@pytest.mark.parametrize(
    ("name", "lock", "pause"),
    [("mariadb", False, 0.001), ("mysql", False, 0.02), ("mysql", True, 0.001), ("mariadb", True, 0.001)],
)
def test_a_snapshot_has_the_rows_before_its_position(
    name: str, lock: bool, pause: float, request: pytest.FixtureRequest
) -> None:
    server: SQLServer = request.getfixturevalue(f"{name}_upstream")
    server.execute(
        "CREATE DATABASE snap", "CREATE TABLE snap.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)", "FLUSH BINARY LOGS"
    )
    cfg = server.db_config
    conn = open_session(cfg)
    seen: list[tuple[Location, int]] = []
    try:
        with writers(server, pause):
            # Many snapshots fit between two commits.
            while len({rows for _, rows in seen}) < SNAPSHOTS:
                place = open_upstream_snapshot(conn, UpstreamKind(name, lock), lambda: open_session(cfg))
                seen.append((place, query(conn, "SELECT COUNT(*) FROM snap.t")[0][0]))
                conn.query("ROLLBACK")
    finally:
        conn.close()
    # MySQL without a lock may show fewer rows than its position includes: GTIDs tell, see below.
    wrong = [(place, rows) for place, rows in seen if committed(server, place) != rows]
    if name == "mysql" and not lock:
        wrong = [(place, rows) for place, rows in wrong if gtids(place) != rows + before(server)]
    assert not wrong


def gtids(place: Location) -> int:
    """The number of the last transaction of the set."""
    return int(place.gtid_set.rpartition("-")[2].rpartition(":")[2])


def before(server: SQLServer) -> int:
    """The number of the last transaction before the table's first row."""
    rows = server.execute("SELECT COUNT(*) FROM snap.t")[0][0]
    return int(server.execute("SELECT @@GLOBAL.gtid_executed")[0][0].rpartition("-")[2]) - int(rows)
