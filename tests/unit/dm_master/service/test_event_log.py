"""Hazard: a request that was carried out fails because its entry in the event log cannot be made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass

from dm_master.service.event_log import event_of
from pkg.pb import dmmaster_pb2 as pb
from tests.unit.pkg.status.test_preview import REQUESTS

_NOW = datetime(2026, 11, 26, tzinfo=UTC)


@pytest.mark.parametrize(("method", "request_"), REQUESTS, ids=lambda it: it if isinstance(it, str) else "")
def test_each_request_that_changes_something_has_an_entry(method: str, request_: Any) -> None:
    answer: Any = GetMessageClass(pb.DESCRIPTOR.services_by_name["Master"].methods_by_name[method].output_type)()
    answer.result = True
    if "done" in answer.DESCRIPTOR.fields_by_name:
        answer.done = True
    if "sources" in answer.DESCRIPTOR.fields_by_name:
        answer.sources.add(source="one", msg="refused")
    event = event_of(method, request_, answer, _NOW)
    assert event is not None
    has_failed = hasattr(answer, "sources") and hasattr(answer.sources[0], "result")
    assert (event.result, event.detail) == (("failed", "one: refused") if has_failed else ("done", ""))


def test_a_cutover_that_is_asked_for_again_has_one_entry() -> None:
    request = pb.OperateCutoverRequest(op=pb.RunCutover, task="orders")
    assert event_of("OperateCutover", request, pb.OperateCutoverResponse(result=True), _NOW) is None
    assert event_of("OperateCutover", request, pb.OperateCutoverResponse(result=True, done=True), _NOW) is not None
