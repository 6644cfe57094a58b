"""The operators' orders for statements of one source's binlog, as stored in etcd.

They survive a restart of worker or master, and a stop and a new start of the task. They are removed once the checkpoint
has passed their statement, when a full copy begins, with ``start-task --remove-meta`` and with their source.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from dm_worker.operator_commands.replicating_unit import ReplicatingUnit, replication_of
from dm_worker.subtask.subtask import SubTask
from dm_worker.syncer.ddl.operator_orders import outdated
from pkg import errors
from pkg.errors import Code, DMError
from pkg.etcd import Delete, EtcdClient, PrefixMirror, Put, exists
from pkg.ha import keys
from pkg.ha.binlog_operator import BinlogOperator
from pkg.process.log import get_logger

log = get_logger(__name__)

#: Seconds within which the mirror must receive a change in etcd.
_MIRROR_TIMEOUT = 5.0
_POLL = 0.01


class BinlogOperators:
    """Follows the orders of ``source``. Reading never waits for etcd; changes raise 42501 and 42502."""

    def __init__(self, client: EtcdClient, source: str, on_broken: Callable[[BaseException], None]) -> None:
        self._client = client
        self._source = source
        prefix = keys.BINLOG_OPERATOR.prefix(source)
        self._mirror = PrefixMirror(client, prefix, lambda _: None, on_error=on_broken)

    def start(self) -> None:
        self._mirror.start()

    def stop(self) -> None:
        self._mirror.stop()

    def wait_synced(self, timeout: float) -> bool:
        """Waits until the orders are known; False if ``timeout`` seconds pass first."""
        return self._mirror.wait_synced(timeout)

    def of(self, task: str) -> list[BinlogOperator]:
        """The orders for a task, including damaged ones, which stop only their own statements."""
        prefix = keys.BINLOG_OPERATOR.prefix(self._source, task)
        found: list[BinlogOperator] = []
        for key, kv in self._mirror.snapshot().items():
            if key.startswith(prefix):
                try:
                    found.append(BinlogOperator.read(key, kv.value))
                except DMError as exc:
                    log.error(
                        "an operator order in etcd has no valid position and is ignored",
                        task=task,
                        key=key,
                        error=str(exc),
                    )
        return found

    def put(self, operator: BinlogOperator) -> None:
        """Stores an order, replaces one for the same position, and waits until the task sees it. Raises 40054."""
        key = operator.key
        done = self._client.txn([exists(keys.SUBTASK.key(self._source, operator.task))], [Put(key, operator.to_json())])
        if not done.succeeded:
            raise errors.new(
                Code.WorkerSubTaskNotFound,
                f"task {operator.task} has no subtask of source {self._source} any more",
                workaround="`query-status` lists the tasks.",
            )
        self._heard(lambda: (kv := self._mirror.snapshot().get(key)) is not None and kv.mod_revision >= done.revision)

    def remove(self, operator: BinlogOperator) -> None:
        """Removes an order."""
        self._client.txn([], [Delete(operator.key)])
        self._heard(lambda: operator.key not in self._mirror.snapshot())

    def forget(self, task: str) -> None:
        """Removes all orders of an earlier task of this name, because a full copy begins."""
        known = self.of(task)
        if known:
            positions = [one.position for one in known]
            log.info(
                "the task copies again: operator orders for its earlier statements are removed",
                task=task,
                positions=positions,
            )
        prefix = keys.BINLOG_OPERATOR.prefix(self._source, task)
        self._client.txn([], [Delete(prefix, prefix=True)])
        self._heard(lambda: not any(key.startswith(prefix) for key in self._mirror.snapshot()))

    def forget_passed(self, subtask: SubTask) -> None:
        """Removes the orders that the checkpoint has passed. The next call retries a failure."""
        try:
            known = self.of(subtask.name)
            unit = replication_of(subtask)
            if known and unit is not None:
                self._forget(known, unit)
        except DMError as exc:
            log.warning(
                "cannot remove operator orders for statements before the checkpoint", task=subtask.name, error=str(exc)
            )

    def _forget(self, known: list[BinlogOperator], unit: ReplicatingUnit) -> None:
        needed = unit.needed
        passed = outdated(known, needed.position) if needed is not None else []
        if passed:
            log.info(
                "the checkpoint is past statements with operator orders", positions=[one.position for one in passed]
            )
            self._client.txn([], [Delete(one.key) for one in passed])

    def _heard(self, is_here: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _MIRROR_TIMEOUT
        while not is_here():
            if time.monotonic() > deadline:
                raise errors.new(
                    Code.HAFailWatchEtcd,
                    "the operator order is stored in etcd, but this worker has not received it yet",
                    workaround="Check it with `binlog list`, then resume the task.",
                    retryable=True,
                )
            time.sleep(_POLL)
