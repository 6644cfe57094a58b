"""CPU time of processes, from /proc: unlike wall-clock time it hardly depends on the machine's other load."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and of its ended children; 0 if the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICK


def cpu_by_kind(kinds: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """CPU seconds so far, by kind of process."""
    return {kind: sum(map(cpu_seconds, pids)) for kind, pids in kinds.items()}


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """CPU seconds between two readings, never negative (the time of a process that ended is lost)."""
    return {kind: max(0.0, seconds - before.get(kind, 0.0)) for kind, seconds in after.items()}
