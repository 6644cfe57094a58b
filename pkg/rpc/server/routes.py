"""The HTTP routes of the shared port, as one ASGI application (Starlette).

A route's handler is a plain blocking function from :class:`HttpRequest` to a Starlette response; it runs in a thread,
so that a slow handler never delays other connections. Anything else (static files, sessions, streams of events) is a
separate ASGI application that :meth:`HttpRoutes.mount` serves under a path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pkg.process.metrics import CONTENT_TYPE, Metrics
from pkg.rpc.server.cross_site import host_name, refused_host, refused_origin, refused_type
from pkg.rpc.server.http_server import MAX_BODY

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A handler's input: ``params`` are the path's named segments, ``query`` holds all values of each key."""

    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, list[str]] = field(default_factory=dict)
    body: bytes = b""


HttpHandler = Callable[[HttpRequest], Response]
#: The answer for a status and a reason.
RefusalRenderer = Callable[[int, str], Response]


def json_response(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value, ensure_ascii=False), status, media_type=JSON_TYPE)


def _refusal_response(status: int, reason: str) -> Response:
    return json_response({"error": reason}, status)


class HttpRoutes:
    """The handlers by method and path; :attr:`app` serves them.

    ``status`` gives the text of ``/status``; ``ready`` reports whether this process can do its work (``/health`` and
    ``/readyz``). ``/livez`` only shows that the process answers. These are open to all; everything that is added or
    mounted is guarded by :mod:`pkg.rpc.server.cross_site`, where ``hosts`` are this port's names.
    """

    def __init__(
        self, *, status: Callable[[], str], metrics: Metrics, ready: Callable[[], bool], hosts: Collection[str] = ()
    ) -> None:
        self._hosts = frozenset(map(host_name, hosts))
        self._guard = Middleware(_CrossSiteGuard, hosts=self._hosts)
        self._refusals: list[tuple[str, RefusalRenderer]] = []
        self._starlette = Starlette(
            routes=[_SegmentRoute("/livez", _alive)],
            exception_handlers={404: _no_such_path, 405: _wrong_method, Exception: _failed},
            max_body_size=MAX_BODY,
        )
        self.app: ASGIApp = _TooLargeForm(self._starlette, self._refusals)
        self.publish("/status", lambda _: PlainTextResponse(status()))
        self.publish("/metrics", lambda _: Response(metrics.render(), media_type=CONTENT_TYPE))
        self.publish("/readyz", lambda _: _readiness(ready()))
        self.publish("/health", lambda _: _health(ready()))

    def add_route(self, method: str, pattern: str, handler: HttpHandler) -> None:
        """Serves ``pattern``, a path whose ``{name}`` segments match anything and arrive in ``params``.

        GET must not change anything.
        """
        self._add(method, pattern, handler, [self._guard])

    def publish(self, pattern: str, handler: HttpHandler) -> None:
        """GET of ``pattern`` under any host name: only for handlers that change nothing and show no secret."""
        self._add("GET", pattern, handler, [])

    def mount(
        self,
        path: str,
        app: ASGIApp,
        *,
        refuse: RefusalRenderer | None = None,
        forms: bool = False,
        bare_posts: bool = False,
    ) -> None:
        """Serves everything below ``path`` with another ASGI application, with its own routes and middleware.

        ``refuse``: the form of what this port itself refuses. ``forms``: the application takes the forms of its own
        pages, and checks a token that each of them has. ``bare_posts``: see :func:`refused_type`.
        """
        guard = Middleware(
            _CrossSiteGuard,
            hosts=self._hosts,
            refuse=refuse or _refusal_response,
            forms=forms,
            bare_posts=bare_posts,
        )
        if refuse is not None:
            self._refusals.append((f"{path.rstrip('/')}/", refuse))
        self._starlette.router.routes.append(_Mounted(path, app, middleware=[guard]))

    def _add(self, method: str, pattern: str, handler: HttpHandler, middleware: list[Middleware]) -> None:
        route = _SegmentRoute(pattern, _endpoint(handler), methods=[method], middleware=middleware)
        self._starlette.router.routes.append(route)


