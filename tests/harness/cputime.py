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


def cpu_by_kind(kinds: Mapping[str, Sequence[int]]) -> dict[str, dict[int, float]]:
    """CPU seconds so far of each process, by kind."""
    return {kind: {pid: cpu_seconds(pid) for pid in pids} for kind, pids in kinds.items()}


def spent(before: Mapping[str, Mapping[int, float]], after: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """CPU seconds between two readings.

    The time of a process that ended is lost if its parent did not wait for it, as Spark's daemon of Python workers: so
    processes are compared, not sums, of which an ended process would take away what it used before.
    """
    return {
        kind: sum(max(0.0, seconds - before.get(kind, {}).get(pid, 0.0)) for pid, seconds in processes.items())
        for kind, processes in after.items()
    }
