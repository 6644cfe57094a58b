"""Classifies a failed call to etcd: whether it may be repeated, at another member, or after a new login."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from pkg.errors import DMError, ErrorKind, new
from pkg.etcd.stubs import etcd3

#: The exceptions of a failed call: etcd3 translates some status codes and passes the others on.
CALL_ERRORS: tuple[type[BaseException], ...] = (grpc.RpcError, etcd3.Etcd3Exception)

_WORKAROUND = "Check that the etcd members are running and reachable (`etcdctl endpoint health`), then try again."
# gRPC's messages for a request that never left this process.
_NEVER_SENT = ("failed to connect", "connection refused", "connections to all backends failing", "name resolution")
# gRPC's messages for a truncated answer: a member with TLS that ends closes its streams so, with the code INTERNAL.
_CUT = ("stream removed", "rst_stream")
_TOKEN_TEXTS = (
    "invalid auth token",
    "revision in header is old",
    "revision of auth store is old",
    "revision of the authorization model is obsolete",
)
# Without a token, etcd uses the name in the certificate as the user.
_UNAUTHORIZED_TEXTS = ("user name is empty", "authentication failed", "permission denied", "user name not found")
_NO_PASSWORDS = "authentication is not enabled"
_EXISTS = "name already exists"
_TRANSIENT_CODES = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
    }
)


@dataclass(frozen=True, slots=True)
class EtcdFailure:
    """``never_sent``: etcd did not see the request. ``transient``: another member, or a later attempt, may succeed.
    ``stale_token``: log in again. ``unauthorized``: a user, password or right is missing or wrong. ``no_passwords``:
    etcd has no users. ``exists``: the object to add exists. Otherwise etcd refused the request and will refuse it
    again.
    """

    detail: str
    code: grpc.StatusCode | None
    transient: bool = False
    never_sent: bool = False
    stale_token: bool = False
    unauthorized: bool = False
    no_passwords: bool = False
    exists: bool = False
    not_found: bool = False


class CompactedError(Exception):
    """The history that a watch needs is gone: list again and watch from the list's revision."""

    def __init__(self, prefix: str, compact_revision: int) -> None:
        super().__init__(f"watch of {prefix}: revisions before {compact_revision} are compacted")
        self.compact_revision = compact_revision


class WatchCanceledError(Exception):
    """etcd ended a watch. An expired token looks the same: servers answer "permission denied"."""


def failure_of(exc: BaseException) -> EtcdFailure:
    """Classifies an exception of :data:`CALL_ERRORS`. etcd3 raises its own from gRPC's, which has the details."""
    rpc_error = exc if isinstance(exc, grpc.RpcError) else exc.__context__
    if not isinstance(rpc_error, grpc.RpcError) or not hasattr(rpc_error, "code"):
        cut = isinstance(exc, etcd3.exceptions.ConnectionFailedError)
        detail = str(exc) or type(exc).__name__
        return EtcdFailure(detail, None, transient=cut, unauthorized=_names(_UNAUTHORIZED_TEXTS, detail))
    code: grpc.StatusCode = rpc_error.code()
    detail = str(rpc_error.details() or code.name)
    lowered = detail.lower()
    # NOSPACE is also reported as RESOURCE_EXHAUSTED, but a retry does not free space.
    cut = code is grpc.StatusCode.INTERNAL and any(text in lowered for text in _CUT)
    transient = (cut or code in _TRANSIENT_CODES) and "database space exceeded" not in lowered
    return EtcdFailure(
        detail,
        code,
        transient=transient,
        never_sent=code is grpc.StatusCode.UNAVAILABLE and any(text in lowered for text in _NEVER_SENT),
        stale_token=_names(_TOKEN_TEXTS, detail),
        unauthorized=_names(_UNAUTHORIZED_TEXTS, detail),
        no_passwords=_NO_PASSWORDS in lowered,
        exists=_EXISTS in lowered,
        not_found=code is grpc.StatusCode.NOT_FOUND,
    )


def _names(phrases: tuple[str, ...], detail: str) -> bool:
    lowered = detail.lower()
    return any(text in lowered for text in phrases)


def call_error(kind: ErrorKind, action: str, failure: EtcdFailure, *, outcome_unknown: bool = False) -> DMError:
    """The error that leaves this package. ``kind`` is one of the ha class (425xx)."""
    message = f"etcd failed to {action}"
    if outcome_unknown:
        message += "; whether it was applied is unknown"
    if "database space exceeded" in failure.detail:
        hint = (
            "etcd is out of space: raise `quota-backend-bytes` or compact and defragment, then `etcdctl alarm disarm`."
        )
    elif "too many operations" in failure.detail:
        hint = "Raise etcd's `max-txn-ops` (2048 in the embedded one), or start the task for fewer sources at a time."
    elif failure.unauthorized or failure.stale_token:
        hint = (
            "Check `etcd-username` and the file of `etcd-password-path`, and that etcd's user may read and write the"
            " keys below /dm-master/ and /dm-worker/ (docs/deploying.md)."
        )
    else:
        hint = _WORKAROUND
    return new(kind, message, raw=failure.detail, workaround=hint, retryable=failure.transient)
