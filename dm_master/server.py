"""The dm-master process: its port, its etcd, its campaign for leadership, and the scheduler while it leads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping

import grpc
from google.protobuf.message import Message

from dm_master.console.app import add_console
from dm_master.cutover.runner import read_facts
from dm_master.election.campaign import Election, LeaderKey
from dm_master.election.embedded_etcd import EmbeddedEtcd
from dm_master.election.etcd_metrics import EtcdMetrics
from dm_master.master_metrics import MasterMetrics
from dm_master.openapi.routes import mount_openapi
from dm_master.precheck import check_source, run_prechecks
from dm_master.rules.dry_run import show_rules
from dm_master.scheduling.scheduler import Scheduler
from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.dispatcher import Dispatcher, handlers, no_leader, refusal, register
from dm_master.service.event_log import EventLog
from dm_master.service.http_api import add_routes
from dm_master.service.task_steps import TaskSteps
from dm_master.shardddl.lock_coordinator import LockCoordinator, LockStore
from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from dm_master.shardddl.pessimistic.lock_views import lock_states
from dm_master.task_setup.server_steps import complete, has_progress, reach_target, remove_meta
from dm_master.task_setup.start_time import start_at
from dm_master.task_setup.task_split import split_task
from dm_master.workers.worker_client import WorkerClients
from pkg import errors
from pkg.config.master import MasterConfig
from pkg.errors import Code, DMError
from pkg.etcd import EtcdClient
from pkg.ha.keys import LEADER_PREFIX
from pkg.ha.records import LeaderInfo
from pkg.process.log import get_logger
from pkg.process.version import version_text
from pkg.rpc.server import HttpRoutes, PortServer
from pkg.settings.encrypt import set_secret_key

log = get_logger("server")

#: Seconds that running calls get when the process ends.
GRACE = 5.0


class MasterServer:
    """One dm-master. ``start`` returns when it campaigns and answers; ``stop`` ends everything it started.

    Set ``ending`` to end a ``start`` that waits for the other masters of a new cluster.
    """

    def __init__(self, config: MasterConfig, ending: threading.Event | None = None) -> None:
        self._config = config
        self._ending = ending or threading.Event()
        self._cluster: ClusterAccess | None = None
        self._dispatcher: Dispatcher | None = None
        self._embedded: EmbeddedEtcd | None = None
        self._events: EventLog | None = None
        self._cleanup = contextlib.ExitStack()

    @property
    def port(self) -> int:
        return self._port.port

    def start(self) -> None:
        """Raises ``DMError``: 38017 (port), 38038 and 38040 (etcd), 42501; what was started is ended again."""
        try:
            set_secret_key(self._config.secret_key)
            # The port comes first: a master that waits for the others of a new cluster must answer health checks.
            self._open_port()
            self._join_cluster(self._start_etcd())
        except BaseException:
            self.stop()
            raise
        log.info("dm-master started", name=self._config.name, addr=self._config.master_addr)

    def stop(self) -> None:
        """Gives up leadership first, so that another master takes over while this one shuts down. Idempotent."""
        self._dispatcher = None
        self._cleanup.close()

    # --- the port ---

    def _open_port(self) -> None:
        self._metrics = MasterMetrics(self._worker_stages, self._lock_states, self._leading)
        self._metrics.metrics.add_text(EtcdMetrics(self._own_etcd, self._config.security).text)
        routes = HttpRoutes(
            status=version_text, metrics=self._metrics.metrics, ready=self._ready, hosts=self._config.hosts
        )
        add_routes(routes, self.call, self._etcd_endpoints)
        if self._config.console:
            add_console(routes, self.call, self._config.console_users_path, lambda: self._events)
        if self._config.openapi:
            mount_openapi(routes, self.call)
        host, port = self._config.listen

        def registrar(server: grpc.Server) -> None:
            register(self.call, server)

        try:
            self._port = PortServer(host, port, registrar, routes, self._config.security)
            self._port.start()
        except OSError as exc:
            raise errors.new(
                Code.MasterStartService,
                f"cannot serve at {self._config.master_addr}",
                raw=exc,
                workaround="Check master-addr (is the port in use?) and the ssl-* files.",
            ) from exc
        self._cleanup.callback(self._port.stop, GRACE)

    def call(self, method: str, request: Message, *, forwarded: bool = False) -> Message:
        """Answers one request of ``pb.Master``."""
        dispatcher = self._dispatcher
        if dispatcher is None:
            return refusal(method, request, str(no_leader(method, "this master is still starting, or is ending")))
        return dispatcher.call(method, request, forwarded=forwarded)

    def _ready(self) -> bool:
        cluster = self._cluster
        return cluster is not None and self._dispatcher is not None and cluster.election.leader() is not None

    def _leading(self) -> bool:
        return self._cluster is not None and self._cluster.scheduler.started

    def _worker_stages(self) -> dict[str, str]:
        if self._cluster is None:
            return {}
        try:
            return {worker.name: worker.stage for worker in self._cluster.scheduler.workers()}
        except DMError:
            # This master does not lead: the leader's metrics show the workers.
            return {}

    def _lock_states(self) -> Mapping[tuple[str, str], int]:
        if self._cluster is None:
            return {}
        try:
            return self._cluster.locks.term().read(lock_states)
        except DMError:
            # As above, or the locks are not read from etcd yet.
            return {}

    def _own_etcd(self) -> list[str]:
        """The client URLs of this master's member; those of an external etcd; none while it starts."""
        if self._embedded is not None:
            return self._embedded.client_endpoints
        return list(self._config.etcd_endpoints)

    def _etcd_endpoints(self) -> list[str]:
        """etcd's client URLs, of all members if etcd lists them, so that workers survive the loss of one."""
        if self._embedded is None or self._cluster is None:
            return list(self._config.etcd_endpoints) if self._cluster is not None else []
        try:
            members = self._cluster.etcd.member_list()
        except DMError as exc:
            log.warning("cannot list etcd's members; answering with this member only", error=exc)
            return self._embedded.client_endpoints
        return [url for member in members for url in member.client_urls] or self._embedded.client_endpoints

    # --- etcd and leadership ---

    def _start_etcd(self) -> list[str]:
        """The endpoints of the etcd to use, started here unless an external one is configured."""
        if self._config.etcd_endpoints:
            return list(self._config.etcd_endpoints)
        embedded = EmbeddedEtcd(self._config)
        self._cleanup.callback(embedded.stop)
        embedded.start(should_stop=self._ending.is_set)
        self._embedded = embedded
        return embedded.client_endpoints

    def _join_cluster(self, endpoints: list[str]) -> None:
        config = self._config
        etcd = EtcdClient(endpoints, tls=config.security, user=config.etcd_user)
        self._cleanup.callback(etcd.close)
        _check_access(etcd)
        workers = WorkerClients(
            timeout=config.rpc_timeout,
            rate=config.rpc_rate_limit,
            burst=config.rpc_rate_burst,
            security=config.security,
        )
        self._cleanup.callback(workers.close)
        scheduler = Scheduler(
            etcd,
            on_failure=lambda: election.resign(),
            on_change=lambda: locks.wake(),
            on_event_error=self._metrics.worker_event_error,
        )
        locks = LockCoordinator(LockStore(etcd), LockRegistry, scheduler.task_sources, self._metrics.ddl_error)
        election = Election(
            etcd,
            LeaderInfo(config.name, config.advertise_addr),
            on_elected=_starting(scheduler, locks),
            on_lost=_stopping(scheduler, locks),
            ttl=config.election_ttl,
        )
        self._cluster = ClusterAccess(config, scheduler, election, etcd, workers, locks)
        steps = TaskSteps(
            split_task,
            run_prechecks,
            show_rules,
            complete,
            remove_meta,
            reach_target,
            start_at,
            read_facts,
            has_progress,
        )
        table = handlers(self._cluster, steps, check_source)
        self._events = events = EventLog(etcd)
        self._dispatcher = Dispatcher(self._cluster, table, self._leading, events.note)
        election.start()
        self._cleanup.callback(election.stop)


def _check_access(etcd: EtcdClient) -> None:
    """Raises 42501 if etcd refuses this master. It waits, while running, for one that it cannot reach."""
    try:
        etcd.get_prefix(LEADER_PREFIX)
    except DMError as exc:
        if not exc.retryable:
            raise


def _starting(scheduler: Scheduler, locks: LockCoordinator[LockRegistry]) -> Callable[[LeaderKey], None]:
    def start(leader: LeaderKey) -> None:
        scheduler.start(leader)
        locks.start(leader)
        log.info("leading the cluster", key=leader.key)

    return start


def _stopping(scheduler: Scheduler, locks: LockCoordinator[LockRegistry]) -> Callable[[], None]:
    def stop() -> None:
        # The scheduler first: the locks may wait for its answer.
        scheduler.stop()
        locks.stop()

    return stop
