"""The engine's figures: jobs, and the memory of its processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

#: Parts of the memory: the worker's own process, Spark's JVM, the Python processes of its tasks.
WORKER, JVM, TASKS = "worker", "jvm", "tasks"


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """Jobs since the worker's start, current jobs, and resident bytes by part."""

    ended: int
    failed: int
    canceled: int
    running: int
    memory: Mapping[str, int]


@dataclass(eq=False, slots=True)
class _RunningJob:
    group: str
    is_canceled: bool = False


class JobCounts:
    """Counts jobs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[_RunningJob] = []
        self.ended = self.failed = self.canceled = 0

    @property
    def running(self) -> int:
        return len(self._running)

    @contextmanager
    def counted(self, group: str) -> Iterator[None]:
        """Counts one job of ``group``; when the block raises, it has failed, or was canceled."""
        job = _RunningJob(group)
        with self._lock:
            self._running.append(job)
        ok = False
        try:
            yield
            ok = True
        finally:
            with self._lock:
                self._running.remove(job)
                self.ended += ok
                self.canceled += job.is_canceled and not ok
                self.failed += not ok and not job.is_canceled

    def note_cancel(self, group: str) -> None:
        """The running jobs of ``group`` are canceled: a stop or a pause ends them."""
        with self._lock:
            for job in self._running:
                job.is_canceled |= job.group == group


def memory_by_part(jvm_pid: int, proc: Path = Path("/proc")) -> dict[str, int]:
    """Resident bytes by part; ``jvm_pid`` is 0 while there is no JVM. Empty where the system has no /proc."""
    processes = _processes(proc)
    found = {WORKER: processes.get(os.getpid(), (0, 0))[1], JVM: 0, TASKS: 0}
    if os.getpid() not in processes:
        return {}
    if jvm_pid in processes:
        found[JVM] = processes[jvm_pid][1]
        found[TASKS] = sum(processes[pid][1] for pid in _descendants(jvm_pid, processes))
    return found


def _descendants(pid: int, processes: Mapping[int, tuple[int, int]]) -> set[int]:
    found, newest = set[int](), {pid}
    while newest:
        newest = {one for one, (parent, _) in processes.items() if parent in newest} - found
        found |= newest
    return found


def _processes(proc: Path) -> dict[int, tuple[int, int]]:
    """Parent and resident bytes of every readable process."""
    page = os.sysconf("SC_PAGE_SIZE")
    found = {}
    for folder in proc.glob("[0-9]*"):
        try:
            # The name, in parentheses, may contain any characters.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            # It has ended meanwhile.
            continue
        found[int(folder.name)] = (int(fields[1]), int(fields[21]) * page)
    return found
