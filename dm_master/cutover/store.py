"""The records of cutovers in etcd. A change needs the revision that was read, so that two masters never mix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from dm_master.cutover.run_record import CutoverRecord, CutoverStage
from pkg import errors
from pkg.binlog.position import Location
from pkg.errors import Code
from pkg.etcd import Delete, EtcdClient, EtcdOperation, Put, mod_revision_is
from pkg.ha import keys
from pkg.ha.records import CutoverWatchRecord

#: etcd takes 128 operations in one transaction.
_OPS_AT_ONCE = 100


class EtcdCutoverStore:
    """See :class:`dm_master.cutover.run.CutoverStore`. Raises 42501 too."""

    def __init__(self, client: EtcdClient, task: str, sources: Iterable[str]) -> None:
        self._client = client
        self._task = task
        self._sources = sorted(sources)
        self._key = keys.CUTOVER.key(task)
        self._revision = 0

    def load(self) -> CutoverRecord | None:
        stored = self._client.get(self._key)
        self._revision = 0 if stored is None else stored.mod_revision
        return None if stored is None else CutoverRecord.from_text(stored.value)

    def save(self, record: CutoverRecord) -> None:
        self._revision = self._commit([Put(self._key, record.to_text())])

    def watch(self, ends: Mapping[str, Location], opposite: Mapping[str, str] = MappingProxyType({})) -> None:
        self._commit_all(
            Put(
                keys.CUTOVER_WATCH.key(source, self._task),
                CutoverWatchRecord(str(end.position), end.gtid_set, opposite.get(source, "")).to_json(),
            )
            for source, end in sorted(ends.items())
        )

    def forget(self) -> None:
        self._commit_all(Delete(keys.CUTOVER_WATCH.key(source, self._task)) for source in self._sources)
        self._commit([Delete(self._key)])

    def _commit_all(self, ops: Iterable[EtcdOperation]) -> None:
        every = list(ops)
        for first in range(0, len(every), _OPS_AT_ONCE):
            self._commit(every[first : first + _OPS_AT_ONCE])

    def _commit(self, ops: list[EtcdOperation]) -> int:
        done = self._client.txn([mod_revision_is(self._key, self._revision)], ops)
        if not done.succeeded:
            raise errors.new(
                Code.CutoverEnded,
                f"another command has changed the cutover of task {self._task}",
                workaround=f"`dmctl cutover status {self._task}` shows what it is now; run it again to continue.",
                retryable=True,
            )
        return done.revision


def refuse_after_cutover(client: EtcdClient, task: str, what: str) -> None:
    """Raises 43202 if the task ends, or has ended, by a cutover: ``what`` would break what the certificate says."""
    stored = client.get(keys.CUTOVER.key(task))
    if stored is None or CutoverRecord.from_text(stored.value).stage is CutoverStage.COMPARING:
        return
    raise errors.new(
        Code.CutoverEnded,
        f"{what}: task {task} has ended by a cutover at the positions of its certificate",
        workaround=f"`dmctl cutover status {task}` shows it. `dmctl cutover end {task}` ends the watch over the "
        "upstreams and frees the task; the certificate stays valid in its file.",
    )


def forget_cutover(client: EtcdClient, task: str, sources: Iterable[str]) -> None:
    """Ends a cutover that has not ended the task: the task itself ends. Raises 43202 if that has happened meanwhile."""
    store = EtcdCutoverStore(client, task, sources)
    if store.load() is not None:
        store.forget()
