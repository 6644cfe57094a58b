"""Asks an ASGI application without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from starlette.types import ASGIApp, Message


class AsgiAnswer(NamedTuple):
    """``headers`` have lower-case names."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def ask(
    app: ASGIApp,
    method: str,
    path: str,
    *,
    query: str = "",
    headers: Mapping[str, str] = {},
    body: bytes = b"",
    client: str = "127.0.0.1",
    certificate: str = "",
) -> AsgiAnswer:
    """The whole answer of ``app`` to one request from ``client``; with a ``certificate`` (PEM), over TLS."""
    sent: list[Message] = []
    tls = {"client_cert_chain": [certificate], "client_cert_name": "CN=ops"}
    length = {"content-length": str(len(body))} if body else {}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https" if certificate else "http",
        "path": path,
        "raw_path": quote(path).encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in {**length, **headers}.items()],
        "server": ("127.0.0.1", 8261),
        "client": (client, 1),
        "extensions": {"tls": tls} if certificate else {},
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]  # an application is a coroutine function
    status: int = sent[0]["status"]
    answered = {name.decode().lower(): value.decode() for name, value in sent[0].get("headers", ())}
    return AsgiAnswer(status, b"".join(message.get("body", b"") for message in sent[1:]), answered)
