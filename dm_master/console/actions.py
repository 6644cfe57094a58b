"""The pages that change something: a preview, then a form with a token, then the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from dm_master.console.compose import MODES, SHARD_MODES, source_file, task_file
from dm_master.console.forms import Form, read_form
from dm_master.console.live import LiveStatus
from dm_master.console.orders import given, order
from dm_master.console.view.findings import FindingsView, findings
from dm_master.console.view.overview import source_lines, workers_for
from dm_master.console.visitors import Visitors
from dm_master.service.dispatcher import MasterCall
from dm_master.service.event_log import acting_as
from pkg.pb import dmmaster_pb2 as pb
from pkg.process.log import get_logger
from pkg.status.preview import preview

log = get_logger("console")

#: The most findings of each kind that a form shows.
_MOST_FINDINGS = 50


class Actions:
    def __init__(self, call: MasterCall, visitors: Visitors, live: LiveStatus) -> None:
        self._call = call
        self._visitors = visitors
        self._live = live

    async def confirm(self, request: Request, query: Form) -> Response:
        """Shows the effects of an order before it is sent."""
        made = order(query.get("do"), query)
        described = preview(*made) if made is not None else None
        if described is None:
            return await self._page("missing.html", request, {"what": "such an order"}, 404)
        values = {"preview": described, "order": query.get("do"), "fields": given(query), "here": "task"}
        return await self._page("confirm.html", request, values)

    async def carry_out(self, request: Request) -> Response:
        form = await read_form(request)
        if not self._visitors.may_act(request, form):
            return await self._refused(request)
        made = order(form.get("do"), form)
        described = preview(*made) if made is not None else None
        if made is None or described is None:
            return await self._page("missing.html", request, {"what": "such an order"}, 404)
        answer = await self._ask(request, *made)
        parts = list(getattr(answer, "sources", ()))
        failed = not answer.result or any(not one.result for one in parts)
        values = {
            "preview": described,
            "failed": failed,
            "message": answer.msg,
            "parts": [(one.source, one.result, one.msg) for one in parts],
            "back": _page_of(form),
            "here": "task",
        }
        return await self._page("result.html", request, values)

    async def show_purge(self, request: Request, query: Form) -> Response:
        source = query.get("source")
        lines = source_lines((await self._live.current()).status)
        line = next((one for one in lines if one.name == source and one.relay), None)
        return await self._page("purge.html", request, {"source": source, "line": line, "here": "sources"})

    async def show_move(self, request: Request, query: Form) -> Response:
        source, snapshot = query.get("source"), await self._live.current()
        line = next((one for one in source_lines(snapshot.status) if one.name == source), None)
        values = {"source": source, "line": line, "workers": workers_for(snapshot.members, source), "here": "sources"}
        return await self._page("move.html", request, values)

    async def show_source_form(self, request: Request, _: Form) -> Response:
        return await self._source_form(request, {}, "")

    async def add_source(self, request: Request) -> Response:
        form = await read_form(request)
        if not self._visitors.may_act(request, form):
            return await self._refused(request)
        order_ = pb.OperateSourceRequest(op=pb.StartSource, config=[source_file(form)])
        answer = await self._ask(request, "OperateSource", order_)
        problems = [answer.msg, *(one.msg for one in answer.sources if not one.result)]
        if answer.result and all(one.result for one in answer.sources):
            notes = [*(one.msg for one in answer.sources), *answer.warnings]
            values = {"title": f"Source {form.get('source')} is added", "notes": [*filter(None, notes)]}
            return await self._page("added.html", request, {**values, "page": "sources", "name": "", "here": "sources"})
        shown = {name: form.get(name) for name in ("source", "host", "port", "user", "gtid", "relay")}
        return await self._source_form(request, shown, "; ".join(filter(None, problems)), 422)

    async def show_task_form(self, request: Request, _: Form) -> Response:
        return await self._task_form(request, Form({}), None)

    async def compose_task(self, request: Request) -> Response:
        """Checks the task or starts it, depending on which of the form's two buttons was pressed."""
        form = await read_form(request)
        if not self._visitors.may_act(request, form):
            return await self._refused(request)
        try:
            text = task_file(form)
        except ValueError as exc:
            return await self._task_form(request, form, findings(False, str(exc)), 422)
        if form.get("do") != "start":
            asked = pb.CheckTaskRequest(task=text, errCnt=_MOST_FINDINGS, warnCnt=_MOST_FINDINGS)
            checked = await self._ask(request, "CheckTask", asked)
            return await self._task_form(request, form, findings(checked.result, checked.msg))
        answer = await self._ask(request, "StartTask", pb.StartTaskRequest(task=text))
        problems = [f"{one.source}: {one.msg}" for one in answer.sources if not one.result]
        if answer.result and not problems:
            values = {"title": f"Task {form.get('name')} runs", "notes": list(answer.warnings)}
            values |= {"page": "task", "name": form.get("name"), "here": "task"}
            return await self._page("added.html", request, values)
        report = answer.checkResult or "; ".join(filter(None, [answer.msg, *problems]))
        return await self._task_form(request, form, findings(False, report), 422)

    async def _source_form(
        self, request: Request, shown: Mapping[str, str], problem: str, status: int = 200
    ) -> Response:
        described = preview("OperateSource", pb.OperateSourceRequest(op=pb.StartSource))
        values = {"shown": shown, "problem": problem, "preview": described, "here": "sources"}
        return await self._page("add_source.html", request, values, status)

    async def _task_form(self, request: Request, form: Form, found: FindingsView | None, status: int = 200) -> Response:
        snapshot = await self._live.current()
        values = {
            "form": form,
            "findings": found,
            "sources": sorted({line.name for line in source_lines(snapshot.status)}),
            "chosen": form.all("sources"),
            "modes": MODES,
            "shard_modes": SHARD_MODES,
            "preview": preview("StartTask", pb.StartTaskRequest()),
            "here": "task",
        }
        return await self._page("add_task.html", request, values, status)

    async def _ask(self, request: Request, method: str, message: Any) -> Any:
        known = self._visitors.of(request)
        answer = await run_in_threadpool(self._as_user, f"console: {known.name}", method, message)
        self._live.expire()
        return answer

    def _as_user(self, name: str, method: str, message: Any) -> Any:
        with acting_as(name):
            return self._call(method, message)

    async def _refused(self, request: Request) -> Response:
        known = self._visitors.of(request)
        log.warning("a change without a login, or without its page's token, was refused", visitor=known.name)
        return self._visitors.turn_away(known)

    async def _page(self, template: str, request: Request, values: Mapping[str, Any], status: int = 200) -> Response:
        known = self._visitors.of(request)
        return await run_in_threadpool(self._visitors.page, template, known, values, status)


def _page_of(form: Form) -> tuple[str, dict[str, str]]:
    """The page of what an order is about, and its query."""
    task, name = form.get("task"), form.get("do")
    if task and name.endswith(("-diff", "-validation", "-error")):
        return "checks", {"task": task}
    if task:
        return "task", {"name": task}
    if name in ("remove-worker", "remove-master"):
        return "members", {}
    return ("sources" if form.get("source") else "locks" if form.get("lock") else "overview"), {}
