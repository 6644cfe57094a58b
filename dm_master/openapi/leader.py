"""Sends requests to the cluster's leader: the requests of gRPC, with refusals in the API's form."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from dm_master.openapi.refusal import Refusal, joined
from dm_master.service.dispatcher import MasterCall
from dm_master.service.event_log import acting_as
from pkg.errors import Code

#: A temporary error.
_UNAVAILABLE = Code.MasterRequestIsNotForwardToLeader.code


class Leader:
    """``call`` sends a request of ``pb.Master`` to the present leader and returns its answer."""

    def __init__(self, call: MasterCall) -> None:
        self._call = call

    def ask(self, method: str, request: Message) -> Any:
        """The answer. Raises the refusal of the master, or of a source in the answer."""
        with acting_as("OpenAPI"):
            answer: Any = self._call(method, request)
        if not answer.result:
            text = answer.msg or getattr(answer, "checkResult", "")
            refusal = Refusal(text)
            raise Refusal(text, status=503, code=_UNAVAILABLE) if refusal.code == _UNAVAILABLE else refusal
        return answer

    def order(self, method: str, request: Message) -> Any:
        """As :meth:`ask`, for requests that must succeed on every source."""
        answer = self.ask(method, request)
        problems = [(one.source, one.msg) for one in answer.sources if not one.result]
        if problems:
            raise joined(problems)
        return answer
