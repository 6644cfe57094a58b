"""The operations on tasks, and the conversion between their two forms."""

from __future__ import annotations

from typing import Any, cast

from google.protobuf.empty_pb2 import Empty

from dm_master.openapi.contract import ApiCall
from dm_master.openapi.leader import Leader
from dm_master.openapi.models import ApiSubTaskStatus, ApiTask
from dm_master.openapi.refusal import bad_request, unknown
from dm_master.openapi.status_form import missing_subtask, subtask_status
from dm_master.openapi.task_form import task_file, task_of
from pkg.config.task import load_task
from pkg.errors import Code
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.rules.selector import NamePattern
from pkg.settings.units import parse_duration


class TaskOperations:
    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    def create(self, call: ApiCall) -> Any:
        task: ApiTask = call.body["task"]
        answer = self._leader.ask("StoreTask", pb.StoreTaskRequest(task=task_file(task)))
        return {"task": self._shown(task["name"]), "check_result": answer.checkResult}

    def show_all(self, call: ApiCall) -> Any:
        answer = self._leader.ask("ListTaskConfigs", Empty())
        sources = call.query.get("source_name_list", [])
        chosen = {one.task for one in answer.stages if not sources or one.source in sources}
        tasks = {name: task_of(text) for name, text in sorted(answer.taskConfigs.items()) if name in chosen}
        stage = call.query.get("stage")
        if stage or call.query.get("with_status"):
            for name, found in self._statuses(list(tasks)).items():
                tasks[name]["status_list"] = found
                if stage and stage not in {one["stage"] for one in found}:
                    del tasks[name]
        if not call.query.get("with_status"):
            for task in tasks.values():
                task.pop("status_list", None)
        return {"total": len(tasks), "data": list(tasks.values())}

    def get(self, call: ApiCall) -> Any:
        name = call.path["task-name"]
        task = self._shown(name)
        if call.query.get("with_status"):
            task["status_list"] = self._statuses([name])[name]
        return task

    def update(self, call: ApiCall) -> Any:
        task: ApiTask = call.body["task"]
        name = call.path["task-name"]
        if task["name"] != name:
            raise bad_request(f"the path names task {name}, and the body {task['name']}", "A task keeps its name.")
        answer = self._leader.order("UpdateTask", pb.UpdateTaskRequest(task=task_file(task)))
        return {"task": self._shown(name), "check_result": answer.checkResult}

    def delete(self, call: ApiCall) -> None:
        """Of a task that runs only with ``force``; then also when its target does not answer."""
        name, force, keep = call.path["task-name"], call.query.get("force"), call.query.get("keep_meta")
        running = [
            f"{one.source} ({one.stage})"
            for one in self._leader.ask("ListTaskConfigs", Empty()).stages
            if one.task == name and one.stage != "Stopped"
        ]
        if running and not force:
            raise bad_request(f"task {name} is not stopped on {', '.join(running)}", "Stop it first, or give force.")
        order = pb.OperateTaskRequest(op=worker_pb.Delete, name=name, removeMeta=not keep, force=force)
        self._leader.order("OperateTask", order)

    def status(self, call: ApiCall) -> Any:
        sources = call.query.get("source_name_list", [])
        found = self._status(call.path["task-name"], sources)
        return {"total": len(found), "data": found}

    def start(self, call: ApiCall) -> None:
        body = call.body
        order = pb.OperateTaskRequest(
            op=worker_pb.Start,
            name=call.path["task-name"],
            sources=body.get("source_name_list", []),
            removeMeta=body["remove_meta"],
            startTime=body.get("start_time", ""),
            safeModeDuration=body.get("safe_mode_time_duration", ""),
        )
        self._leader.order("OperateTask", order)

    def stop(self, call: ApiCall) -> None:
        order = pb.OperateTaskRequest(
            op=worker_pb.Stop,
            keep=True,
            name=call.path["task-name"],
            sources=call.body.get("source_name_list", []),
            seconds=_seconds(call.body.get("timeout_duration", "")),
        )
        self._leader.order("OperateTask", order)

    def migrate_targets(self, call: ApiCall) -> Any:
        """What the task's rules do with the tables that the source has now."""
        name, source = call.path["task-name"], call.path["source-name"]
        text = self._text(name)
        request = pb.ShowRulesRequest(task=text, sources=[source])
        schema, table = (_pattern(call.query.get(f"{part}_pattern", "")) for part in ("schema", "table"))
        found = [
            {
                "source_schema": one.schema,
                "source_table": one.table,
                "target_schema": one.targetSchema,
                "target_table": one.targetTable,
            }
            for one in self._leader.ask("ShowRules", request).tables
            if not one.leftOut and _fits(schema, one.schema) and _fits(table, one.table)
        ]
        return {"total": len(found), "data": found}

    def convert(self, call: ApiCall) -> Any:
        """Nothing is stored, and no server asked."""
        task, text = call.body.get("task"), call.body.get("task_config_file")
        if (task is None) == (text is None):
            raise bad_request("either task or task_config_file must be given")
        if text is None:
            text = task_file(cast(ApiTask, task))
            load_task(text)
        return {"task": task_of(text, secrets=True), "task_config_file": text}

    # --- reading ---

    def _text(self, name: str) -> str:
        texts = self._leader.ask("ListTaskConfigs", Empty()).taskConfigs
        if name not in texts:
            raise unknown("task", name, Code.SchedulerTaskNotExist)
        return str(texts[name])

    def _shown(self, name: str) -> ApiTask:
        return task_of(self._text(name))

    def _statuses(self, names: list[str]) -> dict[str, list[ApiSubTaskStatus]]:
        return {name: self._status(name, []) for name in names}

    def _status(self, name: str, sources: list[str]) -> list[ApiSubTaskStatus]:
        answer = self._leader.ask("QueryStatus", pb.QueryStatusListRequest(name=name, sources=sources))
        found = []
        for one in answer.sources:
            mine = [subtask_status(one, each) for each in one.subTaskStatus if each.name == name]
            found += mine or [missing_subtask(one, name)]
        return found


def _seconds(duration: str) -> float:
    try:
        return parse_duration(duration) if duration else 0.0
    except ValueError as exc:
        raise bad_request(f"timeout_duration: {exc}", "Write a duration such as 60s.") from None


def _pattern(text: str) -> NamePattern | None:
    try:
        return NamePattern(text, case_sensitive=False) if text else None
    except ValueError as exc:
        raise bad_request(
            f"{text!r} is not a pattern: {exc}", "Patterns are as in routes: docs/configuration.md."
        ) from None


def _fits(pattern: NamePattern | None, name: str) -> bool:
    return pattern is None or pattern.matches(name)
