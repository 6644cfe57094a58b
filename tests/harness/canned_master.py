"""A dm-master that gives the answers that a test sets, and records its requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import Message

from pkg.pb import dmmaster_pb2, dmmaster_pb2_grpc
from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes, PortServer

CannedAnswer = Message | Callable[[Any], Message] | grpc.StatusCode


class CannedMaster:
    """Serves ``pb.Master``; ``answers`` holds, by method, a message, a function of the request, or an error code."""

    def __init__(self) -> None:
        self.answers: dict[str, CannedAnswer] = {}
        self.requests: list[tuple[str, Any]] = []
        routes = HttpRoutes(status=lambda: "fake\n", metrics=Metrics(), ready=lambda: True)
        self._server = PortServer("127.0.0.1", 0, self._register, routes)

    def start(self) -> CannedMaster:
        self._server.start()
        return self

    def stop(self) -> None:
        self._server.stop(0)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.port}"

    def last(self, method: str) -> Any:
        """The newest request to ``method``."""
        return next(request for name, request in reversed(self.requests) if name == method)

    def _register(self, server: grpc.Server) -> None:
        servicer = dmmaster_pb2_grpc.MasterServicer()  # type: ignore[no-untyped-call]
        for method in dmmaster_pb2.DESCRIPTOR.services_by_name["Master"].methods:
            setattr(servicer, method.name, self._handler(method.name))
        dmmaster_pb2_grpc.add_MasterServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]

    def _handler(self, method: str) -> Callable[[Any, grpc.ServicerContext], Message]:
        def handle(request: Any, context: grpc.ServicerContext) -> Message:
            self.requests.append((method, request))
            answer = self.answers[method]
            if isinstance(answer, grpc.StatusCode):
                context.abort(answer, "told to fail")
            return answer(request) if callable(answer) else answer  # type: ignore[return-value, operator]

        return handle
