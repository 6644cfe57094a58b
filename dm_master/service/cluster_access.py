"""The cluster as all parts of the service see it."""

from __future__ import annotations

from dataclasses import dataclass

from dm_master.election.campaign import Election
from dm_master.scheduling.scheduler import Scheduler
from dm_master.shardddl.lock_coordinator import LockCoordinator
from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from dm_master.workers.worker_client import WorkerClients
from pkg.config.master import MasterConfig
from pkg.etcd import EtcdClient
from pkg.ha.keys import LEADER_PREFIX
from pkg.ha.records import LeaderInfo


@dataclass(slots=True)
class ClusterAccess:
    """What the service reads and changes."""

    config: MasterConfig
    scheduler: Scheduler
    election: Election
    etcd: EtcdClient
    workers: WorkerClients
    locks: LockCoordinator[LockRegistry]

    def candidates(self) -> list[LeaderInfo]:
        """The leader and the other candidates. Raises 42501."""
        candidates, _ = self.etcd.get_prefix(LEADER_PREFIX)
        return [LeaderInfo.from_json(kv.value) for kv in candidates]
