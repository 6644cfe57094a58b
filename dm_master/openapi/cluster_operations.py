"""The operations on the cluster: masters, workers, topology."""

from __future__ import annotations

import json
from typing import Any

from dm_master.openapi.contract import ApiCall
from dm_master.openapi.leader import Leader
from dm_master.openapi.models import ApiClusterMaster, ApiClusterWorker
from pkg.pb import dmmaster_pb2 as pb


class ClusterOperations:
    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    def get_info(self, _: ApiCall) -> Any:
        return self._info("")

    def update_info(self, call: ApiCall) -> Any:
        return self._info(json.dumps(call.body))

    def _info(self, topology: str) -> Any:
        answer = self._leader.ask("OperateClusterInfo", pb.OperateClusterInfoRequest(topology=topology))
        info = {"cluster_id": answer.clusterID}
        return info | ({"topology": json.loads(answer.topology)} if answer.topology else {})

    def list_masters(self, _: ApiCall) -> Any:
        answer = self._leader.ask("ListMember", pb.ListMemberRequest(master=True, leader=True))
        leaders = {member.leader.name for member in answer.members if member.HasField("leader")}
        masters: list[ApiClusterMaster] = [
            {
                "name": one.name,
                "alive": one.alive,
                "leader": one.name in leaders,
                "addr": next(iter(one.clientURLs), ""),
            }
            for member in answer.members
            for one in member.master.masters
        ]
        return {"total": len(masters), "data": masters}

    def list_workers(self, _: ApiCall) -> Any:
        answer = self._leader.ask("ListMember", pb.ListMemberRequest(worker=True))
        workers: list[ApiClusterWorker] = [
            {"name": one.name, "addr": one.addr, "bound_stage": one.stage, "bound_source_name": one.source}
            for member in answer.members
            for one in member.worker.workers
        ]
        return {"total": len(workers), "data": workers}

    def offline_master(self, call: ApiCall) -> None:
        self._offline("master", call.path["master-name"])

    def offline_worker(self, call: ApiCall) -> None:
        self._offline("worker", call.path["worker-name"])

    def _offline(self, kind: str, name: str) -> None:
        self._leader.ask("OfflineMember", pb.OfflineMemberRequest(type=kind, name=name))
