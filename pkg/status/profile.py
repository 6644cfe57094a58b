"""The time profile of a task's last minutes as a tree of stages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_MAIN = {
    "waiting": "wait for events",
    "job": "batches",
    "checkpoint": "checkpoint",
    "ddl": "DDL statements",
    "driver": "other work of the main loop",
    "stopped": "paused",
}
_READER = {
    "source": "wait for the source",
    "reading": "read events",
    "planning": "plan batches",
    "handing over": "wait for room in the queue",
    "reopening": "open the stream again",
    "stopped": "paused",
}
_WORK = {
    "decode": "decode rows",
    "shuffle": "shuffle to writers",
    "compact": "compact rows",
    "write": "write to the target",
}


@dataclass(frozen=True, slots=True)
class ProfileNode:
    """A stage, its seconds, and the stages within."""

    name: str
    seconds: float
    parts: tuple[ProfileNode, ...] = field(default=())


def main_loop(sums: Mapping[str, float]) -> ProfileNode:
    """The main loop's stages. The busy time of the batches is divided in the same ratio as the tasks' work."""
    root = _thread("main loop", "main", _MAIN, sums)
    busy, job = sums.get("busy", 0.0), sums.get("job", 0.0)
    work = {stage: sums.get(f"work/{stage}", 0.0) for stage in _WORK}
    total = sum(work.values())
    parts = []
    for node in root.parts:
        if node.name == _MAIN["job"] and total and job:
            share = node.seconds * min(1.0, busy / job)
            within = [ProfileNode(_WORK[stage], share * part / total) for stage, part in work.items()]
            node = ProfileNode(node.name, node.seconds, (*within, ProfileNode("Spark", node.seconds - share)))
        parts.append(node)
    return ProfileNode(root.name, root.seconds, tuple(parts))


def reader(sums: Mapping[str, float]) -> ProfileNode:
    """The stages of the thread that reads the binlog."""
    return _thread("reader", "reader", _READER, sums)


def _thread(name: str, prefix: str, stages: Mapping[str, str], sums: Mapping[str, float]) -> ProfileNode:
    parts = tuple(ProfileNode(text, sums.get(f"{prefix}/{stage}", 0.0)) for stage, text in stages.items())
    return ProfileNode(name, sum(part.seconds for part in parts), parts)
