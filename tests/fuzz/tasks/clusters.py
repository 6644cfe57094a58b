"""Histories in a cluster of real processes (dm-master, dm-workers, Spark), driven by dmctl, with kill -9 among them."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deploy.local.cluster import Cluster
from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError, wait_until
from pkg.binlog.position import parse_position
from pkg.config.model import SubTaskConfig
from tests.fuzz.played import Hang, Stopped
from tests.fuzz.tasks.events import Events
from tests.fuzz.tasks.task_files import task_file
from tests.fuzz.tasks.task_run import HANG, LATE
from tests.harness.proctree import kill_hard, spark_workers
from tests.integration.syncer.support import location

_WORKERS = 2
#: They need what no cluster of a search has: a relay, another server, a task that waits for RESET.
_NOT_IN_CLUSTERS = frozenset({"reset", "failover", "relay restart", "relay killed", "relay purge"})
#: Seconds for what a killed process makes the others wait: a lease ends, a JVM starts.
_SLOW = 4 * HANG
#: Seconds for which an error must come again and again: a worker tries by itself what may pass, and more often than
#: it says so.
_STAYS = 12.0
_KEEPALIVE = 10
_CODE = re.compile(r"code=(\d+)")


def plays_in_cluster(settings: Mapping[str, str]) -> bool:
    """Whether a cluster can play histories with these settings: of one source, with replication."""
    return (
        settings["event"] not in _NOT_IN_CLUSTERS
        and settings["mode"] in ("all", "incremental")
        and not settings.get("merge", "none").endswith("sources")
    )


class FuzzCluster:
    """The cluster of a search. It starts with its first task. ``compared``: how many histories it played to the end."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self.compared = 0

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(_WORKERS, keepalive_ttl=_KEEPALIVE)
            self._cluster.start()
        return self._cluster

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()


