"""OperateSource and TransferSource."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dm_master.scheduling.source_binding import NO_FREE_WORKER, STOPPED_UNBOUND, exists_already
from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.stored_tasks import STOPPED
from dm_master.workers import source_transfer
from dm_master.workers.source_workers import failure, success
from dm_master.workers.stage_wait import serves, wait_for_all
from pkg import errors
from pkg.config.model import SourceConfig, SubTaskConfig
from pkg.config.source import load_source, source_id_of
from pkg.config.stored_secrets import with_stored_secrets
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.process.log import get_logger

log = get_logger("service")

CheckSource = Callable[[SourceConfig, list[str]], SourceConfig]
OperateTask = Callable[[pb.OperateTaskRequest], pb.OperateTaskResponse]


class SourceService:
    """``check`` connects to a source and completes its configuration (flavor, server id); it extends ``warnings``.
    ``operate_task`` answers OperateTask."""

    def __init__(self, cluster: ClusterAccess, check: CheckSource, operate_task: OperateTask) -> None:
        self._cluster = cluster
        self._check = check
        self._operate_task = operate_task

    def operate_source(self, request: pb.OperateSourceRequest) -> pb.OperateSourceResponse:
        if request.op == pb.StartSource:
            return self._create(request)
        if request.op == pb.StopSource:
            return self._stop(_named(request))
        if request.op == pb.ShowSource:
            return self._show(_named(request))
        if request.op == pb.UpdateSource:
            return self._update(request)
        if request.op == pb.EnableSource:
            return self._enable(_named(request))
        if request.op == pb.DisableSource:
            return self._disable(_named(request))
        raise errors.new(
            Code.MasterInvalidOperateOp,
            f"invalid operation {request.op} on source",
            workaround="Use one of create, update, stop, show, enable, disable.",
        )

    def transfer_source(self, request: pb.TransferSourceRequest) -> pb.TransferSourceResponse:
        """Running tasks are paused for the move. They must be in Sync: the files of a full copy stay on the old
        worker."""
        with source_transfer.paused(self._cluster, request.source):
            message = self._cluster.scheduler.transfer_source(request.source, request.worker)
        return pb.TransferSourceResponse(result=True, msg=message)

    def _create(self, request: pb.OperateSourceRequest) -> pb.OperateSourceResponse:
        if request.workerName and len(request.config) > 1:
            raise errors.new(
                Code.MasterInvalidOperateOp,
                "several sources cannot be created when a worker is specified",
                workaround="Create them one by one, or omit the worker.",
            )
        # All files are parsed and all servers reached before the first source is stored: most mistakes change nothing.
        warnings: list[str] = []
        parsed = [load_source(text, f"source {number}", warnings) for number, text in enumerate(request.config, 1)]
        # Checked before the server is queried: there, the source's own relay uses the server-id.
        known = self._cluster.scheduler.sources()
        for config in parsed:
            if config.source_id in known:
                raise exists_already(config.source_id)
        checked = [self._check(config, warnings) for config in parsed]
        messages = self._add_all(checked, request.workerName)
        bound = [source for source in messages if self._cluster.scheduler.bound_worker(source) is not None]
        answers = wait_for_all(self._cluster, bound, "", serves, "the source's worker has taken it")
        answers += [
            success(source, msg=messages[source] or NO_FREE_WORKER) for source in messages if source not in bound
        ]
        answers.sort(key=_source_of)
        return pb.OperateSourceResponse(result=True, sources=answers, warnings=dict.fromkeys(warnings))

    def _add_all(self, configs: list[SourceConfig], worker: str) -> dict[str, str]:
        """Stores all or none; returns the scheduler's message for each."""
        messages: dict[str, str] = {}
        try:
            for config in configs:
                messages[config.source_id] = self._cluster.scheduler.add_source(config, worker)
        except DMError:
            for source in messages:
                self._take_back(source)
            raise
        return messages

    def _take_back(self, source: str) -> None:
        try:
            self._cluster.scheduler.remove_source(source)
        except DMError as exc:
            # The operator must see the first error; this one follows from it.
            log.error("cannot remove a source that was created before a failure", source=source, error=str(exc))

    def _stop(self, sources: list[str]) -> pb.OperateSourceResponse:
        if not sources:
            return pb.OperateSourceResponse(msg="no source is given to be stopped")
        self._require_known(sources)
        response = pb.OperateSourceResponse(result=True)
        for source in sources:
            worker = self._cluster.scheduler.bound_worker(source)
            message = self._cluster.scheduler.remove_source(source)
            if worker is None:
                response.sources.append(success(source, msg=message or STOPPED_UNBOUND))
            else:
                response.sources.append(success(source, worker.name, message))
        return response

    def _show(self, sources: list[str]) -> pb.OperateSourceResponse:
        self._require_known(sources)
        response = pb.OperateSourceResponse(result=True)
        chosen = sources or sorted(self._cluster.scheduler.sources())
        for source in chosen:
            worker = self._cluster.scheduler.bound_worker(source)
            answer = success(source, msg=NO_FREE_WORKER) if worker is None else success(source, worker.name)
            response.sources.append(answer)
        return response

    def _update(self, request: pb.OperateSourceRequest) -> pb.OperateSourceResponse:
        """Replaces sources that no running task uses; nothing of the old configuration stays but hidden secrets."""
        warnings: list[str] = []
        updated = [self._updated(text, f"source {number}", warnings) for number, text in enumerate(request.config, 1)]
        names = []
        for config, subtasks in updated:
            self._cluster.scheduler.update_source(config, subtasks)
            names.append(config.source_id)
        bound = [source for source in names if self._cluster.scheduler.bound_worker(source) is not None]
        answers = wait_for_all(self._cluster, bound, "", serves, "the source's worker has taken it")
        answers += [success(source, msg=NO_FREE_WORKER) for source in names if source not in bound]
        answers.sort(key=_source_of)
        return pb.OperateSourceResponse(result=True, sources=answers, warnings=dict.fromkeys(warnings))

    def _updated(self, text: str, path: str, warnings: list[str]) -> tuple[SourceConfig, list[SubTaskConfig]]:
        """The new configuration, checked with its server, and the source's subtasks with it."""
        name = source_id_of(text, path)
        # Before the server is asked: the source's own relay log and tasks use its server-id there.
        self._cluster.scheduler.ensure_updatable(name)
        former = self._cluster.scheduler.sources()[name]
        config = load_source(with_stored_secrets(text, "from", former.from_), path, warnings)
        if not config.server_id:
            config = replace(config, server_id=former.server_id)
        if config.enable_relay != former.enable_relay:
            raise _not_by_update("enable-relay", "`start-relay` and `stop-relay` switch the relay log.")
        tasks = self._cluster.scheduler.tasks()
        found = [self._cluster.scheduler.subtasks(task).get(config.source_id) for task in tasks]
        subtasks = [subtask for subtask in found if subtask is not None]
        fixed = [] if not subtasks else [
            key
            for key in ("flavor", "enable_gtid", "case_sensitive")
            if getattr(config, key) not in ("", getattr(former, key))
        ]  # fmt: skip
        if fixed:
            keys = ", ".join(key.replace("_", "-") for key in fixed)
            raise _not_by_update(keys, "Stop the source's tasks first: what they have replicated depends on it.")
        checked = self._check(config, warnings)
        return checked, [_of_source(subtask, former, checked) for subtask in subtasks]

    def _enable(self, sources: list[str]) -> pb.OperateSourceResponse:
        """Tasks may run on the sources, and those that are stopped there start."""
        self._require_known(sources)
        known = self._cluster.scheduler.sources()
        for source in sources:
            self._cluster.scheduler.set_enabled(known[source], True)
        answers = [_of_tasks(source, self._operate_tasks(source, worker_pb.Start)) for source in sources]
        return pb.OperateSourceResponse(result=True, sources=answers)

    def _disable(self, sources: list[str]) -> pb.OperateSourceResponse:
        """All tasks stop on the sources and stay in the cluster; then none may run there. A source with a task that
        does not stop stays enabled."""
        self._require_known(sources)
        known = self._cluster.scheduler.sources()
        answers = []
        for source in sources:
            problems = self._operate_tasks(source, worker_pb.Stop)
            if not problems:
                self._cluster.scheduler.set_enabled(known[source], False)
            answers.append(_of_tasks(source, problems))
        return pb.OperateSourceResponse(result=True, sources=answers)

    def _operate_tasks(self, source: str, op: worker_pb.TaskOp) -> list[str]:
        """Starts the stopped tasks of a source, or stops the others; returns why a task could not."""
        problems: list[str] = []
        for task, stages in sorted(self._cluster.scheduler.tasks().items()):
            if source not in stages or (stages[source] == STOPPED) != (op == worker_pb.Start):
                continue
            request = pb.OperateTaskRequest(op=op, keep=op == worker_pb.Stop, name=task, sources=[source])
            try:
                answer = self._operate_task(request)
            except DMError as exc:
                problems.append(str(exc))
                continue
            problems += [answer.msg] if not answer.result else [one.msg for one in answer.sources if not one.result]
        return problems

    def _require_known(self, sources: list[str]) -> None:
        known = self._cluster.scheduler.sources()
        unknown = [source for source in sources if source not in known]
        if unknown:
            raise errors.new(
                Code.SchedulerSourceCfgNotExist,
                f"source config with ID {', '.join(unknown)} not exists",
                workaround="See `operate-source show` for the sources that exist.",
            )


