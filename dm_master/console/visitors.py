"""Identifies the sender of a request: by session, by client certificate, or as local. Logs in and out."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dm_master.console.access import Visitor, is_local, visitor
from dm_master.console.forms import Form, read_form
from dm_master.console.rendering import BASE, Renderer, link
from dm_master.console.sessions import LoginBrake, Sessions, token_matches
from pkg.errors import DMError
from pkg.process.log import get_logger
from pkg.settings.password_hash import PasswordHash, hash_password, read_users

log = get_logger("console")

COOKIE = "dm_console"
#: The most passwords checked at the same time: each check takes 16 MiB and a core for a moment.
_CHECKS = 2
_LONGEST_PASSWORD = 1024


class Visitors:
    """``users_path`` is read at each login: a new user takes effect without a restart."""

    def __init__(self, users_path: str, renderer: Renderer, clock: Callable[[], float] = time.monotonic) -> None:
        self._users_path = users_path
        self._renderer = renderer
        self._clock = clock
        self._sessions = Sessions(lambda: secrets.token_urlsafe(32))
        self._brake = LoginBrake()
        self._certificate_key = secrets.token_bytes(32)
        self._checks = threading.BoundedSemaphore(_CHECKS)
        # An unknown user must take as long as a known one.
        self._nobody = hash_password(secrets.token_urlsafe(16))

    @property
    def has_users(self) -> bool:
        return bool(self._users_path)

    def of(self, request: Request) -> Visitor:
        headers = {name.lower(): value for name, value in request.headers.items()}
        session = self._sessions.find(request.cookies.get(COOKIE, ""), self._clock())
        chain = request.scope.get("extensions", {}).get("tls", {}).get("client_cert_chain") or []
        certificate = "".join(chain[:1])
        name = request.scope["extensions"]["tls"].get("client_cert_name") if certificate else ""
        client = request.client.host if request.client is not None else ""
        return visitor(
            local=is_local(client, headers),
            certificate=(name or "a client certificate") if certificate else "",
            certificate_token=hmac.new(self._certificate_key, certificate.encode(), hashlib.sha256).hexdigest(),
            user=session.user if session else "",
            user_token=session.token if session else "",
        )

    def may_act(self, request: Request, form: Form) -> bool:
        """Whether the form may change something: it has the token that only a page for this visitor has."""
        known = self.of(request)
        return known.acts and token_matches(form.get("token"), known.token)

    def turn_away(self, known: Visitor) -> Response:
        """The answer to a visitor who lacks the right to see a page or to send an order."""
        if self._users_path and not known.acts:
            return RedirectResponse(link("login"), 303)
        return self.page("denied.html", known, {}, status=403)

    def page(self, template: str, known: Visitor, values: Mapping[str, object], status: int = 200) -> Response:
        html = self._renderer.page(
            template, {"visitor": known, "can_log_in": self.has_users, "here": "", "live": "", **values}
        )
        return Response(html, status, media_type="text/html")

    async def show_login(self, request: Request) -> Response:
        known = self.of(request)
        if not self._users_path:
            return self.turn_away(known)
        return self.page("login.html", known, {"problem": "", "plain": _is_plain(request)})

    async def log_in(self, request: Request) -> Response:
        form = await read_form(request)
        client = request.client.host if request.client is not None else ""
        user, password = form.get("user")[:64], form.secret("password")[:_LONGEST_PASSWORD]
        known = self.of(request)
        if not self._users_path:
            return self.turn_away(known)
        wait = self._brake.wait(client, user, self._clock())
        if wait > 0:
            answer = self._again(request, known, f"Too many failures: try again in {wait:.0f} s.", 429)
            answer.headers["retry-after"] = str(int(wait) + 1)
            return answer
        # Counted before the check, so that simultaneous attempts all count.
        self._brake.fail(client, user, self._clock())
        try:
            accepted = await self._accepts(user, password)
        except DMError as exc:
            log.error("cannot check a login", error=str(exc))
            return self._again(request, known, "The users' file cannot be read; see dm-master's log.", 500)
        if not accepted:
            log.warning("login refused", user=user, client=client)
            return self._again(request, known, "The user or the password is wrong.", 403)
        self._brake.succeed(client, user)
        log.info("login", user=user, client=client)
        answer = RedirectResponse(f"{BASE}/", 303)
        answer.set_cookie(
            COOKIE,
            self._sessions.create(user, self._clock()),
            path=BASE,
            httponly=True,
            samesite="strict",
            secure=not _is_plain(request),
        )
        return answer

    async def log_out(self, request: Request) -> Response:
        form = await read_form(request)
        if not self.may_act(request, form):
            return self.turn_away(self.of(request))
        self._sessions.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse(f"{BASE}/", 303)
        answer.delete_cookie(COOKIE, path=BASE)
        return answer

    async def _accepts(self, user: str, password: str) -> bool:
        return await run_in_threadpool(self._check, user, password)

    def _check(self, user: str, password: str) -> bool:
        with self._checks:
            stored: PasswordHash | None = read_users(self._users_path).get(user)
            return (stored or self._nobody).matches(password) and stored is not None

    def _again(self, request: Request, known: Visitor, problem: str, status: int) -> Response:
        return self.page("login.html", known, {"problem": problem, "plain": _is_plain(request)}, status)


def _is_plain(request: Request) -> bool:
    """Without TLS."""
    return request.url.scheme != "https"
