"""RegisterWorker, ListMember, OfflineMember and OperateLeader."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.secret_key import key_for
from pkg import errors
from pkg.errors import Code
from pkg.etcd import Member
from pkg.pb import dmmaster_pb2 as pb
from pkg.rpc.server import mutual
from pkg.settings.connections import SecurityConfig
from pkg.tls.client import member_context

#: Seconds that a master has to answer the health check.
HEALTH_TIMEOUT = 1.0


class MemberService:
    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster

    def register_worker(self, request: pb.RegisterWorkerRequest) -> pb.RegisterWorkerResponse:
        config = self._cluster.config
        handed_out = key_for(
            request.name, request.secretKeyProof, key=config.secret_key, mutual=mutual(config.security)
        )  # before the worker is registered: a worker that cannot read passwords must not get a source
        self._cluster.scheduler.register_worker(request.name, request.address)
        return pb.RegisterWorkerResponse(result=True, secretKey=handed_out)

    def list_member(self, request: pb.ListMemberRequest) -> pb.ListMemberResponse:
        everything = not (request.leader or request.master or request.worker)
        names = set(request.names)
        response = pb.ListMemberResponse(result=True)
        if request.leader or everything:
            response.members.append(pb.Members(leader=self._leader(names)))
        if request.master or everything:
            response.members.append(pb.Members(master=self._masters(names)))
        if request.worker or everything:
            response.members.append(pb.Members(worker=self._workers(names)))
        return response

    def offline_member(self, request: pb.OfflineMemberRequest) -> pb.OfflineMemberResponse:
        if request.type == "worker":
            self._cluster.scheduler.offline_worker(request.name)
        elif request.type == "master":
            self._remove_master(request.name)
        else:
            raise errors.new(
                Code.MasterInvalidOfflineType,
                f"offline type {request.type!r} is not valid",
                workaround="Use one of master, worker.",
            )
        return pb.OfflineMemberResponse(result=True)

    def operate_leader(self, request: pb.OperateLeaderRequest) -> pb.OperateLeaderResponse:
        """Acts on the called master, not on the leader: an evicted master must be able to campaign again."""
        if request.op == pb.EvictLeaderOp:
            self._cluster.election.evict()
        elif request.op == pb.CancelEvictLeaderOp:
            self._cluster.election.cancel_evict()
        else:
            raise errors.new(
                Code.MasterInvalidOperateOp,
                f"invalid operation {request.op} on leader",
                workaround="Use one of evict, cancel-evict.",
            )
        return pb.OperateLeaderResponse(result=True)

    def _leader(self, names: set[str]) -> pb.ListLeaderMember:
        leader = self._cluster.election.leader()
        if leader is None or (names and leader.id not in names):
            return pb.ListLeaderMember()
        return pb.ListLeaderMember(name=leader.id, addr=leader.addr)

    def _workers(self, names: set[str]) -> pb.ListWorkerMember:
        workers = sorted(self._cluster.scheduler.workers(), key=lambda one: one.name)
        return pb.ListWorkerMember(
            workers=[
                pb.WorkerInfo(
                    name=one.name,
                    addr=one.addr,
                    stage=one.stage,
                    # A relay worker keeps its source while it is offline. DM's scripts expect none until it is back.
                    source=one.source if one.stage != "offline" else "",
                )
                for one in workers
                if not names or one.name in names
            ]
        )

    def _masters(self, names: set[str]) -> pb.ListMasterMember:
        masters = [one for one in self._known_masters() if not names or one.name in names]
        if masters:
            with ThreadPoolExecutor(len(masters), thread_name_prefix="health") as pool:
                checks = pool.map(lambda one: _alive(one.clientURLs, self._cluster.config.security), masters)
                for master, alive in zip(masters, checks, strict=True):
                    master.alive = alive
        return pb.ListMasterMember(masters=masters)

    def _known_masters(self) -> list[pb.MasterInfo]:
        """etcd's members if etcd is embedded, otherwise the masters that are candidates."""
        scheme = "https" if self._cluster.config.security else "http"
        clients = {one.id: [f"{scheme}://{one.addr}"] for one in self._cluster.candidates()}
        if self._cluster.config.etcd_endpoints:
            masters = [pb.MasterInfo(name=name, clientURLs=urls) for name, urls in clients.items()]
        else:
            masters = [
                pb.MasterInfo(
                    name=member.name,
                    memberID=member.id,
                    peerURLs=member.peer_urls,
                    clientURLs=clients.get(member.name, member.client_urls),
                )
                for member in self._cluster.etcd.member_list()
            ]
        return sorted(masters, key=lambda one: one.name)

    def _remove_master(self, name: str) -> None:
        members = [] if self._cluster.config.etcd_endpoints else self._cluster.etcd.member_list()
        member = next((one for one in members if one.name == name), None)
        if member is None:
            raise errors.new(
                Code.MasterMasterNameNotExist,
                f"dm-master with name {name} not exists",
                workaround="See `list-member --master` for the names; with an external etcd there is none to remove.",
            )
        self._require_offline(member)
        self._cluster.etcd.member_remove(member.id)

    def _require_offline(self, member: Member) -> None:
        if member.name == self._cluster.config.name:
            raise errors.new(
                Code.MasterInvalidOperateOp,
                f"dm-master {member.name} leads the cluster and cannot remove itself",
                workaround="Stop it first; another master then becomes leader.",
            )


def _alive(urls: Iterable[str], security: SecurityConfig | None) -> bool:
    return any(_healthy(url, security) for url in urls)


def _healthy(url: str, security: SecurityConfig | None) -> bool:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if parts.scheme == "https" and security is not None:
        context: ssl.SSLContext = member_context(security)
        connection = http.client.HTTPSConnection(host, port, timeout=HEALTH_TIMEOUT, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=HEALTH_TIMEOUT)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
