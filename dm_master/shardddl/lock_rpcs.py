"""ShowDDLLocks and UnlockDDLLock."""

from __future__ import annotations

from collections.abc import Sequence

from dm_master.shardddl import lock_answers, lock_errors
from dm_master.shardddl.lock_answers import LockView
from dm_master.shardddl.lock_coordinator import LockCoordinator
from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from dm_master.shardddl.pessimistic.lock_views import view
from dm_master.workers.source_workers import ClusterView, ask_statuses
from dm_master.workers.stage_wait import error_text
from pkg import errors
from pkg.errors import Code
from pkg.ha.shard_ddl_steps import LockId
from pkg.pb import dmmaster_pb2 as pb

#: DM's limit: seconds to wait for an order before the answer says how far it is.
UNLOCK_WAIT = 10.0
#: Seconds to wait for a worker's status, with its held rows and its error.
STATUS_WAIT = 3.0


class ShardDDLService:
    def __init__(self, locks: LockCoordinator[LockRegistry], cluster: ClusterView) -> None:
        self._locks = locks
        self._cluster = cluster

    def show_locks(self, request: pb.ShowDDLLocksRequest) -> pb.ShowDDLLocksResponse:
        """The locks of the requested task and sources, with the rows that their workers hold back."""
        term = self._locks.term()
        refused = term.refusals()

        def look(locks: LockRegistry) -> tuple[list[LockView], dict[str, str]]:
            chosen = locks.all(request.task, request.sources)
            return [view(locks, lock, refused.get(lock.id)) for lock in chosen], dict(locks.damaged())

        views, damaged = term.read(look)
        return lock_answers.answer(self._with_held_rows(views), damaged)

    def _with_held_rows(self, views: Sequence[LockView]) -> list[LockView]:
        sources = sorted({source for one in views for source in (*one.synced, *one.unsynced)})
        statuses = ask_statuses(self._cluster, sources, "", STATUS_WAIT)
        return [lock_answers.with_held_rows(one, statuses) for one in views]

    def unlock(self, request: pb.UnlockDDLLockRequest) -> pb.UnlockDDLLockResponse:
        """Stores an operator's order and waits for its result.

        Raises 38019, 38020, 38022, 38041 or 42502 for a refused order; 38024 or 38025 for one that is stored but not
        carried out yet.
        """
        # request.sources has no meaning for a pessimistic lock; DM accepts it.
        if request.database or request.table:
            raise errors.new(
                Code.MasterInvalidOperateOp,
                "a lock of pessimistic mode is unlocked as a whole, not for a single upstream table",
                workaround="Leave out -d and -t. `--owner` names the source that executes.",
            )
        order = lock_answers.order_of(request)
        term = self._locks.term()
        lock_id, revision = term.order(request.ID, order)
        if order.force_remove and not order.owner:
            text = f"lock {lock_id} is removed; sources that still wait report again and make a new one"
            return pb.UnlockDDLLockResponse(result=True, msg=text)
        outcome = term.wait_order(lock_id, revision, UNLOCK_WAIT)
        if outcome is not None and outcome.executing:
            cause = self._cause(lock_id, outcome.executing)
            raise lock_errors.not_executed(lock_id, ", ".join(outcome.executing), UNLOCK_WAIT, cause)
        if outcome is not None and outcome.skipping:
            raise lock_errors.not_skipped(
                lock_id, outcome.skipping, UNLOCK_WAIT, self._cause(lock_id, outcome.skipping)
            )
        return pb.UnlockDDLLockResponse(result=True, msg=lock_answers.describe_outcome(lock_id, outcome))

    def _cause(self, lock_id: LockId, sources: Sequence[str]) -> str:
        """The errors that the workers of ``sources`` report."""
        causes = []
        for source, status in zip(
            sources, ask_statuses(self._cluster, sources, lock_id.task, STATUS_WAIT), strict=True
        ):
            found = [error_text(error) for subtask in status.subTaskStatus for error in subtask.result.errors]
            causes += [f"{source}: {text}" for text in (found or [status.msg]) if text]
        return "; ".join(causes)
