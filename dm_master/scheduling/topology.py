"""The cluster's state in etcd. Pure: decisions read a :class:`Topology` and return a :class:`Plan`.

A :class:`Topology` holds etcd's keys, decoded. A decision does not change it: it returns the operations to commit, and
the state after them is the same keys decoded again (:meth:`Topology.after`). No rule is coded twice, so the leader's
memory cannot differ from etcd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pkg.errors import Code, new
from pkg.etcd.types import EtcdOperation, Put
from pkg.ha import keys
from pkg.ha.keys import KeyFamily
from pkg.ha.records import RelayStage, SourceBound, SubTaskStage, ValidatorStage, WorkerAlive, WorkerInfo

WorkerStage = Literal["offline", "free", "relay", "bound"]


@dataclass(frozen=True, slots=True)
class Topology:
    """The shared state. Configs and task files are strings here; ``subtasks`` and ``stages`` (desired) are by (source,
    task)."""

    sources: Mapping[str, str] = field(default_factory=dict)
    workers: Mapping[str, WorkerInfo] = field(default_factory=dict)
    alive: Mapping[str, WorkerAlive] = field(default_factory=dict)
    #: Worker → source, for these three.
    bounds: Mapping[str, str] = field(default_factory=dict)
    last_bounds: Mapping[str, str] = field(default_factory=dict)
    relay_workers: Mapping[str, str] = field(default_factory=dict)
    #: Source → desired stage of its relay; a source without one has no relay.
    relay_stages: Mapping[str, str] = field(default_factory=dict)
    subtasks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    stages: Mapping[tuple[str, str], str] = field(default_factory=dict)
    #: Desired stages of validators, by (source, task).
    validators: Mapping[tuple[str, str], ValidatorStage] = field(default_factory=dict)
    #: (task, source) → worker that holds the files of an unfinished load.
    load_tasks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    task_texts: Mapping[str, str] = field(default_factory=dict)

    def after(self, ops: Iterable[EtcdOperation]) -> Topology:
        """The state once ``ops`` are committed. Raises 42502 for a key or value that the cluster does not use."""
        changed: dict[str, dict[Any, Any]] = {}
        for op in ops:
            family, view = _view_of(op.key)
            names = family.names(op.key)
            name = names if len(names) > 1 else names[0]
            entries = changed.setdefault(view.attribute, dict(getattr(self, view.attribute)))
            if isinstance(op, Put):
                entries[name] = view.decode(op.value)
            else:
                entries.pop(name, None)
        return replace(self, **changed)

    def worker_of(self, source: str) -> str | None:
        """The worker that serves ``source``."""
        return next((worker for worker, bound in self.bounds.items() if bound == source), None)

    def unbound_sources(self) -> list[str]:
        served = set(self.bounds.values())
        return sorted(source for source in self.sources if source not in served)

    def worker_stage(self, worker: str) -> WorkerStage:
        if worker not in self.alive:
            return "offline"
        if worker in self.bounds:
            return "bound"
        return "relay" if worker in self.relay_workers else "free"

    def tasks_of(self, source: str) -> list[str]:
        return sorted(task for of, task in self.subtasks if of == source)

    def sources_of(self, task: str) -> list[str]:
        return sorted(source for source, of in self.subtasks if of == task)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to commit, in one transaction; ``message`` is for the operator. ``side_ops`` are on keys that are not part
    of the state."""

    ops: tuple[EtcdOperation, ...] = ()
    message: str = ""
    side_ops: tuple[EtcdOperation, ...] = ()


@dataclass(frozen=True, slots=True)
class _View:
    attribute: str
    decode: Callable[[str], Any]


def _text(value: str) -> str:
    return value


#: Which keys make up the state, and how their values are read.
VIEWS: dict[KeyFamily, _View] = {
    keys.SOURCE_CONFIG: _View("sources", _text),
    keys.WORKER: _View("workers", WorkerInfo.from_json),
    keys.WORKER_ALIVE: _View("alive", WorkerAlive.from_json),
    keys.BOUND: _View("bounds", lambda value: SourceBound.from_json(value).source),
    keys.LAST_BOUND: _View("last_bounds", lambda value: SourceBound.from_json(value).source),
    keys.RELAY_WORKER: _View("relay_workers", _text),
    keys.RELAY_STAGE: _View("relay_stages", lambda value: RelayStage.from_json(value).expect),
    keys.SUBTASK: _View("subtasks", _text),
    keys.SUBTASK_STAGE: _View("stages", lambda value: SubTaskStage.from_json(value).expect),
    keys.VALIDATOR_STAGE: _View("validators", ValidatorStage.from_json),
    keys.LOAD_TASK: _View("load_tasks", _text),
    keys.TASK_TEXT: _View("task_texts", _text),
}


def _view_of(key: str) -> tuple[KeyFamily, _View]:
    for family, view in VIEWS.items():
        if key.startswith(family.prefix()):
            return family, view
    raise new(Code.HAInvalidItem, f"{key!r} is not a key of the cluster's state")
