"""The master's metrics under DM's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pkg.metrics import Metrics

#: DM's numbers for a worker's stage.
STAGE_VALUES = {"offline": 0.0, "free": 1.0, "relay": 1.5, "bound": 2.0}


class MasterMetrics:
    """``stages`` gives the stage of each worker (empty when this master does not lead); ``leading`` whether it does."""

    def __init__(self, stages: Callable[[], Mapping[str, str]], leading: Callable[[], bool]) -> None:
        self.metrics = Metrics()
        self._stages = stages
        self._workers = self.metrics.gauge(
            "dm_master_worker_state", "0 offline, 1 free, 1.5 relay, 2 bound", ["worker"]
        )
        leader = self.metrics.gauge("dm_master_start_leader_counter", "1 on the leader, 0 elsewhere")
        leader.set_function(lambda: 1.0 if leading() else 0.0)
        self.metrics.cpu_usage("dm_master_cpu_usage")
        self.metrics.before_render(self._refresh)

    def _refresh(self) -> None:
        self._workers.clear()
        for worker, stage in self._stages().items():
            self._workers.labels(worker).set(STAGE_VALUES[stage])
