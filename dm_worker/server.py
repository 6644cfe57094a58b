"""The dm-worker process: its port, its membership, the source it serves, and their shutdown order."""

from __future__ import annotations

import threading
from functools import partial

from dm_worker.diff.servers_diff import ServersDiffs
from dm_worker.engine.engine import DEFAULT_DRIVER_MEMORY, DEFAULT_MEMORY, SparkEngine
from dm_worker.engine.security import require_protection
from dm_worker.membership.membership import FIRST_JOIN_TRIES, JOIN_PAUSE, Identity, Membership
from dm_worker.membership.registration import register
from dm_worker.relay.source_relay import SourceRelay
from dm_worker.service import WorkerService
from dm_worker.source.binder import Binder
from dm_worker.source.purge_watch import PurgeWatch
from dm_worker.source.unit_factory import UnitFactory, make_unit
from dm_worker.source.worker_metrics import WorkerMetrics
from dm_worker.syncer.figures.sync_figures import SyncFigures
from pkg import errors, native
from pkg.config.worker import DEFAULT_SLOTS, WorkerConfig
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb
from pkg.pb import dmworker_pb2_grpc
from pkg.process.log import get_logger
from pkg.process.metrics import Metrics
from pkg.process.version import version_text
from pkg.rpc.server import HttpRoutes, PortServer
from pkg.settings.units import parse_size

log = get_logger(__name__)

#: Grace period in seconds for running calls when the port closes.
_PORT_GRACE = 1.0


class WorkerServer:
    """One dm-worker. ``units`` creates the units (tests pass others). Raises 40003 for an unsafe engine.

    :meth:`run` blocks until :meth:`stop`, which may be called from any thread or signal handler.
    """

    def __init__(
        self,
        config: WorkerConfig,
        *,
        units: UnitFactory = make_unit,
        join_pause: float = JOIN_PAUSE,
        join_tries: int = FIRST_JOIN_TRIES,
    ) -> None:
        require_protection(config)
        self._config = config
        self._stuck = threading.Event()
        self._engine = SparkEngine(
            master=config.spark.master,
            slots=config.spark.slots or DEFAULT_SLOTS,
            conf=config.spark.conf,
            driver_memory=config.spark.driver_memory or DEFAULT_DRIVER_MEMORY,
            memory=parse_size(config.spark.memory_budget) if config.spark.memory_budget else DEFAULT_MEMORY,
            executor_timeout=config.spark.executor_timeout,
        )
        self._diffs = ServersDiffs(self._engine)
        self._metrics = WorkerMetrics(Metrics(), config.name)
        self._binder = Binder(
            config.name, self._engine, units, self._metrics, on_stuck=self._on_stuck, relay_dir=config.relay_dir
        )
        self._metrics.expose(self._statuses)
        self._metrics.follow_figures(self._figures)
        self._metrics.follow_engine(self._engine.figures)
        self._metrics.follow_relay(self._relay)
        self._metrics.follow_purges(self._purge_watch)
        self._membership = Membership(
            Identity(config.name, config.keepalive_ttl, config.security, config.etcd_user),
            partial(
                register,
                config.master_addresses,
                config.name,
                config.advertise_addr,
                config.security,
                config.secret_key,
            ),
            self._binder,
            pause=join_pause,
            tries=join_tries,
        )
        self._port = PortServer(*config.listen, self._add_services, self._routes(), config.security)

    @property
    def port(self) -> int:
        """The port that is listened on; valid once the worker listens."""
        return self._port.port

    def run(self) -> None:
        """Serves until stopped; then ends subtasks, lease, comparisons, Spark and port, in this order.

        Raises 40048 when the address is in use, 46003 or 40077 when the worker cannot join the cluster, 40083 when a
        unit could not be stopped and only the end of the process stops it.
        """
        self._open_port()
        try:
            self._membership.run()
        finally:
            self._diffs.close()
            self._engine.close()
            self._port.stop(_PORT_GRACE)
        if self._stuck.is_set():
            raise errors.new(
                Code.WorkerServerClosed,
                "a unit did not stop although it was killed, so the whole process ends",
                workaround="Start the worker again; all tasks resume. The log names the task.",
            )
        log.info("worker stopped", worker=self._config.name)

    def stop(self) -> None:
        """Requests a graceful end; returns at once."""
        self._membership.stop()

    def _open_port(self) -> None:
        try:
            self._port.start()
        except OSError as exc:
            raise errors.new(
                Code.WorkerStartService,
                f"cannot listen on {self._config.worker_addr}",
                raw=exc,
                workaround="Is another process using the port? Set another worker-addr.",
            ) from exc
        address = self._config.worker_addr
        log.info("worker listens", worker=self._config.name, address=address, kernel=native.in_use())
        for warning in _kernel_warnings():
            log.warning("compiled code is missing", worker=self._config.name, warning=warning)

    def _on_stuck(self) -> None:
        self._stuck.set()
        self._membership.stop()

    def _add_services(self, server: object) -> None:
        service = WorkerService(self._config, self._binder, self._diffs, self._warnings)
        dmworker_pb2_grpc.add_WorkerServicer_to_server(service, server)  # type: ignore[no-untyped-call]

    def _warnings(self) -> list[str]:
        return [*_kernel_warnings(), *self._engine.warnings]

    def _routes(self) -> HttpRoutes:
        return HttpRoutes(status=version_text, metrics=self._metrics.metrics, ready=lambda: self._membership.alive)

    def _relay(self) -> SourceRelay | None:
        relayed = self._binder.relayed
        return None if relayed is None else relayed.relay

    def _purge_watch(self) -> tuple[str, PurgeWatch | None]:
        relayed = self._binder.relayed
        return ("", None) if relayed is None else (relayed.source.source_id, relayed.purge_watch)

    def _figures(self) -> tuple[str, list[tuple[str, SyncFigures]]]:
        current = self._binder.current
        return ("", []) if current is None else (current.source.source_id, current.figures())

    def _statuses(self) -> tuple[str, list[pb.SubTaskStatus]]:
        current = self._binder.current
        return ("", []) if current is None else (current.source.source_id, current.status())


def _kernel_warnings() -> list[str]:
    trouble = native.trouble()
    return [f"{trouble} Build it with `make kernel` or `make setup`, then restart the worker."] if trouble else []
