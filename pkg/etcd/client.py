"""A thread-safe client of an etcd cluster: several endpoints, failover, token refresh, errors with DM's codes."""

from __future__ import annotations

import random
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import grpc

from pkg.errors import Code, ErrorKind, new
from pkg.etcd import messages
from pkg.etcd.endpoint import Endpoint
from pkg.etcd.errors import CALL_ERRORS, WatchCanceledError, call_error, failure_of
from pkg.etcd.login import Login
from pkg.etcd.stubs import etcd3, rpc
from pkg.etcd.types import KV, Compare, EtcdOperation, Member, MemberStatus, TxnResult, WatchBatch
from pkg.etcd.watch import watch_stream
from pkg.settings.connections import SecurityConfig
from pkg.settings.etcd_user import EtcdUser
from pkg.tls.renewal import files_state

T = TypeVar("T")

# gRPC raises ValueError for a call on a channel that another thread has closed.
_WATCH_ERRORS: tuple[type[BaseException], ...] = (*CALL_ERRORS, WatchCanceledError, ValueError)
#: The role with all rights; etcd requires a user of this name with it before it enables passwords.
ROOT_ROLE = "root"
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


class EtcdClient:
    """``timeout`` (seconds) limits a whole call, with all attempts and failover.

    A call that etcd certainly did not see is sent again, to the next endpoint. One that it may have seen is sent again
    only if repeating it is harmless (reads, puts, deletes); a transaction with an unknown outcome raises a retryable
    error, and its caller reads the state again. Every method raises ``DMError`` 42501, 42504 (leases) or 42503
    (watches).
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: SecurityConfig | None = None,
        user: EtcdUser | None = None,
        timeout: float = 5.0,
    ) -> None:
        if not endpoints:
            raise new(Code.HAInvalidItem, "no etcd endpoints are given", workaround="Set `etcd-endpoints`.")
        self.timeout = timeout
        # With several endpoints, a silent one must leave time for another.
        attempt = timeout if len(endpoints) == 1 else max(timeout / len(endpoints), min(1.0, timeout))
        self._tls = tls
        login = Login(user) if user else None
        self._open = partial(_open, tuple(dict.fromkeys(endpoints)), tls, login, attempt)
        self._files = files_state(tls)
        self._endpoints = self._open()
        #: Channels of certificates that were renewed since, while watches still use them.
        self._former: weakref.WeakSet[Endpoint] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._current = 0
        self._closed = False

    # --- keys ---

    def get(self, key: str) -> KV | None:
        """The pair at ``key``, from a linearizable read; None when the key does not exist."""
        response = self._call(f"read {key}", lambda endpoint: endpoint.get_response(key))
        return messages.kv_of(response.kvs[0]) if response.kvs else None

    def get_prefix(self, prefix: str) -> tuple[list[KV], int]:
        """All pairs whose key begins with ``prefix``, by key, and the revision of the read."""
        response = self._call(
            f"list {prefix}", lambda endpoint: endpoint.get_prefix_response(prefix, sort_order="ascend")
        )
        return [messages.kv_of(kv) for kv in response.kvs], response.header.revision

    def put(self, key: str, value: str, lease: int = 0) -> int:
        """Stores ``value``; returns the store's revision. With ``lease`` the key ends with the lease."""
        response = self._call(f"write {key}", lambda endpoint: endpoint.put(key, value, lease=lease or None))
        return int(response.header.revision)

    def delete(self, key: str) -> bool:
        """Deletes ``key``; False when it did not exist."""
        return bool(self._call(f"delete {key}", lambda endpoint: endpoint.delete(key)))

    def delete_prefix(self, prefix: str) -> int:
        """Deletes all keys that begin with ``prefix``; returns how many."""
        return int(self._call(f"delete {prefix}", lambda endpoint: endpoint.delete_prefix(prefix)).deleted)

    def txn(
        self, compare: Iterable[Compare], success: Iterable[EtcdOperation], failure: Iterable[EtcdOperation] = ()
    ) -> TxnResult:
        """Executes ``success`` if all conditions hold, otherwise ``failure``, as one atomic step.

        Not repeated when the first request may have been applied: then raises 42501 with ``retryable`` set, outcome
        unknown.
        """
        request = messages.txn_request(compare, success, failure)
        response = self._call(
            "commit a transaction",
            lambda endpoint: endpoint.kvstub.Txn(request, endpoint.timeout, metadata=endpoint.metadata),
            resend=False,
        )
        return messages.txn_result(response)

    def compact(self, revision: int) -> None:
        """Drops the history before ``revision``; watches that need it get an error."""
        self._call(f"compact to {revision}", lambda endpoint: endpoint.compact(revision))

    # --- leases ---

    def lease_grant(self, ttl: int) -> int:
        """A new lease of ``ttl`` seconds; returns its id."""
        kind = Code.HAFailLeaseOperation
        return int(self._call(f"grant a lease of {ttl} s", lambda endpoint: endpoint.lease(ttl).id, kind=kind))

    def lease_revoke(self, lease_id: int) -> None:
        """Ends a lease, which deletes its keys; an expired lease is no error."""

        def revoke(endpoint: Endpoint) -> None:
            try:
                endpoint.revoke_lease(lease_id)
            except CALL_ERRORS as exc:
                if not failure_of(exc).not_found:
                    raise

        self._call(f"revoke lease {lease_id:x}", revoke, kind=Code.HAFailLeaseOperation)

    def keepalive(self, lease_id: int, timeout: float | None = None) -> int:
        """Renews a lease once; returns its new TTL in seconds, 0 when it has expired already."""

        def renew(endpoint: Endpoint) -> int:
            request = iter([rpc.LeaseKeepAliveRequest(ID=lease_id)])
            limit = endpoint.timeout if timeout is None else min(timeout, endpoint.timeout)
            responses = endpoint.leasestub.LeaseKeepAlive(request, limit, metadata=endpoint.metadata)
            for response in responses:
                return max(0, int(response.TTL))
            raise etcd3.exceptions.ConnectionFailedError

        return self._call(f"renew lease {lease_id:x}", renew, kind=Code.HAFailKeepalive, timeout=timeout)

    # --- watching ---

    def watch_prefix(self, prefix: str, from_revision: int, stop: threading.Event) -> Iterator[WatchBatch]:
        """Every change from ``from_revision`` on, until ``stop`` is set; each exactly once, in order.

        After a broken connection, a member without a leader or an expired token, it resumes after the last batch, at
        the next endpoint. Raises :class:`CompactedError` when etcd has dropped the required history (list again), 42503
        when etcd refuses the watch.
        """
        next_revision = from_revision
        pause = _FIRST_PAUSE
        logged_in_again = False
        while not stop.is_set():
            endpoint, index = self._endpoint()
            try:
                endpoint.login(again=logged_in_again)
                for batch in watch_stream(endpoint, prefix, next_revision, stop):
                    next_revision = batch.revision + 1
                    pause, logged_in_again = _FIRST_PAUSE, False
                    yield batch
            except _WATCH_ERRORS as exc:
                if stop.is_set() or self._closed:
                    return
                if isinstance(exc, ValueError):
                    raise
                failure = failure_of(exc)
                canceled = isinstance(exc, WatchCanceledError) and endpoint.has_user
                logged_in_again = not logged_in_again and (canceled or endpoint.may_log_in_again(failure))
                if not failure.transient and not logged_in_again:
                    raise call_error(Code.HAFailWatchEtcd, f"watch {prefix}", failure) from exc
                if not logged_in_again:
                    self._move_on(index)
            stop.wait(_jittered(pause))
            pause = min(pause * 2, _LONGEST_PAUSE)

    # --- the cluster ---

    def member_list(self) -> list[Member]:
        def members(endpoint: Endpoint) -> list[Member]:
            response = endpoint.clusterstub.MemberList(
                rpc.MemberListRequest(), endpoint.timeout, metadata=endpoint.metadata
            )
            return [messages.member_of(member) for member in response.members]

        return self._call("list its members", members)

    def cluster_id(self) -> int:
        def cluster(endpoint: Endpoint) -> int:
            request = rpc.MemberListRequest()
            answer = endpoint.clusterstub.MemberList(request, endpoint.timeout, metadata=endpoint.metadata)
            return int(answer.header.cluster_id)

        return self._call("show its cluster's id", cluster)

    def member_add(self, peer_urls: Sequence[str]) -> Member:
        """Adds a member; the caller then starts it with these peer URLs."""
        added = self._call(
            f"add member {','.join(peer_urls)}", lambda endpoint: endpoint.add_member(list(peer_urls)), resend=False
        )
        return Member(added.id, added.name, tuple(added.peer_urls), tuple(added.client_urls))

    def member_remove(self, member_id: int) -> None:
        self._call(f"remove member {member_id:x}", lambda endpoint: endpoint.remove_member(member_id), resend=False)

    def status(self) -> MemberStatus:
        """The view of one member."""

        def status(endpoint: Endpoint) -> MemberStatus:
            answer = endpoint.maintenancestub.Status(rpc.StatusRequest(), endpoint.timeout, metadata=endpoint.metadata)
            header = answer.header
            return MemberStatus(
                endpoint.address, answer.version, answer.dbSize, answer.leader, header.member_id, answer.raftTerm,
                header.revision, tuple(answer.errors),
            )  # fmt: skip

        return self._call("report its status", status)

    # --- passwords ---

    def asks_for_password(self) -> bool:
        """Logs in; False if etcd requires no password. Raises 42501 for a user or password that etcd refuses."""

        def log_in(endpoint: Endpoint) -> bool:
            endpoint.login(again=True)
            return endpoint.metadata is not None

        return self._call("log in", log_in)

    def require_password(self, user: EtcdUser) -> None:
        """Makes etcd require passwords, with ``user`` as its administrator. Several callers may do so at once."""
        name, password = user.name, user.password()
        steps: tuple[tuple[str, str, Any], ...] = (
            (f"add the user {name}", "UserAdd", rpc.AuthUserAddRequest(name=name, password=password)),
            # An earlier attempt may have ended here, with another password.
            (
                f"set the password of {name}",
                "UserChangePassword",
                rpc.AuthUserChangePasswordRequest(name=name, password=password),
            ),
            (f"add the role {ROOT_ROLE}", "RoleAdd", rpc.AuthRoleAddRequest(name=ROOT_ROLE)),
            (
                f"grant {ROOT_ROLE} to {name}",
                "UserGrantRole",
                rpc.AuthUserGrantRoleRequest(user=name, role=ROOT_ROLE),
            ),
            ("ask for passwords", "AuthEnable", rpc.AuthEnableRequest()),
        )
        for action, method, request in steps:
            self._call(action, partial(_administer, method, request))
        self.asks_for_password()

    def close(self) -> None:
        """Ends all calls and watches of this client."""
        self._closed = True
        for endpoint in [*self._endpoints, *self._former]:
            endpoint.channel.close()

    def __enter__(self) -> EtcdClient:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    # --- failover ---

    def _call(
        self,
        action: str,
        send: Callable[[Endpoint], T],
        *,
        resend: bool = True,
        kind: ErrorKind = Code.HAFailTxnOperation,
        timeout: float | None = None,
    ) -> T:
        """``resend``: applying the request twice is harmless, so it may be repeated when its outcome is unknown."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        pause = _FIRST_PAUSE
        log_in = logged_in_again = False
        while True:
            if self._closed:
                raise new(kind, f"etcd client is closed: cannot {action}")
            endpoint, index = self._endpoint()
            try:
                endpoint.login(again=log_in)
                return send(endpoint)
            except CALL_ERRORS as exc:
                failure = failure_of(exc)
                again = failure.never_sent or (resend and failure.transient)
                log_in = not logged_in_again and endpoint.may_log_in_again(failure)
                again = again or log_in
                if not again or time.monotonic() + pause >= deadline:
                    unknown = failure.transient and not failure.never_sent and not resend
                    raise call_error(kind, action, failure, outcome_unknown=unknown) from exc
                logged_in_again = log_in
                if not log_in:
                    self._move_on(index)
            except ValueError as exc:
                # gRPC's error for a call on a channel that another thread has closed.
                if self._closed:
                    raise new(kind, f"etcd client is closed: cannot {action}", raw=exc) from exc
                raise
            time.sleep(_jittered(pause))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _endpoint(self) -> tuple[Endpoint, int]:
        with self._lock:
            self._use_renewed_certificates()
            return self._endpoints[self._current], self._current

    def _use_renewed_certificates(self) -> None:
        """A channel keeps the certificate that it was opened with; watches keep their channel until it breaks."""
        files = files_state(self._tls)
        if files == self._files:
            return
        try:
            renewed = self._open()
        except OSError:
            # The files are being replaced: the next call reads them.
            return
        self._former.update(self._endpoints)
        self._endpoints, self._files = renewed, files

    def _move_on(self, failed: int) -> None:
        """Switches to the next endpoint, unless another thread has done so."""
        with self._lock:
            if self._current == failed:
                self._current = (failed + 1) % len(self._endpoints)


def _administer(method: str, request: Any, endpoint: Endpoint) -> None:
    """One step of the set-up; no error if it was done before."""
    try:
        getattr(endpoint.authstub, method)(request, endpoint.timeout, metadata=endpoint.metadata)
    except grpc.RpcError as exc:
        if not failure_of(exc).exists:
            raise


def _open(urls: Sequence[str], tls: SecurityConfig | None, login: Login | None, timeout: float) -> list[Endpoint]:
    return [Endpoint(url, tls=tls, login=login, timeout=timeout) for url in urls]


def _jittered(pause: float) -> float:
    return pause * random.uniform(0.5, 1.0)
