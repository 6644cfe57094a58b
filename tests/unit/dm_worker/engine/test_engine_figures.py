"""Hazard: memory is shown for the wrong process, or a job that failed counts as done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dm_worker.engine.engine_figures import JobCounts, memory_by_part


def _cancel_one_of_two(jobs: JobCounts) -> None:
    with jobs.counted("other"), jobs.counted("one"):
        assert jobs.running == 2
        jobs.note_cancel("other")
        raise OSError


def test_jobs_that_raise_have_failed_unless_they_were_canceled() -> None:
    jobs = JobCounts()
    with jobs.counted("one"):
        assert jobs.running == 1
        jobs.note_cancel("other")
    with pytest.raises(OSError), jobs.counted("one"):
        raise OSError
    with pytest.raises(OSError):
        _cancel_one_of_two(jobs)
    with jobs.counted("other"):
        jobs.note_cancel("other")
    assert (jobs.ended, jobs.failed, jobs.canceled, jobs.running) == (2, 2, 1, 0)


def test_memory_is_that_of_the_process_and_of_its_descendants() -> None:
    code = (
        "import subprocess, sys; held = bytearray(30 << 20); "
        "child = subprocess.Popen([sys.executable, '-c', 'held = bytearray(60 << 20); print(1, flush=True); input()'],"
        " stdin=sys.stdin); child.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        found = memory_by_part(parent.pid)
        parent.communicate(b"\n")
    assert found["jvm"] > 30 << 20
    assert found["tasks"] > 60 << 20
    own = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert 0.5 * own < found["worker"] < 2 * own


def test_without_a_jvm_and_without_proc(tmp_path: Path) -> None:
    found = memory_by_part(0)
    assert (found["jvm"], found["tasks"]) == (0, 0)
    assert found["worker"]
    assert memory_by_part(1, tmp_path) == {}
