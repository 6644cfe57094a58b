"""OperateClusterInfo: the cluster's id, and what operators say of its hosts."""

from __future__ import annotations

from dm_master.service.cluster_access import ClusterAccess
from pkg.ha.keys import CLUSTER_TOPOLOGY_KEY
from pkg.pb import dmmaster_pb2 as pb


class ClusterInfoService:
    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster

    def operate(self, request: pb.OperateClusterInfoRequest) -> pb.OperateClusterInfoResponse:
        """Stores the topology if there is one. Nothing reads it but this: it is for the tools that deploy."""
        etcd = self._cluster.etcd
        if request.topology:
            etcd.put(CLUSTER_TOPOLOGY_KEY, request.topology)
        stored = etcd.get(CLUSTER_TOPOLOGY_KEY)
        topology = stored.value if stored is not None else ""
        return pb.OperateClusterInfoResponse(result=True, clusterID=etcd.cluster_id(), topology=topology)
