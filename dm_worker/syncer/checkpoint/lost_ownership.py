"""The errors of a run that may not write any more: another run took over, or the target lost its writes. Pure.

The target returns to an earlier state when a replica that lags replaces it, or when it is restored from a backup. Rows
and meta tables are in one server, so they agree, and replication can continue from the checkpoint there. But a run
that does not notice would skip the lost changes. So every transaction checks that the target still has everything
before it.
"""

from __future__ import annotations

from dm_worker.syncer.checkpoint.protocol import Marker
from dm_worker.syncer.planning.batch import WriteToken
from pkg import errors
from pkg.errors import Code, DMError


def may_not_write(table: str, source_id: str, epoch: int, found: int | None) -> DMError:
    """For a run under ``epoch`` whose write did not match its row in ``table``; ``found`` is the epoch there."""
    if found is not None and found > epoch:
        return errors.new(
            Code.SyncerEvent,
            f"epoch {epoch} of source {source_id} may not write any more: {table} has a newer epoch",
            scope="downstream",
            workaround="Another worker took over this subtask; query-status shows which one. Resume the task to take "
            "it over again.",
        )
    return fell_back(table, source_id)


def fell_back(table: str, source_id: str) -> DMError:
    """The target lacks transactions that it had committed."""
    return errors.new(
        Code.SyncerEvent,
        f"the target went back to an earlier state: {table} lacks rows that this run of source {source_id} wrote",
        scope="downstream",
        workaround="Find out why the target lost committed transactions: a failover to a replica that lags behind, a "
        "restored backup, or a manual change of the meta tables. The target's rows and meta tables must be "
        "of the same moment. Then resume the task: it continues from the checkpoint that the target has "
        "now, and applies the lost changes again if the upstream still has their binlog.",
    )


def fenced(table: str, token: WriteToken, marker: Marker) -> DMError:
    """The error of a writer that has lost its right to write."""
    found = f"epoch {marker.epoch}, batch {marker.batch}"
    return errors.new(
        Code.SyncerEvent,
        f"batch {token.number} of epoch {token.epoch} of source {token.source_id} may not write: {table} has {found}",
        scope="downstream",
        workaround="Another worker took over this subtask, or its meta tables were changed. query-status shows which "
        "worker runs it. Resume the task to take it over again.",
    )
