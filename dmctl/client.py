"""The connection to a dm-master: the first reachable of the given addresses, with one reconnection when it breaks."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from google.protobuf.message import Message

from dmctl.failure import CommandError, UsageError
from dmctl.options import GlobalOptions
from pkg import errors
from pkg.errors import Code
from pkg.pb import dmmaster_pb2_grpc
from pkg.rpc.channel import open_channel

#: Seconds to wait for one master to accept a connection.
DIAL_TIMEOUT = 3.0
_UNAVAILABLE = (
    "The address accepts connections, but no dm-master answers there. Check the port (8261 by default). If the cluster "
    "has TLS, give --ssl-ca, --ssl-cert and --ssl-key; without TLS, leave them out."
)
_WORTH_RECONNECTING = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})


class MasterClient:
    """Calls ``pb.Master``; connects when first used."""

    def __init__(self, options: GlobalOptions) -> None:
        self._options = options
        self._channel: grpc.Channel | None = None
        self._stub: Any = None

    def call(self, method: str, request: Message) -> Any:
        """The answer to ``request``.

        Raises :class:`UsageError` when no master is known, ``DMError`` 48001 when none can be reached, and
        :class:`CommandError` when the answer is a gRPC error.
        """
        try:
            return self._method(method)(request, timeout=self._options.rpc_timeout)
        except grpc.RpcError as exc:
            if exc.code() not in _WORTH_RECONNECTING:
                raise _failure(exc) from exc
        self.close()
        try:
            return self._method(method)(request, timeout=self._options.rpc_timeout)
        except grpc.RpcError as exc:
            raise _failure(exc) from exc

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = self._stub = None

    def _method(self, name: str) -> Callable[..., Any]:
        if self._stub is None:
            self._channel = self._dial()
            self._stub = dmmaster_pb2_grpc.MasterStub(self._channel)  # type: ignore[no-untyped-call]
        method: Callable[..., Any] = getattr(self._stub, name)
        return method

    def _dial(self) -> grpc.Channel:
        if not self._options.masters:
            raise UsageError(
                "--master-addr not provided, this parameter is required when interacting with the dm-master "
                "(the environment variable DM_MASTER_ADDR may stand in for it)"
            )
        try:
            return open_channel(reachable(self._options.masters), self._options.security)
        except OSError as exc:
            raise errors.new(
                Code.CtlLoadTLSCfg, "can not load tls config", raw=exc, workaround="Please check the --ssl-* files."
            ) from exc


def reachable(masters: Sequence[str]) -> str:
    """The first of ``masters`` that accepts a connection. Raises ``DMError`` 48001 if none does."""
    causes = []
    for address in masters:
        cause = _refusal(address)
        if not cause:
            return address
        causes.append(f"can't connect to {address}: {cause}")
    raise errors.new(
        Code.CtlGRPCCreateConn,
        "can not create grpc connection",
        raw="; ".join(causes),
        workaround="Please check your network connection. Check that --master-addr names a running dm-master.",
    )


def _refusal(address: str) -> str:
    """Why ``address`` accepts no connection; empty if it does. The operating system's error is clearer than gRPC's."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return f"dial tcp {address}: missing port in address"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=DIAL_TIMEOUT).close()
    except ConnectionRefusedError:
        return f"dial tcp {address}: connect: connection refused"
    except TimeoutError:
        return f"dial tcp {address}: i/o timeout"
    except (OSError, OverflowError) as exc:
        return f"dial tcp {address}: {getattr(exc, 'strerror', None) or exc}"
    return ""


def _failure(exc: grpc.RpcError) -> CommandError:
    code: grpc.StatusCode = exc.code()
    text = f"rpc error: code = {code.value[1].title().replace(' ', '')} desc = {exc.details()}"
    if code is grpc.StatusCode.UNAVAILABLE:
        text += f"\n{_UNAVAILABLE}"
    return CommandError(text)
