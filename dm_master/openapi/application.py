"""The API as an ASGI application: finds the operation, checks the request, and runs its function in a thread."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dm_master.openapi.contract import ApiCall, Contract
from dm_master.openapi.page import STYLE_HASH, page
from dm_master.openapi.refusal import Refusal, refused_by
from pkg import errors
from pkg.errors import DMError
from pkg.process.log import get_logger

log = get_logger("openapi")

#: Where the application is mounted.
BASE = "/api/v1"
#: Answers an operation: a JSON value, or None for an answer without a body.
OperationHandler = Callable[[ApiCall], Any]
_HEADERS = {"x-content-type-options": "nosniff", "x-frame-options": "DENY"}
#: The page loads nothing and runs nothing.
_PAGE_HEADERS = {
    **_HEADERS,
    "content-security-policy": f"default-src 'none'; style-src '{STYLE_HASH}'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}
_JSON_HEADERS = {
    **_HEADERS,
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}


class Application:
    """``handlers``: by the operations' ids, all but those of the description itself."""

    def __init__(self, contract: Contract, handlers: Mapping[str, OperationHandler]) -> None:
        self._contract = contract
        self._handlers: Mapping[str, OperationHandler] = {"GetDocJSON": lambda _: contract.document, **handlers}
        self._page = page(contract)
        missing = {one.id for one in contract.operations} - set(self._handlers) - {"GetDocHTML"}
        assert not missing, f"operations without a function: {missing}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(Request(scope, receive))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            path = _segments(request.scope)
            operation, params = self._contract.find(request.method, path)
            body = await request.body()
            if operation.id == "GetDocHTML":
                return Response(self._page, media_type="text/html", headers=_PAGE_HEADERS)
            query = request.scope["query_string"].decode("latin-1")
            call = self._contract.check(operation, params, query, body)
            found = await run_in_threadpool(self._handlers[operation.id], call)
        except Refusal as exc:
            return refusal_response(exc.status, exc.body)
        except DMError as exc:
            return refusal_response(400, refused_by(exc).body)
        except HTTPException as exc:
            return refusal_response(exc.status_code, Refusal(exc.detail).body)
        except ClientDisconnect:
            raise
        except Exception as exc:  # noqa: BLE001 - the process boundary: every error becomes an answer
            log.error("request failed", path=request.scope["path"], error=repr(exc))
            return refusal_response(500, refused_by(errors.wrap(exc)).body)
        if found is None:
            return Response(status_code=operation.status, headers=_JSON_HEADERS)
        return json_answer(found, operation.status)


def guard_response(status: int, problem: str) -> Response:
    """What the port refuses before the application sees it, in the API's form."""
    return refusal_response(status, Refusal(problem).body)


def json_answer(value: Any, status: int) -> Response:
    text = json.dumps(value, ensure_ascii=False)
    return Response(text, status, media_type="application/json", headers=_JSON_HEADERS)


def refusal_response(status: int, body: Mapping[str, object]) -> Response:
    return json_answer(body, status)


def _segments(scope: Scope) -> tuple[str, ...]:
    """The path below the base, segment by segment before it is unquoted: a name may contain a quoted slash."""
    path: str = scope["raw_path"].decode("ascii")
    return tuple(path.removeprefix(BASE).strip("/").split("/"))
