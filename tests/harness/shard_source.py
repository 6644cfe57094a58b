"""A source's part in locks of shard DDL, as a worker plays it over a real etcd, without any database."""

from __future__ import annotations

from dataclasses import dataclass, field

from dm_worker.syncer.shard_ddl.lock_reports import EtcdLockService
from pkg.etcd import EtcdClient
from pkg.ha import keys
from pkg.ha.shard_ddl import DDLTexts, ShardInfo
from pkg.ha.shard_ddl_steps import LockId


def put_subtasks(client: EtcdClient, task: str, *sources: str) -> None:
    """The task runs on these sources, as far as etcd tells."""
    for source in sources:
        client.put(keys.SUBTASK.key(source, task), "a subtask")


@dataclass
class FakeTarget:
    """What was executed in one merged table, in order, by whom."""

    executed: list[tuple[str, DDLTexts]] = field(default_factory=list)


@dataclass
class FakeShards:
    """All shards of one source that go to one target table. Keeps to the rules of a worker; never waits.

    ``obeyed`` is the create revision of the operation that was obeyed last: with ``target``, all that is durable.
    """

    client: EtcdClient
    lock: LockId
    source: str
    target: FakeTarget
    obeyed: int = 0
    skipped: list[DDLTexts] = field(default_factory=list)

    @property
    def reports(self) -> EtcdLockService:
        return EtcdLockService(self.client, self.lock.task, self.source)

    def report(self, ddls: DDLTexts, since: str = "2026-01-01T00:00:00Z") -> bool:
        lock = self.lock
        return self.reports.report(ShardInfo(lock.task, self.source, lock.schema, lock.table, ddls, since))

    def obey(self) -> bool:
        """Does what it is told; False if it is told nothing new."""
        told = self.reports.operation(self.lock)
        if told is None or told.record.done or told.create_revision == self.obeyed:
            return False
        if told.record.execute:
            self.target.executed.append((self.source, told.record.ddls))
        else:
            self.skipped.append(told.record.ddls)
        self.obeyed = told.create_revision
        return True

    def confirm(self) -> bool:
        told = self.reports.operation(self.lock)
        if told is None or told.record.done or told.create_revision != self.obeyed:
            return False
        return self.reports.confirm(self.lock, told)

    def work(self) -> bool:
        """One step, if there is one."""
        return self.confirm() or self.obey()
