"""Hazard: rows that conflict by another key than their own are written by two writers, in either order.

Random transactions on a real server; its binlog is applied by parallel writers; source and target must be equal."""

from __future__ import annotations

import os
import random
from types import ModuleType

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.syncer.execution import row_block
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.rows.table_plan import COMPACT, ORDERED
from tests.compiled import kernels
from tests.integration.syncer.conflict_workload import CI, FAMILY, SEED, Table, family_change, transactions
from tests.integration.syncer.replay import Replay, placed
from tests.integration.syncer.support import assert_equal

ROUNDS = int(os.environ.get("DM_TEST_ROUNDS", "8"))
#: Both ways to decode and place rows must hold.
KERNELS = kernels()

LATIN = "CHARACTER SET latin1 COLLATE latin1_swedish_ci"


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: "python" if kernel is None else "native")
def test_parallel_writers_end_where_the_source_is(
    mariadb_upstream: SQLServer, target: SQLServer, kernel: ModuleType | None
) -> None:
    seed = 2 * SEED + (kernel is None)
    chance = random.Random(seed)
    tables = [Table(chance, f"t{n}") for n in range(6)]
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", *[table.create for table in tables])
    replay = Replay(mariadb_upstream, target, seed=seed, kernel=kernel)
    conn = mariadb_upstream.connect(autocommit=False)
    for _ in range(ROUNDS):
        transactions(conn, chance, 15, lambda: chance.choice(tables).change(conn))
        batches = replay.catch_up()
        assert len(batches[0].slices) > 1
        assert_equal(mariadb_upstream, target, *[f"d.{table.name}" for table in tables])
    conn.close()


@pytest.mark.parametrize("acts", [False, True], ids=["restrict", "cascade"])
def test_children_and_parents_keep_their_order_while_the_target_checks(
    mariadb_upstream: SQLServer, target: SQLServer, acts: bool
) -> None:
    chance = random.Random(SEED)
    tables = [sql.replace("(id))", "(id) ON DELETE CASCADE ON UPDATE CASCADE)") if acts else sql for sql in FAMILY]
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", *tables)
    replay = Replay(mariadb_upstream, target, seed=SEED, foreign_keys=True)
    conn = mariadb_upstream.connect(autocommit=False)
    for _ in range(ROUNDS):
        transactions(conn, chance, 30, lambda: family_change(conn, chance))
        for batch in replay.catch_up():
            for plan in batch.plans.values():
                other = plan.target[1] == "other"
                assert (plan.spread, plan.mode) == ((True, COMPACT) if other else (not acts, ORDERED))
        assert_equal(mariadb_upstream, target, "d.p", "d.c", "d.other")
    assert mariadb_upstream.execute("SELECT COUNT(*) FROM d.c WHERE p IS NOT NULL")[0][0] > 0
    assert replay.reordered > replay.refused if acts else not replay.reordered
    conn.close()


def test_rows_that_do_not_conflict_are_spread_and_nobody_else_waits(
    mariadb_upstream: SQLServer, target: SQLServer
) -> None:
    create = f"CREATE TABLE d.t (id INT PRIMARY KEY, mail VARCHAR(40) {CI}, n INT, UNIQUE KEY (mail), UNIQUE KEY (n))"
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", create)
    replay = Replay(mariadb_upstream, target)
    rows = ", ".join(f"({n}, 'Mail{n}@example.com', {n})" for n in range(400))
    mariadb_upstream.execute(f"INSERT INTO d.t VALUES {rows}")
    (batch,) = replay.catch_up()
    first = {bucket: rows_of(batch, bucket) for bucket in range(8)}
    assert all(30 < len(found) < 70 for found in first.values()), {b: len(found) for b, found in first.items()}
    # Three rows swap their values, the others change what conflicts with nothing.
    swap = [f"UPDATE d.t SET n = {value} WHERE id = {row}" for row, value in ((1, -1), (2, 1), (3, 2), (1, 3))]
    mariadb_upstream.execute(
        "UPDATE d.t SET mail = UPPER(mail) WHERE id > 300", "UPDATE d.t SET n = n + 1000 WHERE id > 200", *swap
    )
    (batch,) = replay.catch_up()
    second = {bucket: rows_of(batch, bucket) for bucket in range(8)}
    assert len({bucket for bucket, found in second.items() if found & {b"1", b"2", b"3"}}) == 1
    for bucket, found in second.items():
        assert found - {b"1", b"2", b"3"} <= first[bucket], "a row without a conflict moved"
    assert_equal(mariadb_upstream, target, "d.t")


def rows_of(batch: Batch, bucket: int) -> set[bytes]:
    """The keys of a bucket's rows."""
    blocks = placed(batch, 8).get(bucket, [])
    return {key for _, data in blocks for _, states, _ in row_block.sections(data) for key, *_ in states}


def test_a_chain_of_values_moves_on_in_one_statement(mariadb_upstream: SQLServer, target: SQLServer) -> None:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, u INT, UNIQUE KEY (u))")
    rows = ", ".join(f"({n}, {n})" for n in range(300))
    replay = Replay(mariadb_upstream, target)
    mariadb_upstream.execute(f"INSERT INTO d.t VALUES {rows}")
    replay.catch_up()
    mariadb_upstream.execute("UPDATE d.t SET u = u + 1 ORDER BY u DESC", "UPDATE d.t SET id = id - 1 ORDER BY id")
    replay.catch_up()
    assert_equal(mariadb_upstream, target, "d.t")


def test_columns_that_only_the_target_has_survive_swaps(mariadb_upstream: SQLServer, target: SQLServer) -> None:
    create = "CREATE TABLE d.t (id INT PRIMARY KEY, u INT, v INT, {}UNIQUE KEY (u))"
    mariadb_upstream.execute("CREATE DATABASE d", create.format(""))
    target.execute("CREATE DATABASE d", create.format("extra INT DEFAULT 7, "))
    replay = Replay(mariadb_upstream, target)
    mariadb_upstream.execute("INSERT INTO d.t VALUES " + ", ".join(f"({n}, {n}, 0)" for n in range(40)))
    replay.catch_up()
    target.execute("UPDATE d.t SET extra = id")
    mariadb_upstream.execute(
        "UPDATE d.t SET u = u + 1 ORDER BY u DESC",
        "UPDATE d.t SET v = 1",
        "UPDATE d.t SET id = id + 1 ORDER BY id DESC",
    )
    replay.catch_up()
    expected = [(n + 1, n + 1, 1, n) for n in range(40)]
    assert list(target.execute("SELECT id, u, v, extra FROM d.t ORDER BY id")) == expected
