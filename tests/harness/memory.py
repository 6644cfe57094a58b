"""Resident memory of processes, sampled while something runs, for the check of a memory budget.

The proportional set size counts a page shared by n processes (a forked Python worker shares most of its code) as 1/n,
so that the sum over processes is the memory that they really use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.proctree import by_kind

INTERVAL = 0.1


def resident(pid: int) -> int:
    """The proportional set size in bytes; 0 if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


@dataclass
class Peak:
    """The highest values seen, in bytes: by kind of process, and of all at the same time."""

    kinds: dict[str, int] = field(default_factory=dict)
    total: int = 0
    samples: int = 0

    def add(self, now: Mapping[str, int]) -> None:
        self.samples += 1
        self.total = max(self.total, sum(now.values()))
        for kind, size in now.items():
            self.kinds[kind] = max(self.kinds.get(kind, 0), size)

    def __str__(self) -> str:
        parts = [f"{kind} {size / 2**20:,.0f} MiB" for kind, size in self.kinds.items()]
        return f"{', '.join(parts)}; together {self.total / 2**20:,.0f} MiB"


class MemorySampler:
    """Samples while its ``with`` block runs; :attr:`peak` has the result, also during the block.

    ``pid`` is the driver of Spark; ``find`` may return other processes by kind instead.
    """

    def __init__(self, pid: int, find: Callable[[int], Mapping[str, Sequence[int]]] = by_kind) -> None:
        self.peak = Peak()
        self._pid = pid
        self._find = find
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._main, name="memory-sampler", daemon=True)

    def _main(self) -> None:
        while True:
            self.sample()
            if self._end.wait(INTERVAL):
                return

    def sample(self) -> None:
        kinds = self._find(self._pid)
        self.peak.add({kind: sum(map(resident, pids)) for kind, pids in kinds.items()})

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
