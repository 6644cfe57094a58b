"""The master's metrics under DM's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pkg.process.metrics import Metrics

#: DM's numbers for a worker's stage.
STAGE_VALUES = {"offline": 0.0, "free": 1.0, "relay": 1.5, "bound": 2.0}


class MasterMetrics:
    """``stages`` gives the stage of each worker, ``locks`` the number of DDL locks by task and state (both
    empty when this master does not lead); ``leading`` whether it does."""

    def __init__(
        self,
        stages: Callable[[], Mapping[str, str]],
        locks: Callable[[], Mapping[tuple[str, str], int]],
        leading: Callable[[], bool],
    ) -> None:
        self.metrics = Metrics()
        self._stages = stages
        self._locks = locks
        self._workers = self.metrics.gauge(
            "dm_master_worker_state", "0 offline, 1 free, 1.5 relay, 2 bound", ["worker"]
        )
        leader = self.metrics.gauge("dm_master_start_leader_counter", "1 on the leader, 0 elsewhere")
        leader.set_function(lambda: 1.0 if leading() else 0.0)
        self._lock_states = self.metrics.gauge(
            "dm_master_ddl_state_number",
            "locks of shard DDL that wait for sources, or for executions",
            ["task", "type"],
        )
        self._ddl_errors = self.metrics.counter(
            "dm_master_shard_ddl_error", "conflicts between sources, and failures to store a lock's decision",
            ["task", "type"],
        )  # fmt: skip
        self._event_errors = self.metrics.counter(
            "dm_master_worker_event_error", "failures to watch the workers, and to do what their keys ask for", ["type"]
        )
        self.metrics.cpu_usage("dm_master_cpu_usage")
        self.metrics.before_render(self._refresh)

    def ddl_error(self, task: str, kind: str) -> None:
        """Counts a problem with a DDL lock."""
        self._ddl_errors.labels(task, kind).inc()

    def worker_event_error(self, kind: str) -> None:
        """Counts a failure to follow the workers: ``handle`` or ``watch``."""
        self._event_errors.labels(kind).inc()

    def _refresh(self) -> None:
        self._lock_states.clear()
        for (task, state), count in self._locks().items():
            self._lock_states.labels(task, state).set(count)
        self._workers.clear()
        for worker, stage in self._stages().items():
            self._workers.labels(worker).set(STAGE_VALUES[stage])
