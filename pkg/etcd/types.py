"""etcd's requests and answers as plain values. No I/O and no gRPC, so that pure cores may use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CompareTarget = Literal["value", "version", "create_revision", "mod_revision"]
CompareResult = Literal["=", "!=", "<", ">"]


@dataclass(frozen=True, slots=True)
class KV:
    """A stored pair. ``lease`` is 0 for none; ``version`` counts the changes since the key was created."""

    key: str
    value: str
    create_revision: int
    mod_revision: int
    version: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change of one key. A deletion has an empty ``value``."""

    type: Literal["put", "delete"]
    key: str
    value: str
    mod_revision: int
    create_revision: int = 0
    lease: int = 0


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """Events up to and including ``revision``, in etcd's order; empty when etcd only reports its progress."""

    events: tuple[WatchEvent, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Compare:
    """One condition of a transaction."""

    key: str
    target: CompareTarget
    result: CompareResult
    operand: int | str


def value_is(key: str, value: str) -> Compare:
    return Compare(key, "value", "=", value)


def version_is(key: str, version: int) -> Compare:
    return Compare(key, "version", "=", version)


def create_revision_is(key: str, revision: int) -> Compare:
    return Compare(key, "create_revision", "=", revision)


def mod_revision_is(key: str, revision: int) -> Compare:
    return Compare(key, "mod_revision", "=", revision)


def exists(key: str) -> Compare:
    return Compare(key, "create_revision", ">", 0)


def missing(key: str) -> Compare:
    return Compare(key, "create_revision", "=", 0)


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: str
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes ``key``, or every key that begins with it when ``prefix`` is set."""

    key: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Get:
    """Reads ``key``, or every key that begins with it when ``prefix`` is set."""

    key: str
    prefix: bool = False


EtcdOperation = Put | Delete | Get


@dataclass(frozen=True, slots=True)
class OperationResult:
    """The answer to one operation: the pairs that a Get read, the number of keys that a Delete deleted."""

    kvs: tuple[KV, ...] = ()
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class TxnResult:
    """``responses`` are the answers to the operations of the branch that ``succeeded`` selects."""

    succeeded: bool
    responses: tuple[OperationResult, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the etcd cluster; ``name`` is empty until it has started once."""

    id: int
    name: str
    peer_urls: tuple[str, ...]
    client_urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member's view; ``leader`` is 0 while the cluster has no leader. ``db_size`` in bytes."""

    endpoint: str
    version: str
    db_size: int
    leader: int
    member_id: int
    raft_term: int
    revision: int
    errors: tuple[str, ...]
