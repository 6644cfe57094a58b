"""The operations on task templates."""

from __future__ import annotations

from typing import Any

from dm_master.openapi.contract import ApiCall
from dm_master.openapi.leader import Leader
from dm_master.openapi.models import ApiTask
from dm_master.openapi.task_form import task_file, task_of
from pkg.pb import dmmaster_pb2 as pb


class TemplateOperations:
    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    def create(self, call: ApiCall) -> Any:
        task: ApiTask = call.body
        return self._one(pb.OperateTaskTemplateRequest(op=pb.CreateTemplate, task=task_file(task)))

    def show_all(self, _: ApiCall) -> Any:
        answer = self._leader.ask("OperateTaskTemplate", pb.OperateTaskTemplateRequest(op=pb.ListTemplates))
        found = [task_of(text) for _, text in sorted(answer.templates.items())]
        return {"total": len(found), "data": found}

    def get(self, call: ApiCall) -> Any:
        return self._one(pb.OperateTaskTemplateRequest(op=pb.ListTemplates, name=call.path["task-name"]))

    def update(self, call: ApiCall) -> Any:
        text, name = task_file(call.body), call.path["task-name"]
        return self._one(pb.OperateTaskTemplateRequest(op=pb.UpdateTemplate, name=name, task=text))

    def delete(self, call: ApiCall) -> None:
        request = pb.OperateTaskTemplateRequest(op=pb.DeleteTemplate, name=call.path["task-name"])
        self._leader.ask("OperateTaskTemplate", request)

    def import_all(self, call: ApiCall) -> Any:
        request = pb.OperateTaskTemplateRequest(op=pb.ImportTemplates, overwrite=call.body["overwrite"])
        answer = self._leader.ask("OperateTaskTemplate", request)
        failed = [{"task_name": name, "error_msg": text} for name, text in sorted(answer.failed.items())]
        return {"success_task_list": sorted(answer.templates), "failed_task_list": failed}

    def _one(self, request: pb.OperateTaskTemplateRequest) -> ApiTask:
        (text,) = self._leader.ask("OperateTaskTemplate", request).templates.values()
        return task_of(text)