class ClusterRun:
    """The task ``cfg`` in a cluster, in place of :class:`tests.fuzz.tasks.task_run.TaskRun`."""

    def __init__(self, cfg: SubTaskConfig, home: FuzzCluster, upstream: SQLServer, seed: int) -> None:
        # A source's settings hold for all of its tasks, so each task has one of its own.
        self.cfg = replace(cfg, source_id=f"source-{cfg.name}")
        self._cluster = home.cluster
        self._rng = random.Random(seed)
        self._upstream = upstream
        self._begun = False
        #: Relay logs are the business of histories in threads.
        self.has_read_relay = False
        self._create_source()

    def _create_source(self) -> None:
        path = self._cluster.dir / f"{self.cfg.source_id}.yaml"
        path.write_text(
            f"source-id: {self.cfg.source_id}\nenable-gtid: {str(self.cfg.enable_gtid).lower()}\n"
            "checker: {check-interval: 1s, backoff-max: 2s}\n"
            f"from: {{host: 127.0.0.1, port: {self._upstream.port}, user: root, password: ''}}\n"
        )
        self._order("operate-source", "create", str(path))

    def _order(self, *command: str) -> None:
        """A command of dmctl. After a kill it may be a while before a master leads and workers answer."""
        end = time.monotonic() + _SLOW
        while True:
            try:
                self._cluster.ok(*command)
                return
            except HarnessError as exc:
                if time.monotonic() > end:
                    raise Hang(f"dmctl {' '.join(command)}: {exc}") from exc
                time.sleep(0.5)

    # -- as TaskRun -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the task; a full copy is over when it returns."""
        if self._begun:
            self._order("resume-task", self.cfg.name)
            return
        path = self._cluster.write_task(task_file(self.cfg), f"{self.cfg.name}.yaml")
        try:
            self._cluster.ok("start-task", path)
        except HarnessError as exc:
            code = _CODE.search(str(exc))
            raise Stopped(int(code[1]) if code else 0, str(exc)) from exc
        self._begun = True
        self._await(lambda state: state.get("unit") == "Sync", "it replicates")

    def stop(self) -> None:
        self._order("pause-task", self.cfg.name)

    def wait(self, upstream: SQLServer, *, settled: bool = True) -> None:
        """Until the target has all of the upstream; with a DDL of merged shards open the status does not tell."""
        if not settled:
            return
        want = location(upstream)

        def there(state: dict[str, Any]) -> bool:
            sync = state.get("sync") or {}
            if self.cfg.enable_gtid:
                at = sync.get("syncerBinlogGtid") == want.gtid_set
            else:
                here = sync.get("syncerBinlog", "")
                at = "." in here and want.position <= parse_position(here)
            return at and not sync.get("unresolvedGroups")

        self._await(there, f"it is at {want}")

    def ensure_going(self, _upstream: SQLServer) -> None:
        """See :meth:`tests.fuzz.tasks.source_runs.SourceRuns.ensure_going`."""
        end = time.monotonic() + LATE
        while time.monotonic() < end:
            state = self._state()
            errors = (state.get("result") or {}).get("errors") or []
            if errors:
                raise Stopped(int(errors[0]["ErrCode"]), _shown(errors[0]))
            time.sleep(0.3)

    def close(self) -> None:
        if self._begun:
            self._order("stop-task", self.cfg.name)
        self._order("operate-source", "stop", self.cfg.source_id)

    # -- faults ---------------------------------------------------------------------------------------------------

    def happen(self, name: str, events: Events) -> None:
        """As the event says, where processes are not killed anyway."""
        match name:
            case "pause":
                self.stop()
                self.start()
            case "transfer":
                self._transfer()
            case "cut target" | "cut upstream":
                events.cut(name)
            case "restart target" | "restart upstream":
                events.restart(name)
            case _:
                self._kill()

    def _kill(self) -> None:
        """kill -9 of both workers, of the master, or of Spark's Python processes."""
        cluster = self._cluster
        match self._rng.choice(("workers", "master", "spark")):
            case "workers":
                for worker in cluster.workers:
                    worker.kill()
                for worker in cluster.workers:
                    worker.start(wait=False)
                for worker in cluster.workers:
                    worker.wait_ready()
            case "master":
                cluster.master.kill()
                cluster.master.start()
            case "spark":
                for worker in cluster.workers:
                    for pid in spark_workers(worker.pid):
                        kill_hard(pid)

    def _transfer(self) -> None:
        """The source goes to the other worker."""
        cluster = self._cluster
        (listed,) = cluster.dmctl("list-member", "--worker")["members"]
        bound = {one["source"]: one["name"] for one in listed["worker"]["workers"]}
        free = [worker.member for worker in cluster.workers if worker.member not in bound.values()]
        if not free:
            return
        self.stop()
        self._order("transfer-source", self.cfg.source_id, free[0])
        self.start()

    # -- waiting --------------------------------------------------------------------------------------------------

    def _await(self, reached: Any, what: str) -> None:
        """Until the subtask's status says so. Raises ``Stopped`` for an error that stays."""
        known, since = "", 0.0

        def done() -> bool:
            nonlocal known, since
            state = self._state()
            errors = (state.get("result") or {}).get("errors") or []
            if state.get("stage") == "Paused" and errors:
                text = _shown(errors[0])
                if text != known:
                    known, since = text, time.monotonic()
                elif time.monotonic() - since > _STAYS:
                    raise Stopped(int(errors[0]["ErrCode"]), text)
            return bool(state) and bool(reached(state))

        try:
            wait_until(done, what, _SLOW, step=0.3)
        except HarnessError as exc:
            raise Hang(f"{exc}: {self._state()}") from exc

    def _state(self) -> dict[str, Any]:
        """The subtask's status; empty while nobody tells."""
        try:
            return self._cluster.subtasks(self.cfg.name).get(self.cfg.source_id, {})
        except HarnessError:
            # The master is not there yet.
            return {}


def _shown(error: dict[str, Any]) -> str:
    return " ".join(str(error.get(key, "")) for key in ("Message", "RawCause", "Workaround"))
