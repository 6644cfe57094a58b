"""The operations on sources."""

from __future__ import annotations

from typing import Any

from google.protobuf.empty_pb2 import Empty

from dm_master.openapi.contract import ApiCall
from dm_master.openapi.leader import Leader
from dm_master.openapi.models import ApiSource
from dm_master.openapi.plain_yaml import plain_data
from dm_master.openapi.refusal import unknown
from dm_master.openapi.source_form import source_file, source_of
from dm_master.openapi.status_form import source_status
from pkg.errors import Code
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb


class SourceOperations:
    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    # --- the sources themselves ---

    def create(self, call: ApiCall) -> Any:
        source: ApiSource = call.body["source"]
        request = pb.OperateSourceRequest(
            op=pb.StartSource, config=[source_file(source)], workerName=call.body.get("worker_name", "")
        )
        self._leader.order("OperateSource", request)
        return self._shown(source["source_name"])

    def show_all(self, call: ApiCall) -> Any:
        files = self._files()
        tasks = self._tasks()
        sources = [{**source_of(text), "task_name_list": tasks.get(name, [])} for name, text in sorted(files.items())]
        if "enable_relay" in call.query:
            pulling = {one["source_name"] for one in self._statuses(sorted(files)) if "relay_status" in one}
            sources = [one for one in sources if (one["source_name"] in pulling) == call.query["enable_relay"]]
        if call.query.get("with_status"):
            found = self._statuses([str(one["source_name"]) for one in sources])
            for source in sources:
                source["status_list"] = [one for one in found if one["source_name"] == source["source_name"]]
        return {"total": len(sources), "data": sources}

    def get(self, call: ApiCall) -> Any:
        name = call.path["source-name"]
        source = self._shown(name)
        if call.query.get("with_status"):
            source["status_list"] = self._statuses([name])
        return source

    def update(self, call: ApiCall) -> Any:
        source: ApiSource = call.body["source"]
        name = call.path["source-name"]
        if source["source_name"] != name:
            raise unknown("source", source["source_name"], Code.SchedulerSourceCfgNotExist)
        former = plain_data(self._file(name))
        request = pb.OperateSourceRequest(op=pb.UpdateSource, config=[source_file(source, former)])
        self._leader.order("OperateSource", request)
        return self._shown(name)

    def delete(self, call: ApiCall) -> None:
        name = call.path["source-name"]
        if call.query.get("force"):
            for task in self._tasks().get(name, []):
                order = pb.OperateTaskRequest(op=worker_pb.Delete, name=task, sources=[name])
                self._leader.order("OperateTask", order)
        self._leader.order("OperateSource", pb.OperateSourceRequest(op=pb.StopSource, sourceID=[name]))

    def status(self, call: ApiCall) -> Any:
        found = self._statuses([call.path["source-name"]])
        return {"total": len(found), "data": found}

    # --- what runs on them ---

    def enable(self, call: ApiCall) -> None:
        self._switch_tasks(call, pb.EnableSource)

    def disable(self, call: ApiCall) -> None:
        self._switch_tasks(call, pb.DisableSource)

    def _switch_tasks(self, call: ApiCall, op: pb.SourceOp) -> None:
        """Whether tasks run on a source."""
        self._leader.order("OperateSource", pb.OperateSourceRequest(op=op, sourceID=[call.path["source-name"]]))

    def transfer(self, call: ApiCall) -> None:
        request = pb.TransferSourceRequest(source=call.path["source-name"], worker=call.body["worker_name"])
        self._leader.ask("TransferSource", request)

    def enable_relay(self, call: ApiCall) -> None:
        """If the request has a start position, the source is changed first."""
        name = call.path["source-name"]
        places = {
            key: call.body[key] for key in ("relay_binlog_name", "relay_binlog_gtid", "relay_dir") if call.body.get(key)
        }
        if places:
            former = plain_data(self._file(name))
            changed = former | {key.replace("_", "-"): value for key, value in places.items()}
            if changed != former:
                source = source_of(self._file(name))
                source["relay_config"] = {**source["relay_config"], **places}  # type: ignore[typeddict-item]
                request = pb.OperateSourceRequest(op=pb.UpdateSource, config=[source_file(source, former)])
                self._leader.order("OperateSource", request)
        self._switch_relay(call, pb.StartRelayV2)

    def disable_relay(self, call: ApiCall) -> None:
        self._switch_relay(call, pb.StopRelayV2)

    def _switch_relay(self, call: ApiCall, op: pb.RelayOpV2) -> None:
        workers = call.body.get("worker_name_list", [])
        request = pb.OperateRelayRequest(op=op, source=call.path["source-name"], worker=workers)
        self._leader.order("OperateRelay", request)

    def purge_relay(self, call: ApiCall) -> None:
        request = pb.PurgeWorkerRelayRequest(
            sources=[call.path["source-name"]],
            filename=call.body["relay_binlog_name"],
            subDir=call.body.get("relay_dir", ""),
        )
        self._leader.order("PurgeWorkerRelay", request)

    # --- what the upstream has ---

    def list_schemas(self, call: ApiCall) -> Any:
        return self._names(call.path["source-name"], "")

    def list_tables(self, call: ApiCall) -> Any:
        return self._names(call.path["source-name"], call.path["schema-name"])

    def _names(self, source: str, schema: str) -> Any:
        answer = self._leader.ask("ListSourceNames", pb.ListSourceNamesRequest(source=source, schema=schema))
        return list(answer.names)

    # --- reading ---

    def _files(self) -> dict[str, str]:
        return dict(self._leader.ask("ListSourceConfigs", Empty()).sourceConfigs)

    def _file(self, name: str) -> str:
        """The source's file with hidden secrets."""
        files = self._files()
        if name not in files:
            raise unknown("source", name, Code.SchedulerSourceCfgNotExist)
        answer = self._leader.ask("GetCfg", pb.GetCfgRequest(type=pb.SourceType, name=name))
        return str(answer.cfg)

    def _shown(self, name: str) -> ApiSource:
        source = source_of(self._file(name))
        source["task_name_list"] = self._tasks().get(name, [])
        return source

    def _tasks(self) -> dict[str, list[str]]:
        """The tasks of each source."""
        tasks: dict[str, list[str]] = {}
        for one in self._leader.ask("ListTaskConfigs", Empty()).stages:
            tasks.setdefault(one.source, []).append(one.task)
        return tasks

    def _statuses(self, sources: list[str]) -> list[Any]:
        if not sources:
            return []
        answer = self._leader.ask("QueryStatus", pb.QueryStatusListRequest(sources=sources))
        return [source_status(one) for one in answer.sources]
