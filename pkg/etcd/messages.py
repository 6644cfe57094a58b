"""Translation between our plain values and etcd's messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pkg.etcd.stubs import rpc
from pkg.etcd.types import KV, Compare, Delete, EtcdOperation, Get, Member, OperationResult, Put, TxnResult, WatchEvent

_RESULTS = {
    "=": rpc.Compare.EQUAL,
    "!=": rpc.Compare.NOT_EQUAL,
    "<": rpc.Compare.LESS,
    ">": rpc.Compare.GREATER,
}
_TARGETS = {
    "value": rpc.Compare.VALUE,
    "version": rpc.Compare.VERSION,
    "create_revision": rpc.Compare.CREATE,
    "mod_revision": rpc.Compare.MOD,
}
_DELETE_EVENT = 1


def range_end(prefix: str) -> bytes:
    """The first key after all keys with ``prefix``; the empty prefix means every key."""
    stem = prefix.encode().rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b"\0"


def kv_of(message: Any) -> KV:
    return KV(
        key=message.key.decode(),
        value=message.value.decode(),
        create_revision=message.create_revision,
        mod_revision=message.mod_revision,
        version=message.version,
        lease=message.lease,
    )


def event_of(message: Any) -> WatchEvent:
    kv = message.kv
    deleted = message.type == _DELETE_EVENT
    return WatchEvent(
        type="delete" if deleted else "put",
        key=kv.key.decode(),
        value=kv.value.decode(),
        mod_revision=kv.mod_revision,
        create_revision=kv.create_revision,
        lease=kv.lease,
    )


def member_of(message: Any) -> Member:
    return Member(message.ID, message.name, tuple(message.peerURLs), tuple(message.clientURLs))


def txn_request(compare: Iterable[Compare], success: Iterable[EtcdOperation], failure: Iterable[EtcdOperation]) -> Any:
    return rpc.TxnRequest(
        compare=[_compare_message(condition) for condition in compare],
        success=[_op_message(op) for op in success],
        failure=[_op_message(op) for op in failure],
    )


def txn_result(message: Any) -> TxnResult:
    return TxnResult(message.succeeded, tuple(map(_op_result, message.responses)), message.header.revision)


def _compare_message(condition: Compare) -> Any:
    operand = condition.operand.encode() if isinstance(condition.operand, str) else condition.operand
    return rpc.Compare(
        key=condition.key.encode(),
        result=_RESULTS[condition.result],
        target=_TARGETS[condition.target],
        **{condition.target: operand},
    )


def _op_message(op: EtcdOperation) -> Any:
    key = op.key.encode()
    if isinstance(op, Put):
        return rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=op.value.encode(), lease=op.lease))
    end = range_end(op.key) if op.prefix else b""
    key = key or b"\0"
    if isinstance(op, Delete):
        return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key, range_end=end))
    assert isinstance(op, Get)
    return rpc.RequestOp(request_range=rpc.RangeRequest(key=key, range_end=end))


def _op_result(message: Any) -> OperationResult:
    kind = message.WhichOneof("response")
    if kind == "response_range":
        return OperationResult(kvs=tuple(map(kv_of, message.response_range.kvs)))
    if kind == "response_delete_range":
        return OperationResult(deleted=message.response_delete_range.deleted)
    return OperationResult()
