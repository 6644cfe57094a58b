"""OperateTaskTemplate: drafts of tasks that nothing runs."""

from __future__ import annotations

from dm_master.service.cluster_access import ClusterAccess
from dm_master.task_setup.task_templates import TaskTemplates
from pkg import errors
from pkg.config.model import TaskConfig
from pkg.config.stored_secrets import with_stored_secrets
from pkg.config.task import load_task, task_to_yaml
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.settings.encrypt import encrypt
from pkg.settings.yaml_reader import REDACTED

_BLOCK = "target-database"


class TemplateService:
    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster

    @property
    def _templates(self) -> TaskTemplates:
        return TaskTemplates(self._cluster.etcd)

    def operate(self, request: pb.OperateTaskTemplateRequest) -> pb.OperateTaskTemplateResponse:
        if request.op == pb.CreateTemplate:
            return self._create(load_task(request.task))
        if request.op == pb.UpdateTemplate:
            return self._update(request.name, request.task)
        if request.op == pb.DeleteTemplate:
            if not self._templates.delete(request.name):
                raise _unknown(request.name)
            return pb.OperateTaskTemplateResponse(result=True)
        if request.op == pb.ListTemplates:
            return self._list(request.name)
        if request.op == pb.ImportTemplates:
            return self._import(request.overwrite)
        raise errors.new(
            Code.MasterInvalidOperateOp,
            f"invalid operation {request.op} on task template",
            workaround="Use one of create, update, delete, list, import.",
        )

    def _create(self, task: TaskConfig) -> pb.OperateTaskTemplateResponse:
        if not self._templates.create(task.name, self._sealed(task)):
            raise _exists(task.name)
        return _shown({task.name: task.text})

    def _update(self, name: str, text: str) -> pb.OperateTaskTemplateResponse:
        former = self._templates.all().get(name)
        if former is None:
            raise _unknown(name)
        task = load_task(with_stored_secrets(text, _BLOCK, load_task(former).target))
        if task.name != name:
            raise errors.new(
                Code.OpenAPICommonError,
                f"the task is named {task.name}, and the template {name}",
                workaround="Give both the same name: a template has its task's name.",
            )
        if not self._templates.replace(name, self._sealed(task)):
            raise _unknown(name)
        return _shown({name: task.text})

    def _list(self, name: str) -> pb.OperateTaskTemplateResponse:
        found = self._templates.all()
        if name and name not in found:
            raise _unknown(name)
        return _shown({one: text for one, text in found.items() if name in ("", one)})

    def _import(self, overwrite: bool) -> pb.OperateTaskTemplateResponse:
        """Makes a template of each task of the cluster."""
        done, failed = {}, {}
        for name in self._cluster.scheduler.tasks():
            try:
                task = self._stored(name)
                sealed = self._sealed(task)
                if not (self._templates.create(name, sealed) or (overwrite and self._templates.replace(name, sealed))):
                    raise _exists(name)
                done[name] = task_to_yaml(task)
            except DMError as exc:
                failed[name] = str(exc)
        return pb.OperateTaskTemplateResponse(result=True, templates=done, failed=failed)

    def _stored(self, name: str) -> TaskConfig:
        text = self._cluster.scheduler.task_text(name)
        subtask = next(iter(self._cluster.scheduler.subtasks(name).values()), None)
        if text is None or subtask is None:
            raise errors.new(
                Code.SchedulerTaskNotExist,
                f"task with name {name} not exist",
                workaround="It was stopped meanwhile; `query-status` lists the tasks.",
            )
        return load_task(with_stored_secrets(text, _BLOCK, subtask.to))

    def _sealed(self, task: TaskConfig) -> str:
        """The task's file as it is stored: as passwords elsewhere, encrypted if there is a secret key."""
        key = self._cluster.config.secret_key
        password = encrypt(task.target.password, key) if key and task.target.password else REDACTED
        return with_stored_secrets(task_to_yaml(task, password=password), _BLOCK, task.target)


def _shown(texts: dict[str, str]) -> pb.OperateTaskTemplateResponse:
    return pb.OperateTaskTemplateResponse(
        result=True, templates={name: task_to_yaml(text) for name, text in texts.items()}
    )


def _unknown(name: str) -> DMError:
    return errors.new(
        Code.OpenAPICommonError,
        f"there is no task template {name}",
        workaround="GET /api/v1/tasks/templates lists them.",
    )


def _exists(name: str) -> DMError:
    return errors.new(
        Code.OpenAPICommonError,
        f"a task template {name} exists already",
        workaround="Delete it, replace it by PUT, or import with `overwrite`.",
    )
