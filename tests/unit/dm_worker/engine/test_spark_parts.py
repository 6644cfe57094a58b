"""What Spark is started with, and what is shipped to executors: decided without Spark."""

from __future__ import annotations

import importlib.machinery
import logging
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import SparkContext

import pkg.native
from dm_worker.engine import code_archive, executors
from dm_worker.engine.engine import SparkEngine, _not_of_py4j
from dm_worker.engine.executors import first_reason
from dm_worker.engine.jvm import _with_java_options
from dm_worker.engine.settings import as_properties, is_local, spark_settings
from pkg import errors
from pkg.errors import Code, DMError
from tests.compiled import required


def settings(master: str, **conf: str) -> dict[str, str]:
    return spark_settings(master=master, slots=7, folder=Path("/f"), paths="/p", kernel="", conf=conf)


def test_a_worker_takes_no_more_of_a_standalone_cluster_than_its_slots() -> None:
    assert settings("spark://h:7077")["spark.cores.max"] == "7"
    assert settings("spark://h:7077", **{"spark.cores.max": "3"})["spark.cores.max"] == "3"
    assert "spark.cores.max" not in settings("yarn")
    assert "spark.cores.max" not in settings("k8s://https://h:443")


def test_a_cluster_is_not_told_to_use_loopback_or_paths_of_this_machine() -> None:
    local = {"spark.driver.host", "spark.driver.bindAddress", "spark.executorEnv.PYTHONPATH"}
    local |= {"spark.python.daemon.module"}
    assert local <= settings("local[2,4]").keys()
    for master in ("spark://h:7077", "local-cluster[2,1,1024]", "yarn"):
        assert not is_local(master)
        assert not local & settings(master).keys()


def test_the_choice_of_kernel_reaches_executors() -> None:
    chosen = spark_settings(master="yarn", slots=1, folder=Path("/f"), paths="", kernel="python", conf={})
    assert chosen["spark.executorEnv.DM_KERNEL"] == "python"
    assert "spark.executorEnv.DM_KERNEL" not in settings("yarn")


@pytest.mark.parametrize("given_options", ["", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4 -Dx=y", "-XX:-UseParallelGC"])
def test_the_operators_java_options_do_not_meet_ours(tmp_path: Path, given_options: str) -> None:
    key = "spark.driver.extraJavaOptions"
    words = _with_java_options({key: given_options}, tmp_path)[key].split()
    assert set(given_options.split()) <= set(words)
    assert sum("GC" in word for word in words) == 1
    assert sum("TieredStopAtLevel" in word for word in words) == 1


@given(st.dictionaries(st.text("abc. :=#!\\", min_size=1).map(str.strip).filter(bool), st.text("xyz =:#\\\n\t!é")))
def test_properties_survive_their_file(values: dict[str, str]) -> None:
    assert _parse(as_properties(values)) == values


def _parse(text: str) -> dict[str, str]:
    """Java's rules for a properties file, as far as they matter here."""
    found = {}
    for line in filter(None, text.split("\n")):
        key, at = "", 0
        while at < len(line) and line[at] not in " :=":
            step = 2 if line[at] == "\\" else 1
            key, at = key + _plain(line[at : at + step]), at + step
        rest, value, at = line[at:].lstrip(" "), "", 0
        while at < len(rest):
            step = 2 if rest[at] == "\\" else 1
            value, at = value + _plain(rest[at : at + step]), at + step
        found[key] = value
    return found


def _plain(text: str) -> str:
    return {"\\n": "\n", "\\t": "\t", "\\r": "\r"}.get(text, text[-1])


def test_compiled_parts_are_shipped_with_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dm_worker/a.py", "pkg/native/_x.so", "pkg/native/x.c", "pkg/secret.pem"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(code_archive, "_ROOT", tmp_path)
    with zipfile.ZipFile(code_archive.pack_code(tmp_path / "code.zip")) as archive:
        assert sorted(archive.namelist()) == ["dm_worker/a.py", "pkg/native/_x.so"]


def test_a_kernel_of_another_platform_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"_bogus{importlib.machinery.EXTENSION_SUFFIXES[0]}").write_bytes(b"\x7fELF of some other machine")
    (tmp_path / "_other.cpython-399-riscv64-linux-gnu.so").write_bytes(b"")
    monkeypatch.setattr(pkg.native, "__path__", [str(tmp_path)])
    monkeypatch.setattr(pkg.native, "CHOICE", "")
    assert pkg.native.load("bogus") is None
    assert pkg.native.load("other") is None


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
        "print(*sorted({'grpc', 'google.protobuf', 'etcd3', 'yaml', 'click'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_what_py4j_logs_as_nobody_is_not_printed() -> None:
    record = logging.LogRecord("root", logging.ERROR, "/x/py4j/java_gateway.py", 1038, "Exception", None, None)
    ours = logging.LogRecord("root", logging.ERROR, "/x/other.py", 1, "Exception", None, None)
    assert (_not_of_py4j(record), _not_of_py4j(ours)) == (False, True)


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


def test_an_executor_without_a_compiled_part_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    required("rows")
    monkeypatch.setattr(executors, "slots", lambda _: 1)
    cluster: Any = _Cluster()
    assert executors.prove_executors(cluster, "spark://x:1") == []
    monkeypatch.setitem(sys.modules, "pkg.native._dump", None)
    (warning,) = executors.prove_executors(cluster, "spark://x:1")
    assert warning.startswith(f"Spark executor {socket.gethostname()}: the compiled code of dump is not in use")


CONTEXT = cast(SparkContext, "the context")


class SlowEngine(SparkEngine):
    """Spark that starts when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_start = threading.Event()
        self.starts = 0

    def _start(self) -> None:
        self.starts += 1
        assert self.may_start.wait(60)
        self._context = CONTEXT


def test_who_is_stopped_does_not_wait_for_a_spark_that_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "is_stopped", lambda _: False)
    engine = SlowEngine()
    for _ in range(2):
        with (
            pytest.raises(DMError, match="while Spark was starting") as caught,
            engine.job_group("g", "", lambda: True),
        ):
            raise AssertionError("it did not start")
        assert caught.value.retryable
    engine.may_start.set()
    assert engine.context(lambda: False) is CONTEXT
    assert engine.starts == 1, "one start is enough, whoever went on waiting for it"


def test_a_start_that_fails_is_told_to_who_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise errors.new(Code.NotSet, "no Java")

    monkeypatch.setattr(SparkEngine, "_start", fail)
    with pytest.raises(DMError, match="no Java"):
        SparkEngine().context()