class _SegmentRoute(Route):
    """Matches the path segment by segment, before it is unquoted: a name may contain a quoted slash.

    Slashes at both ends of the path are ignored.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        params = _match(_segments(self.path), _segments(scope["raw_path"].decode("ascii")))
        if params is None:
            return Match.NONE, {}
        allowed = self.methods is None or scope["method"] in self.methods
        return Match.FULL if allowed else Match.PARTIAL, {"endpoint": self.endpoint, "path_params": params}


class _Mounted(Mount):
    """Takes every path below its own; Starlette's leaves out those with a quoted line break."""

    def __init__(self, path: str, app: ASGIApp, middleware: list[Middleware]) -> None:
        super().__init__(path, app, middleware=middleware)
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)


class _TooLargeForm:
    """ASGI middleware around Starlette's limit of a body: its answer, a text, in the form of the path's refusals."""

    def __init__(self, app: ASGIApp, refusals: Sequence[tuple[str, RefusalRenderer]]) -> None:
        self._app = app
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = False

        async def send_in_form(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] == 413:
                refused = True
                reason = f"the body is larger than {MAX_BODY // 2**20} MiB"
                await self._form(scope["path"])(413, reason)(scope, receive, send)
            elif not refused:
                await send(message)

        await self._app(scope, receive, send_in_form)

    def _form(self, path: str) -> RefusalRenderer:
        return next((refuse for prefix, refuse in self._refusals if path.startswith(prefix)), _refusal_response)


class _CrossSiteGuard:
    """ASGI middleware: refuses requests that a web page may have caused, with 403 or 415."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str],
        refuse: RefusalRenderer = _refusal_response,
        forms: bool = False,
        bare_posts: bool = False,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._refuse = refuse
        self._forms = forms
        self._bare_posts = bare_posts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("ascii").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        await (self._refusal(scope["method"], headers) or self._app)(scope, receive, send)

    def _refusal(self, method: str, headers: Mapping[str, str]) -> Response | None:
        wrong = refused_host(headers, self._hosts) or refused_origin(method, headers)
        if wrong:
            return self._refuse(403, wrong)
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        wrong = refused_type(method, headers, has_body, forms=self._forms, bare_posts=self._bare_posts)
        return self._refuse(415, wrong) if wrong else None


def _endpoint(handler: HttpHandler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        query = parse_qs(request.scope["query_string"].decode("latin-1"))
        return await run_in_threadpool(handler, HttpRequest(request.path_params, query, await request.body()))

    return answer


async def _alive(_: Request) -> Response:
    """Answers without a thread: all threads may be busy with slow requests."""
    return PlainTextResponse("ok\n")


async def _no_such_path(request: Request, _: Exception) -> Response:
    return json_response({"error": f"no such path: {request.scope['path']}"}, 404)


async def _wrong_method(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    answer = json_response({"error": f"method {request.method} is not allowed here"}, 405)
    answer.headers.update(exc.headers or {})
    return answer


async def _failed(_: Request, exc: Exception) -> Response:
    """The answer for a handler that raises; the caller of the application logs the error."""
    return json_response({"error": str(exc)}, 500)


def _readiness(ready: bool) -> Response:
    return PlainTextResponse("ok\n") if ready else PlainTextResponse("not ready\n", 503)


def _health(ready: bool) -> Response:
    """The form of etcd's own ``/health``, which DM's port returns."""
    return json_response({"health": "true" if ready else "false"}, 200 if ready else 503)


def _segments(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))


def _match(pattern: tuple[str, ...], path: tuple[str, ...]) -> dict[str, str] | None:
    if len(pattern) != len(path):
        return None
    params: dict[str, str] = {}
    for expected, given in zip(pattern, path, strict=True):
        if expected.startswith("{"):
            params[expected.strip("{}")] = unquote(given)
        elif expected != given:
            return None
    return params
