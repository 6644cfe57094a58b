"""Hazard: a row without a key is not found in TiDB, one by one or by digests, as a value reads otherwise there."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MySQLServer
from deploy.local.tidb import TiDBServer
from dm_worker.syncer.execution import keyless
from tests.integration.syncer.replay import Replay
from tests.tidb import values_workload


def test_rows_without_a_key_are_exchanged_by_digests(
    mysql_upstream: MySQLServer, tidb: TiDBServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyless, "LEAST_CHANGES", 1)
    made = [table for table in values_workload.tables("mysql") if table.name.startswith("n_")]
    values_workload.create(mysql_upstream, "d", made, target=False)
    values_workload.create(tidb, "d", made, target=True)
    replay = Replay(mysql_upstream, tidb, merges=True)
    values_workload.fill(mysql_upstream, "d", made)
    values_workload.change(mysql_upstream, "d", made)
    replay.catch_up()
    values_workload.change(mysql_upstream, "d", made)
    replay.catch_up()
    assert values_workload.differences(mysql_upstream, tidb, "d", made) == []
    assert replay.exchanged
