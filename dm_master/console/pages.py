"""The read-only pages: they show the latest snapshot of the cluster, or the answer to a request of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

from google.protobuf.empty_pb2 import Empty
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from dm_master.console.forms import Form, query_form
from dm_master.console.live import MOST_STREAMS, LiveParts, LiveStatus
from dm_master.console.rendering import Renderer
from dm_master.console.snapshot import ClusterSnapshot
from dm_master.console.view.checks import comparison_view, cutover_view, validation_view
from dm_master.console.view.locks import locks_of
from dm_master.console.view.overview import (
    MEMBERS_PER_PAGE,
    master_lines,
    overview,
    source_lines,
    worker_lines,
    workers_for,
)
from dm_master.console.view.paging import page_number, paged
from dm_master.console.view.purge import worst_first
from dm_master.console.view.rules import rules_view
from dm_master.console.view.task_page import parts_of, task_page
from dm_master.console.visitors import Visitors
from dm_master.service.dispatcher import MasterCall
from dm_master.service.event_log import EventLog
from pkg.errors import DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

EVENTS_PER_PAGE = 50
#: The longest address of a page that a stream can follow.
_LONGEST_ADDRESS = 2000
_KINDS = {
    "task": pb.TaskType,
    "source": pb.SourceType,
    "master": pb.MasterType,
    "worker": pb.WorkerType,
}
#: Page → the values that its template shows of a snapshot.
LivePage = Callable[[ClusterSnapshot, Form], Mapping[str, Any]]


def _overview(snapshot: ClusterSnapshot, query: Form) -> Mapping[str, Any]:
    return {"view": overview(snapshot, query.get("q"), page_number(query.get("page")))}


def _task(snapshot: ClusterSnapshot, query: Form) -> Mapping[str, Any]:
    task = query.get("name")
    return {"view": task_page(snapshot, task, page_number(query.get("page"))), "task": task}


def _sources(snapshot: ClusterSnapshot, query: Form) -> Mapping[str, Any]:
    sources = paged(source_lines(snapshot.status), page_number(query.get("page")), MEMBERS_PER_PAGE)
    purge = worst_first(one for line in sources.items for one in line.purge)
    movable = {line.name for line in sources.items if line.movable and workers_for(snapshot.members, line.name)}
    return {"sources": sources, "purge": purge, "movable": movable, "problem": snapshot.problem}


def _locks(snapshot: ClusterSnapshot, query: Form) -> Mapping[str, Any]:
    locks = paged(locks_of(snapshot.locks), page_number(query.get("page")), MEMBERS_PER_PAGE)
    return {"locks": locks, "problem": "" if snapshot.locks.result else snapshot.locks.msg}


def _members(snapshot: ClusterSnapshot, query: Form) -> Mapping[str, Any]:
    workers = paged(worker_lines(snapshot.members), page_number(query.get("page")), MEMBERS_PER_PAGE)
    return {"workers": workers, "masters": master_lines(snapshot.members), "problem": snapshot.problem}


#: The pages that update themselves. Each has a template, and a part of it below ``parts``.
LIVE_PAGES: dict[str, LivePage] = {
    "overview": _overview,
    "task": _task,
    "sources": _sources,
    "locks": _locks,
    "members": _members,
}


class Pages:
    """``call`` asks the leader; ``events`` is None until this master has reached etcd."""

    def __init__(
        self,
        call: MasterCall,
        visitors: Visitors,
        renderer: Renderer,
        live: LiveStatus,
        events: Callable[[], EventLog | None],
    ) -> None:
        self._call = call
        self._visitors = visitors
        self._renderer = renderer
        self._live = live
        self._parts = LiveParts(live)
        self._events = events

    async def live_page(self, name: str, request: Request) -> Response:
        known = self._visitors.of(request)
        if not known.sees:
            return self._visitors.turn_away(known)
        query = query_form(request)
        snapshot = await self._live.current()
        address = f"{name}?{request.scope['query_string'].decode('ascii')}"
        part = await self._parts.part(address, snapshot, partial(self._render, name, query))
        missing = name == "task" and not parts_of(snapshot, query.get("name"))
        values = {"part": part, "here": name, "live": address, "task": query.get("name"), "at": snapshot.at}
        return await self._page(f"{name}.html", request, values, status=404 if missing else 200)

    async def stream(self, request: Request) -> Response:
        """The changing part of a page as server-sent events."""
        if not self._visitors.of(request).sees:
            return PlainTextResponse("log in first\n", 403)
        address = query_form(request).get("page")
        name, query = urlsplit(address).path, Form(parse_qs(urlsplit(address).query, max_num_fields=50))
        if name not in LIVE_PAGES or len(address) > _LONGEST_ADDRESS:
            return PlainTextResponse("no such page\n", 404)
        if self._parts.streams >= MOST_STREAMS:
            return PlainTextResponse("too many browsers watch\n", 503)
        events = self._parts.events(address, partial(self._render, name, query))
        return StreamingResponse(events, media_type="text/event-stream")

    def _render(self, name: str, query: Form, snapshot: ClusterSnapshot) -> str:
        return self._renderer.page(f"parts/{name}.html", LIVE_PAGES[name](snapshot, query))

    async def rules(self, request: Request, query: Form) -> Response:
        task = query.get("task")
        answer = await self._ask("GetCfg", pb.GetCfgRequest(type=pb.TaskType, name=task))
        problem, view = "" if answer.result else answer.msg, None
        if answer.result:
            shown = await self._ask("ShowRules", pb.ShowRulesRequest(task=answer.cfg))
            problem = "" if shown.result else shown.msg
            view = rules_view(shown, page_number(query.get("page")), query.get("q")) if shown.result else None
        values = {"task": task, "problem": problem, "view": view, "search": query.get("q"), "here": "task"}
        return await self._page("rules.html", request, values)

    async def checks(self, request: Request, query: Form) -> Response:
        task = query.get("task")
        status = await self._ask("GetValidationStatus", worker_pb.GetValidationStatusRequest(taskName=task))
        found = await self._ask("GetValidationError", worker_pb.GetValidationErrorRequest(taskName=task))
        diff = await self._ask("OperateDiff", pb.OperateDiffRequest(op=worker_pb.ShowDiff, task=task))
        values = {
            "task": task,
            "validation": validation_view(status, found, page_number(query.get("rows"))),
            "comparison": comparison_view(diff, page_number(query.get("page"))),
            "here": "task",
        }
        return await self._page("checks.html", request, values)

    async def cutover(self, request: Request, query: Form) -> Response:
        """Runs the checks, which takes some seconds and changes nothing."""
        task, accepted = query.get("task"), query.all("accept")
        answer = await self._ask("CheckCutover", pb.CheckCutoverRequest(task=task, accept=accepted))
        values = {"task": task, "view": cutover_view(answer), "accepted": accepted, "here": "task"}
        return await self._page("cutover.html", request, values)

    async def configuration(self, request: Request, query: Form) -> Response:
        kind, name = query.get("kind"), query.get("name")
        tasks = await self._ask("ListTaskConfigs", Empty())
        sources = await self._ask("ListSourceConfigs", Empty())
        snapshot = await self._live.current()
        names = {
            "task": sorted(tasks.taskConfigs),
            "source": sorted(sources.sourceConfigs),
            "master": [line.name for line in master_lines(snapshot.members)],
            "worker": [line.name for line in worker_lines(snapshot.members)],
        }
        text = problem = ""
        if kind in _KINDS and name:
            answer = await self._ask("GetCfg", pb.GetCfgRequest(type=_KINDS[kind], name=name))
            text, problem = answer.cfg, "" if answer.result else answer.msg
        values = {"names": names, "kind": kind, "name": name, "text": text, "problem": problem, "here": "config"}
        return await self._page("config.html", request, values)

    async def events(self, request: Request, query: Form) -> Response:
        log = self._events()
        found, problem = [], "" if log is not None else "This master has not reached etcd yet."
        try:
            found = await run_in_threadpool(log.latest) if log is not None else []
        except DMError as exc:
            problem = str(exc)
        values = {
            "events": paged(found, page_number(query.get("page")), EVENTS_PER_PAGE),
            "problem": problem,
            "here": "events",
        }
        return await self._page("events.html", request, values)

    async def _ask(self, method: str, message: Any) -> Any:
        return await run_in_threadpool(self._call, method, message)

    async def _page(self, template: str, request: Request, values: Mapping[str, Any], status: int = 200) -> Response:
        known = self._visitors.of(request)
        return await run_in_threadpool(self._visitors.page, template, known, values, status)
