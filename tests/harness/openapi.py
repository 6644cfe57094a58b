"""A plain client of the API, and bodies for it."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from deploy.local.mysql import SQLServer

#: What an answer must have, by the served contract.
CONTRACT_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


class ApiClient:
    """Asks one master; every answer must have the form that the contract gives it."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._port = port
        self._tls = tls

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request(method, f"/api/v1/{path}", body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        return http.client.HTTPSConnection("localhost", self._port, timeout=120, context=self._tls)

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, Any]:
        text = urlencode({key: json.dumps(value) if isinstance(value, bool) else value for key, value in query.items()})
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        status, found = self.send(method, f"{path}?{text}" if text else path, content, headers)
        return status, json.loads(found) if found else None

    def ok(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        status, found = self.ask(method, path, body, **query)
        assert status in (200, 201, 202, 204), f"{method} {path}: {status} {found}"
        return found

    def refused(self, method: str, path: str, body: Any = None, **query: Any) -> dict[str, Any]:
        status, found = self.ask(method, path, body, **query)
        assert 400 <= status < 500, f"{method} {path}: {status} {found}"
        assert set(found) == {"error_msg", "error_code"}
        return {**found, "status": status}


def part(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def api_source(server: SQLServer, name: str, **more: Any) -> dict[str, Any]:
    return {
        "source_name": name,
        "host": "127.0.0.1",
        "port": server.port,
        "user": "root",
        "password": "",
        "enable": True,
        "enable_gtid": False,
        **more,
    }


def api_task(target: SQLServer, name: str, sources: Sequence[str], schema: str, **more: Any) -> dict[str, Any]:
    """A task that migrates ``schema`` of each source."""
    return {
        "name": name,
        "task_mode": "all",
        "enhance_online_schema_change": True,
        "on_duplicate": "error",
        "target_config": {"host": "127.0.0.1", "port": target.port, "user": "root", "password": ""},
        "table_migrate_rule": [
            {"source": {"source_name": source, "schema": schema, "table": "*"}} for source in sources
        ],
        "source_config": {"source_conf": [{"source_name": source} for source in sources]},
        **more,
    }
