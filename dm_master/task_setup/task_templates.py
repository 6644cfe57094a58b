"""Drafts of tasks in etcd, as task files; passwords are encrypted when there is a secret key."""

from __future__ import annotations

from pkg.etcd import EtcdClient, Put
from pkg.etcd.types import exists, missing
from pkg.ha import keys


class TaskTemplates:
    def __init__(self, etcd: EtcdClient) -> None:
        self._etcd = etcd

    def all(self) -> dict[str, str]:
        """The files by name, with their secrets. Raises 42501."""
        found, _ = self._etcd.get_prefix(keys.TASK_TEMPLATE.prefix())
        return {keys.TASK_TEMPLATE.names(one.key)[0]: one.value for one in sorted(found, key=lambda one: one.key)}

    def create(self, name: str, text: str) -> bool:
        """False if there is one of this name."""
        key = keys.TASK_TEMPLATE.key(name)
        return self._etcd.txn([missing(key)], [Put(key, text)]).succeeded

    def replace(self, name: str, text: str) -> bool:
        """False if there is none of this name."""
        key = keys.TASK_TEMPLATE.key(name)
        return self._etcd.txn([exists(key)], [Put(key, text)]).succeeded

    def delete(self, name: str) -> bool:
        """False if there is none of this name."""
        return self._etcd.delete(keys.TASK_TEMPLATE.key(name))
