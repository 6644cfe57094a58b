"""Hazard: an operator's order is refused because the target was away earlier."""

from __future__ import annotations

from deploy.local.mysql import SQLServer
from dm_worker.validator.store import Progress, ValidatorStore
from pkg.binlog.position import Location, Position
from tests.integration.syncer.support import subtask

_OTHERS = "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND COMMAND = 'Sleep'"


def _connections(server: SQLServer) -> set[int]:
    return {int(number) for (number,) in server.execute(_OTHERS)}


def test_a_connection_that_was_lost_while_it_was_idle_is_opened_again(
    mariadb_upstream: SQLServer, target: SQLServer
) -> None:
    progress = Progress(Location(Position("bin.000001", 4)), (1, 2, 3))
    store = ValidatorStore(subtask(mariadb_upstream, target))
    before = _connections(target)
    store.prepare()
    try:
        (own,) = _connections(target) - before
        target.execute(f"KILL {own}")
        store.write(progress, (), (), ())
        assert store.progress() == progress
    finally:
        store.close()
