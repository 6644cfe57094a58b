"""Which worker has the files of an unfinished load.

A dump is on the disk of the worker that made it. Until it is loaded, another worker must neither load other files
over it nor dump again: that would mix two snapshots in the target.
"""

from __future__ import annotations

from pkg import errors
from pkg.errors import Code
from pkg.etcd import EtcdClient, Get, Put, missing
from pkg.ha import keys


class LoadClaim:
    """The claim of ``worker`` on one task's load of one source. Methods raise 42501 while etcd does not answer."""

    def __init__(self, client: EtcdClient, task: str, source: str, worker: str) -> None:
        self._client = client
        self._key = keys.LOAD_TASK.key(task, source)
        self._task = task
        self._worker = worker

    def check(self) -> None:
        """Raises 34017 when another worker has begun to load."""
        stored = self._client.get(self._key)
        if stored is not None:
            self._compare(stored.value)

    def take(self) -> None:
        """Claims the load. Raises 34017 when another worker has it."""
        answer = self._client.txn([missing(self._key)], [Put(self._key, self._worker)], [Get(self._key)])
        if not answer.succeeded:
            for stored in answer.responses[0].kvs:
                self._compare(stored.value)

    def release(self) -> None:
        """The load is complete: its files are no longer needed, on any worker."""
        self._client.delete(self._key)

    def _compare(self, owner: str) -> None:
        if owner != self._worker:
            raise errors.new(
                Code.LoadTaskWorkerNotMatch,
                f"task {self._task} is being loaded by worker {owner}, which has the dumped files; "
                f"this is worker {self._worker}",
                workaround=f"Start worker {owner} again: as soon as it is free, the source returns to it automatically "
                f"and the load continues. If {owner} or its disk is lost permanently: `stop-task`, drop the "
                "loaded tables on the target, and `start-task --remove-meta`.",
            )
