"""Hazard: an executor that cannot do the work is noticed late, or without the reason."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest

from dm_worker.engine import executors
from dm_worker.engine.executors import first_reason
from tests.compiled import required


def test_the_reason_is_found_in_sparks_long_story() -> None:
    story = "An error occurred while calling z:x.\n: SparkException: Job aborted\nCaused by: java.io.IOException: "
    assert "Cannot run program" in first_reason(RuntimeError(story + 'Cannot run program "/x": error=2\n\tat a.b(c)'))
    assert first_reason(RuntimeError("only this")) == "only this"
    assert first_reason(RuntimeError()) == "RuntimeError"


def test_tasks_start_without_grpc_and_without_what_only_the_driver_needs() -> None:
    """Executors need nothing but Python, PyMySQL and cryptography."""
    code = (
        "import sys\n"
        "import dm_worker.dumper.dump_task, dm_worker.loader.load_task, dm_worker.syncer.execution.spark_tasks\n"
        "print(*sorted({'grpc', 'google.protobuf', 'etcd3', 'yaml', 'click', 're2'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


class _Cluster:
    """A context whose tasks run here."""

    def __init__(self) -> None:
        self._work: Any = iter

    def parallelize(self, *_: object) -> _Cluster:
        return self

    def mapPartitions(self, work: Any) -> _Cluster:
        self._work = work
        return self

    def collect(self) -> list[Any]:
        return list(self._work([]))


def test_an_executor_without_a_compiled_part_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    required("rows")
    monkeypatch.setattr(executors, "slots", lambda _: 1)
    cluster: Any = _Cluster()
    assert executors.prove_executors(cluster, "spark://x:1") == []
    monkeypatch.setitem(sys.modules, "pkg.native._dump", None)
    (warning,) = executors.prove_executors(cluster, "spark://x:1")
    assert warning.startswith(f"Spark executor {socket.gethostname()}: the compiled code of dump is not in use")
