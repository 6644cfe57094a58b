"""Hazard: `cutover verify` calls equal what is not, or says a wrong time."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from tests.harness.cutovers import carried_out, ends_cutover, failure, read_only, start
from tests.integration.syncer.support import location

#: A change at the target, the table, the state, and the statement that takes the change back ('' for none).
_CHANGES = [
    ("UPDATE orders SET price = 2 WHERE id = 1", "orders", "different", "UPDATE orders SET price = 1.5 WHERE id = 1"),
    ("INSERT INTO orders (id, name) VALUES (9, 'new')", "orders", "different", "DELETE FROM orders WHERE id = 9"),
    ("UPDATE keyless SET v = 2 WHERE v = 1 LIMIT 1", "keyless", "different",
     "UPDATE keyless SET v = 1 WHERE v = 2 LIMIT 1"),
    ("INSERT INTO keyless VALUES (1)", "keyless", "different", "DELETE FROM keyless WHERE v = 1 LIMIT 1"),
    ("ALTER TABLE gone ADD COLUMN more INT", "gone", "different", "ALTER TABLE gone DROP COLUMN more"),
    ("DROP TABLE gone", "gone", "missing", ""),
]  # fmt: skip


def _wrong(cluster: Cluster, path: str) -> dict[str, tuple[str, str]]:
    """The tables that are not as they were: state, and since when."""
    shown = failure(cluster, "cutover", "verify", path)
    found = re.findall(r"^`app`\.`(\w+)`: (\w[\w ]*?) since (.*)$", shown, re.MULTILINE)
    return {table: (state, since) for table, state, since in found}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["mariadb_upstream", "mysql_upstream"])
def test_each_change_is_named_with_its_time_and_nothing_else(
    free_cluster: Cluster,
    new_mariadb: Callable[..., MariaDBServer],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kind: str,
) -> None:
    upstream: SQLServer = request.getfixturevalue(kind)
    target = new_mariadb()
    start(free_cluster, {"one": upstream}, target)
    upstream.execute(
        "CREATE TABLE app.keyless (v INT)",
        "INSERT INTO app.keyless VALUES (1), (1), (2), (2), (NULL)",
        "CREATE TABLE app.gone (id INT PRIMARY KEY)",
    )
    free_cluster.wait_synced("task")
    with ends_cutover(free_cluster):
        with read_only(upstream):
            path = carried_out(free_cluster, tmp_path)["path"]
        assert "everything is as it was" in free_cluster.dmctl_text("cutover", "verify", path)
        first: dict[str, tuple[int, int]] = {}
        for change, table, state, back in _CHANGES:
            before = location(target).position
            target.execute("USE app", change)
            # The first write counts, also one that was taken back.
            first.setdefault(table, (before.pos, location(target).position.pos))
            wrong = _wrong(free_cluster, path)
            assert {name: one[0] for name, one in wrong.items()} == {table: state}, change
            since = re.search(r"UTC, \(\S+, (\d+)\) of the target's binlog", wrong[table][1])
            assert since is not None, wrong
            assert first[table][0] <= int(since[1]) < first[table][1]
            if back:
                target.execute("USE app", back)
                assert "everything is as it was" in free_cluster.dmctl_text("cutover", "verify", path), back
        target.execute("CREATE TABLE app.gone (id INT PRIMARY KEY)")
        assert "everything is as it was" in free_cluster.dmctl_text("cutover", "verify", path)
        upstream.execute("UPDATE app.orders SET price = 7 WHERE id = 1")
        shown = failure(free_cluster, "cutover", "verify", path)
        assert re.search(r"the upstream has written since the cutover: one", shown)
        assert not _wrong(free_cluster, path)
