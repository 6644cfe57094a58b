"""The locks' records in etcd, for the master that leads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dm_master.election.campaign import LeaderKey
from pkg.etcd import KV, EtcdClient, PrefixMirror, WatchEvent
from pkg.ha.keys import SHARD_DDL_PREFIX
from pkg.ha.shard_ddl_steps import LockStep


class LockStore:
    """Reads, follows and changes the records. Methods raise 42501 (``retryable``: the outcome of a commit is unknown,
    so the records must be read again)."""

    def __init__(self, client: EtcdClient, prefix: str = SHARD_DDL_PREFIX) -> None:
        """``prefix``: of the shard mode's records."""
        self._client = client
        self._prefix = prefix

    def load(self) -> list[KV]:
        """All records."""
        kvs, _ = self._client.get_prefix(self._prefix)
        return kvs

    def follow(
        self, on_change: Callable[[Sequence[WatchEvent]], None], on_error: Callable[[BaseException], None]
    ) -> PrefixMirror:
        """A started mirror of all records: ``on_change`` gets the events for :meth:`Locks.apply`, the current
        records first."""
        return PrefixMirror(self._client, self._prefix, on_change, on_error=on_error).start()

    def commit(self, step: LockStep, leader: LeaderKey) -> int:
        """Carries out ``step`` if ``leader`` still leads; returns the revision of the change, or 0 if the term
        is over or the records have changed since the step was decided: follow them and decide again."""
        done = self._client.txn([leader.compare, *step.compare], step.ops)
        return done.revision if done.succeeded else 0
