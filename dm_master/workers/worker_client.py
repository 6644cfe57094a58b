"""Calls from the master to workers: one channel per worker, limits on time and number of calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import Message

from pkg import errors
from pkg.errors import Code
from pkg.pb import dmworker_pb2_grpc
from pkg.rpc.channel import open_channel
from pkg.settings.connections import SecurityConfig
from pkg.tls.renewal import files_state


class TokenBucket:
    """``rate`` tokens per second, at most ``burst`` saved up. Thread-safe."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._filled = clock()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Takes a token; False when there is none."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate)
            self._filled = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


class WorkerClients:
    """``timeout`` in seconds per call; ``rate`` and ``burst`` limit the calls to one worker. Thread-safe."""

    def __init__(self, *, timeout: float, rate: float, burst: int, security: SecurityConfig | None = None) -> None:
        self._timeout = timeout
        self._rate = rate
        self._burst = burst
        self._security = security
        self._lock = threading.Lock()
        self._connections: dict[str, tuple[grpc.Channel, Any, TokenBucket]] = {}
        self._files = files_state(security)

    def call(self, address: str, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """The worker's answer to one RPC of ``pb.Worker``.

        Raises 38018 beyond the rate limit, 38033 for a worker that doesn't answer in time, 38008 otherwise.
        """
        stub, bucket = self._connection(address)
        if not bucket.take():
            raise errors.new(
                Code.MasterNoEmitToken,
                f"too many requests to the worker at {address}: more than {self._rate:g} a second",
                workaround="Try again later, or raise rpc-rate-limit and rpc-rate-burst in dm-master's configuration.",
                retryable=True,
            )
        try:
            return getattr(stub, method)(request, timeout=self._timeout if timeout is None else timeout)
        except grpc.RpcError as exc:
            raise _error(address, method, exc) from exc

    def close(self) -> None:
        with self._lock:
            connections, self._connections = self._connections, {}
        for channel, _, _ in connections.values():
            channel.close()

    def _connection(self, address: str) -> tuple[Any, TokenBucket]:
        with self._lock:
            self._drop_older_certificates()
            if address not in self._connections:
                channel = open_channel(address, self._security)
                stub = dmworker_pb2_grpc.WorkerStub(channel)  # type: ignore[no-untyped-call]
                self._connections[address] = channel, stub, TokenBucket(self._rate, self._burst)
            _, stub, bucket = self._connections[address]
            return stub, bucket

    def _drop_older_certificates(self) -> None:
        """After a renewal, new calls use new channels. Running calls keep their old channel until they end."""
        files = files_state(self._security)
        # None: a file is being replaced.
        if files != self._files and None not in files:
            self._files = files
            self._connections = {}


def _error(address: str, method: str, exc: grpc.RpcError) -> errors.DMError:
    if exc.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.new(
            Code.MasterOperRequestTimeout,
            f"request {method} to the worker at {address} is timeout",
            workaround="Check the worker's load and log, then try again.",
            retryable=True,
        )
    return errors.new(
        Code.MasterGRPCRequestError,
        f"request {method} to the worker at {address} failed",
        raw=f"{exc.code().name}: {exc.details()}",
        workaround="Check that the worker runs and can be reached at this address.",
        retryable=exc.code() == grpc.StatusCode.UNAVAILABLE,
    )
