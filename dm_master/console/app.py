"""The console as an ASGI application: its routes, the headers of every answer, its error pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dm_master.console.actions import Actions
from dm_master.console.forms import Form, query_form
from dm_master.console.live import INTERVAL, LiveStatus
from dm_master.console.pages import LIVE_PAGES, Pages
from dm_master.console.rendering import BASE, Renderer
from dm_master.console.snapshot import ClusterReader
from dm_master.console.visitors import Visitors
from dm_master.service.dispatcher import MasterCall
from dm_master.service.event_log import EventLog
from pkg.rpc.server import HttpRequest, HttpRoutes

#: No content from other origins, no inline script or style, no frame around a page. A page of ours must send its origin
#: with a form, so the referrer is not left out altogether.
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
#: A static file's address changes with its content.
_STATIC_CACHE = "public, max-age=31536000, immutable"

FormPage = Callable[[Request], Awaitable[Response]]
ReadPage = Callable[[Request, Form], Awaitable[Response]]


def add_console(
    routes: HttpRoutes,
    call: MasterCall,
    users_path: str,
    events: Callable[[], EventLog | None],
    interval: float = INTERVAL,
) -> None:
    """Adds the console to a port's routes; ``/`` leads to it."""
    routes.add_route("GET", "/", _to_console)
    routes.mount(BASE, console_app(call, users_path, events, interval), forms=True)


def _to_console(_: HttpRequest) -> Response:
    return RedirectResponse(f"{BASE}/", 307)


def console_app(
    call: MasterCall, users_path: str, events: Callable[[], EventLog | None], interval: float = INTERVAL
) -> ASGIApp:
    renderer = Renderer()
    visitors = Visitors(users_path, renderer)
    live = LiveStatus(ClusterReader(call).read, interval)
    pages = Pages(call, visitors, renderer, live, events)
    actions = Actions(call, visitors, live)
    reading: dict[str, ReadPage] = {
        "rules": pages.rules,
        "checks": pages.checks,
        "cutover": pages.cutover,
        "config": pages.configuration,
        "events": pages.events,
        "confirm": actions.confirm,
        "purge": actions.show_purge,
        "move": actions.show_move,
        "add-source": actions.show_source_form,
        "add-task": actions.show_task_form,
    }
    changing: dict[str, FormPage] = {
        "do": actions.carry_out,
        "add-source": actions.add_source,
        "add-task": actions.compose_task,
        "login": visitors.log_in,
        "logout": visitors.log_out,
    }
    table = [
        Route("/", partial(pages.live_page, "overview")),
        *(Route(f"/{name}", partial(pages.live_page, name)) for name in LIVE_PAGES),
        *(Route(f"/{name}", _seen(visitors, page), methods=["GET"]) for name, page in reading.items()),
        *(Route(f"/{name}", page, methods=["POST"]) for name, page in changing.items()),
        Route("/login", visitors.show_login, methods=["GET"]),
        Route("/live", pages.stream),
        Route("/static/{name}", partial(_static, renderer)),
    ]
    # The middleware is outside the application, so that answers to failures have the headers, too.
    return _SecurityHeaders(Starlette(routes=table, exception_handlers={HTTPException: partial(_error_page, visitors)}))


def _seen(visitors: Visitors, page: ReadPage) -> FormPage:
    """Wraps ``page`` so that only visitors who may see the console get it."""

    async def answer(request: Request) -> Response:
        known = visitors.of(request)
        return await page(request, query_form(request)) if known.sees else visitors.turn_away(known)

    return answer


async def _static(renderer: Renderer, request: Request) -> Response:
    found = renderer.files.get(request.path_params["name"])
    if found is None:
        return PlainTextResponse("no such file\n", 404)
    return Response(found[0], media_type=found[1], headers={"cache-control": _STATIC_CACHE})


async def _error_page(visitors: Visitors, request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    values = {"what": exc.detail if exc.status_code != 404 else "such a page"}
    return visitors.page("missing.html", visitors.of(request), values, exc.status_code)


class _SecurityHeaders:
    """ASGI middleware: adds :data:`SECURITY_HEADERS` to every answer that does not have its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message.get("headers", ())}
                added = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
                headers = [*message.get("headers", ()), *(one for one in added if one[0] not in there)]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_guarded)