def _of_tasks(source: str, problems: Sequence[str]) -> worker_pb.CommonWorkerResponse:
    return failure(source, "; ".join(problems)) if problems else success(source)


def _of_source(subtask: SubTaskConfig, former: SourceConfig, new: SourceConfig) -> SubTaskConfig:
    """``subtask`` with the settings of its changed source."""
    own = subtask.filters[: len(subtask.filters) - len(former.filters)]
    return replace(
        subtask,
        from_=new.from_,
        server_id=new.server_id,
        relay_dir=new.relay_dir,
        flavor=new.flavor or subtask.flavor,
        enable_gtid=new.enable_gtid,
        filters=own + new.filters,
    )


def _not_by_update(keys: str, workaround: str) -> DMError:
    return errors.new(
        Code.SchedulerSourceCfgUpdate, f"{keys} cannot change by an update of the source", workaround=workaround
    )


def _named(request: pb.OperateSourceRequest) -> list[str]:
    """The sources by their ids, and by the contents of their files, which DM's client sends."""
    parsed = [load_source(text, f"source {number}", []) for number, text in enumerate(request.config, 1)]
    return list(dict.fromkeys([*request.sourceID, *(config.source_id for config in parsed)]))


def _source_of(answer: worker_pb.CommonWorkerResponse) -> str:
    return answer.source
