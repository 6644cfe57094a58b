"""The only package that connects to etcd: a client with failover, leases, resuming watches, mirrors of prefixes."""

from pkg.etcd.client import EtcdClient
from pkg.etcd.errors import CompactedError
from pkg.etcd.lease import LeaseKeeper
from pkg.etcd.mirror import PrefixMirror
from pkg.etcd.types import (
    KV,
    Compare,
    Delete,
    EtcdOperation,
    Get,
    Member,
    MemberStatus,
    OperationResult,
    Put,
    TxnResult,
    WatchBatch,
    WatchEvent,
    create_revision_is,
    exists,
    missing,
    mod_revision_is,
    value_is,
    version_is,
)

__all__ = [
    "KV",
    "CompactedError",
    "Compare",
    "Delete",
    "EtcdClient",
    "EtcdOperation",
    "Get",
    "LeaseKeeper",
    "Member",
    "MemberStatus",
    "OperationResult",
    "PrefixMirror",
    "Put",
    "TxnResult",
    "WatchBatch",
    "WatchEvent",
    "create_revision_is",
    "exists",
    "missing",
    "mod_revision_is",
    "value_is",
    "version_is",
]
