"""Hazard: a task taken over from DM copies again, loses or doubles rows when its worker dies in the takeover, or can't
return because DM can no longer read its tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import HarnessError, wait_until
from pkg.binlog.streams.server_position import master_status
from tests.harness.certified import certify, validated
from tests.harness.dm_state.tables import DMState, models

_TABLES = {"moved": "moved", "texts": "texts", "no_key": "no key"}
_SOURCE = """\
enable: true
enable-gtid: false
relay-dir: ""
enable-relay: false
source-id: source-1
server-id: 429532771
from:
  host: 127.0.0.1
  port: {port}
  user: root
  password: ""
purge: {{interval: 3600, expires: 0, remain-space: 1}}
checker: {{check-enable: true, backoff-rollback: 5m0s, backoff-max: 5m0s}}
filters: []
"""
_TASK = """\
name: t
task-mode: all
is-sharding: false
shard-mode: ""
meta-schema: dm_meta
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: "", max-allowed-packet: null, security: null}}
mysql-instances:
- source-id: source-1
  meta: null
  block-allow-list: balist-01
  syncer-config-name: sync-01
  syncer-thread: 0
online-ddl: true
block-allow-list:
  balist-01: {{do-dbs: [d], do-tables: [], ignore-dbs: [], ignore-tables: []}}
syncers:
  sync-01: {{meta-file: "", worker-count: 4, batch: 100, max-retry: 0, safe-mode: false}}
clean-dump-file: true
"""


def _export_of_dm(folder: Path, upstream: MariaDBServer, target: MariaDBServer) -> str:
    for kind, name, text in (("sources", "source-1", _SOURCE), ("tasks", "t", _TASK)):
        (folder / kind).mkdir(parents=True)
        port = upstream.port if kind == "sources" else target.port
        written = text.format(port=port)
        (folder / kind / f"{name}.yaml").write_text(validated(written) if kind == "tasks" else written)
    (folder / "relay_workers.json").write_text('{"source-1":["worker-of-dm"]}')
    return str(folder)


def _left_by_dm(upstream: MariaDBServer, target: MariaDBServer) -> None:
    """DM has copied three tables and stopped during an online change."""
    made = [models()[model][0][0].replace("d.t ", f"d.{table} ") for table, model in _TABLES.items()]
    for server in (upstream, target):
        server.execute("CREATE DATABASE d", *made, "INSERT INTO d.moved VALUES (1, 10, 11, 'one')")
    upstream.execute(
        "CREATE TABLE d._moved_gho LIKE d.moved",
        "ALTER TABLE d._moved_gho ADD COLUMN late INT",
        "INSERT INTO d._moved_gho SELECT *, NULL FROM d.moved",
    )
    conn = upstream.connect()
    here = master_status(conn, "mariadb")
    conn.close()
    assert here is not None
    state = DMState(target)
    state.make_checkpoint()
    state.put_checkpoint(here)
    for table, model in _TABLES.items():
        state.put_table("d", table, here, model)
    state.put_online_change(("d", "_moved_gho"), ("d", "moved"), "ALTER TABLE `d`.`_moved_gho` ADD COLUMN `late` INT")


def _written_since(upstream: MariaDBServer, target: MariaDBServer) -> None:
    upstream.execute(
        "INSERT INTO d.moved VALUES (2, 20, 21, 'two')",
        "INSERT INTO d._moved_gho VALUES (2, 20, 21, 'two', NULL)",
        "RENAME TABLE d.moved TO d._moved_del, d._moved_gho TO d.moved",
        "UPDATE d.moved SET late = 7 WHERE id = 1",
        "ALTER TABLE d.moved MODIFY a INT AFTER b",
        "INSERT INTO d.moved (id, a, b) VALUES (3, 30, 31)",
        "INSERT INTO d.texts (id, a, b, p) VALUES ('k', 'abc', 'ü', 'ä')",
        "INSERT INTO d.no_key VALUES (1, 'x'), (1, 'x')",
    )
    # DM applied this but did not record it.
    target.execute("INSERT INTO d.moved VALUES (2, 20, 21, 'two')")


def _equal(upstream: MariaDBServer, target: MariaDBServer) -> None:
    for table in _TABLES:
        rows = f"SELECT * FROM d.{table} ORDER BY 1"
        assert target.execute(rows) == upstream.execute(rows), table


def _go_back(cluster: Cluster) -> None:
    """Runs the commands of the documentation."""
    with pytest.raises(HarnessError, match="is Running but not paused"):
        cluster.dmctl_text("hand-back", "t", "--yes")
    cluster.ok("pause-task", "t")
    said = cluster.dmctl_text("hand-back", "t")
    assert "DM would continue at" in said
    assert "Nothing was changed" in said
    assert "DM continues at" in cluster.dmctl_text("hand-back", "t", "--yes")
    cluster.ok("stop-task", "t")


def test_a_task_comes_from_dm_goes_back_and_comes_again(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer, tmp_path: Path
) -> None:
    cluster = free_cluster
    _left_by_dm(mariadb_upstream, target)
    _written_since(mariadb_upstream, target)
    folder = _export_of_dm(tmp_path / "configs", mariadb_upstream, target)
    said = cluster.dmctl_text("config", "import", "-d", folder)
    assert "started the relay of source source-1" in said
    assert "succeed" in said
    wait_until(
        lambda: (
            bool(target.execute("SHOW TABLES FROM dm_meta LIKE 't_syncer_taken_over'"))
            and bool(target.execute("SELECT 1 FROM dm_meta.t_syncer_taken_over"))
        ),
        "the takeover has begun",
        60,
    )
    worker = cluster.worker_of("source-1")
    worker.kill()
    worker.start()
    cluster.wait_synced("t")
    _equal(mariadb_upstream, target)
    certify(cluster, "t")
    assert "enable safe-mode for safe mode exit point" in (worker.dir / "dm-worker.log").read_text(), (
        "scripts look for it"
    )
    # The source's own relay uses the server-id now.
    assert cluster.dmctl_text("config", "import", "-d", folder).count("it exists already") == 2
    assert cluster.subtask("t", "source-1")["sync"]["takenOver"].startswith("the checkpoint [position: (mysql-bin.")

    exported = tmp_path / "exported"
    cluster.dmctl_text("config", "export", "-d", str(exported))
    assert set(json.loads((exported / "relay_workers.json").read_text())) == {"source-1"}
    _go_back(cluster)
    left = dict(target.execute("SELECT cp_table, table_info FROM dm_meta.t_syncer_checkpoint"))
    assert left.pop("") == "null"
    assert set(_TABLES) <= {table for table, text in left.items() if json.loads(text)["cols"]} == set(left)

    mariadb_upstream.execute("INSERT INTO d.moved (id, late) VALUES (4, 4)")
    target.execute("INSERT INTO d.moved (id, late) VALUES (4, 4)")
    cluster.ok("start-task", str(Path(folder) / "tasks/t.yaml"))
    cluster.wait_synced("t")
    _equal(mariadb_upstream, target)
    certify(cluster, "t")
