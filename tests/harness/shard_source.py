"""A source's part in DDL locks, as a worker carries it out with a real etcd, without any database."""

from __future__ import annotations

from dataclasses import dataclass, field

from dm_worker.syncer.shard_ddl.lock_reports import EtcdLockService
from pkg.etcd import EtcdClient
from pkg.ha import keys
from pkg.ha.shard_ddl import DDLTexts, ShardInfo
from pkg.ha.shard_ddl_steps import LockId


def put_subtasks(client: EtcdClient, task: str, *sources: str) -> None:
    """Makes the task run on these sources, according to etcd."""
    for source in sources:
        client.put(keys.SUBTASK.key(source, task), "a subtask")


@dataclass
class FakeTarget:
    """The DDLs executed in one merged table, in order, with their sources."""

    executed: list[tuple[str, DDLTexts]] = field(default_factory=list)


@dataclass
class FakeShards:
    """All shards of one source that go to one target table. Follows the rules of a worker; never waits.

    ``obeyed`` is the create revision of the last operation carried out. Only it and ``target`` are durable.
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
        """Carries out the current operation; False if there is no new one."""
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
        """Makes one step; False if there is none."""
        return self.confirm() or self.obey()
