"""Hazard: another site shows an answer of the API in a frame, or a browser takes it for something to run."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from dm_master.openapi.application import Application
from dm_master.openapi.contract import contract


def _headers(path: str) -> dict[str, str]:
    operations = contract().operations
    application = Application(contract(), {one.id: lambda _: {} for one in operations})
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(application(scope, receive, send))
    return {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}


@pytest.mark.parametrize("path", ["docs", "dm.json", "tasks", "", "nothing"])
def test_no_answer_may_be_framed_or_guessed_at(path: str) -> None:
    headers = _headers(f"/api/v1/{path}")
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
