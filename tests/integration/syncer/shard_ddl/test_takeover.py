"""Hazard: shard DDL that DM left in the middle is lost, runs twice, or keeps rows back forever."""

from __future__ import annotations

from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.engine.engine import SparkEngine
from pkg.errors import Code
from tests.harness.dm_state.tables import DMState, models
from tests.integration.syncer.one_source import OneSource
from tests.integration.syncer.shard_ddl.support import merged, merging, wait_settled
from tests.integration.syncer.support import location, running

_DDL = "ALTER TABLE `m`.`t` ADD COLUMN `n` INT"


def _shards(upstream: MariaDBServer, target: MariaDBServer) -> None:
    (made,) = models()["shard"][0]
    upstream.execute("CREATE DATABASE d", *(made.replace("d.t", f"d.{name}") for name in ("t1", "t2")))
    target.execute("CREATE DATABASE m", made.replace("d.t", "m.t"))


def _blocked(upstream: MariaDBServer, target: MariaDBServer, *, active: int) -> None:
    """The first shard has run the DDL and DM holds its rows back; the second has not, and its rows are applied."""
    upstream.execute("INSERT INTO d.t1 VALUES (1, 10)", "INSERT INTO d.t2 VALUES (2, 20)")
    target.execute("INSERT INTO m.t VALUES (1, 10), (2, 20)")
    here, state = location(upstream), DMState(target)
    upstream.execute("ALTER TABLE d.t1 ADD COLUMN n INT", "INSERT INTO d.t1 VALUES (3, 30, 3)")
    upstream.execute("INSERT INTO d.t2 VALUES (4, 40)")
    target.execute("INSERT INTO m.t VALUES (4, 40)")
    state.make_checkpoint()
    state.put_checkpoint(here)
    state.put_table("d", "t1", location(upstream), "shard altered")
    state.put_table("d", "t2", location(upstream), "shard")
    state.put_shard_group("`m`.`t`", here, [_DDL], ["`d`.`t1`"], active=active)


def test_a_ddl_that_dm_has_not_executed_starts_over(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    _shards(mariadb_upstream, target)
    cfg = merging(mariadb_upstream, target, meta=None)
    _blocked(mariadb_upstream, target, active=0)
    lock_service = OneSource()
    with running(cfg, spark, lock_service=lock_service) as run:
        mariadb_upstream.execute("ALTER TABLE d.t2 ADD COLUMN n INT", "INSERT INTO d.t2 VALUES (5, 50, 5)")
        wait_until(lambda: lock_service.confirmed == 1, "the DDL is settled", WAIT_TIMEOUT)
        wait_settled(run, lock_service, mariadb_upstream)
        taken = run.unit.status().takenOver
        assert "`m`.`t`" in taken
        assert "`d`.`t1`" in taken
        run.stop()
    assert merged(target, "m.t") == merged(mariadb_upstream, "d.t1 d.t2")
    assert lock_service.granted == [(_DDL,)]
    # A later run reads its own records alone.
    with running(cfg, spark, lock_service=lock_service) as run:
        mariadb_upstream.execute("INSERT INTO d.t1 VALUES (6, 60, 6)")
        run.wait_synced(mariadb_upstream)
    assert merged(target, "m.t") == merged(mariadb_upstream, "d.t1 d.t2")


def test_a_ddl_that_dm_executed_in_part_is_refused_and_nothing_changes(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    _shards(mariadb_upstream, target)
    cfg = merging(mariadb_upstream, target, meta=None)
    _blocked(mariadb_upstream, target, active=1)
    tables = ("syncer_checkpoint", "syncer_sharding_meta")
    before = [target.execute(f"SELECT * FROM dm_meta.t_{table} ORDER BY 1, 2, 3") for table in tables]
    with running(cfg, spark, lock_service=OneSource()) as run:
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SyncUnitInvalidShardMeta
    assert "shard-ddl-lock" in error.workaround
    assert [target.execute(f"SELECT * FROM dm_meta.t_{table} ORDER BY 1, 2, 3") for table in tables] == before
