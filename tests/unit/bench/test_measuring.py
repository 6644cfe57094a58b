"""Memory and CPU time of processes: what budgets and costs per row are read from."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from deploy.local.process import wait_until
from tests.harness.cputime import cpu_by_kind, cpu_seconds, spent
from tests.harness.memory import MemorySampler, Peak, resident
from tests.harness.proctree import by_kind, command_of

_HOLD = "import sys; data = bytearray(b'x') * {size}; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds 64 MiB more than Python itself."""
    command = [sys.executable, "-c", _HOLD.format(size=64 << 20)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def test_resident_size_counts_what_a_process_holds(holder: subprocess.Popen[bytes]) -> None:
    assert 64 << 20 <= resident(holder.pid) < 128 << 20


def test_a_process_that_is_gone_holds_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert resident(process.pid) == 0
    assert cpu_seconds(process.pid) == 0


def test_the_sampler_keeps_a_peak_that_has_passed(holder: subprocess.Popen[bytes]) -> None:
    with MemorySampler(0, lambda _: {"holder": [holder.pid]}) as sampler:
        wait_until(lambda: sampler.peak.samples > 0, "a sample")
        holder.kill()
        holder.wait()
        after = sampler.peak.samples
        wait_until(lambda: sampler.peak.samples > after + 1, "more samples")
    assert sampler.peak.kinds["holder"] >= 64 << 20


def test_the_peak_of_all_is_of_one_moment() -> None:
    peak = Peak()
    peak.add({"jvm": 100, "driver": 10})
    peak.add({"jvm": 20, "driver": 60})
    assert peak.kinds == {"jvm": 100, "driver": 60}
    assert peak.total == 110


def test_cpu_time_is_what_was_used_in_between() -> None:
    before = cpu_by_kind({"driver": [os.getpid()], "gone": []})
    start = time.process_time()
    while time.process_time() - start < 0.3:
        pass
    used = spent(before, cpu_by_kind({"driver": [os.getpid()], "new": [os.getpid()]}))
    assert 0.25 <= used["driver"] < 0.6
    assert used["new"] >= used["driver"]


def test_what_an_ended_process_used_before_is_not_taken_from_the_others() -> None:
    before = {"python workers": {1: 0.5, 2: 5.0}}
    assert spent(before, {"python workers": {1: 0.75, 3: 1.0}}) == {"python workers": 1.25}


def test_processes_are_distinguished_by_what_they_run() -> None:
    names = {
        "jvm": ["java -cp x org.apache.spark.deploy.SparkSubmit pyspark-shell"],
        "python workers": [
            "python -m pyspark.daemon pyspark.worker",
            "python -m dm_worker.engine.python_daemon pyspark.worker",
        ],
        "": ["mariadbd --no-defaults"],
    }
    started: dict[str, list[subprocess.Popen[bytes]]] = {
        kind: [subprocess.Popen(["bash", "-c", 'exec -a "$0" sleep 60', name]) for name in found]
        for kind, found in names.items()
    }
    every = {process.pid: process for found in started.values() for process in found}
    try:
        wait_until(lambda: all(command_of(pid).endswith(" 60") for pid in every), "the names are taken on")
        assert not any("bash" in command_of(pid) for pid in every)
        kinds = by_kind(os.getpid())
        assert kinds["driver"] == [os.getpid()]
        for kind in ("jvm", "python workers"):
            assert sorted(set(kinds[kind]) & every.keys()) == sorted(process.pid for process in started[kind])
    finally:
        for process in every.values():
            process.kill()
            process.wait()
