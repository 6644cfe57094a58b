"""Hazard: a start, a stop or a failure of Spark blocks a subtask, or hits another engine."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext

from dm_worker.engine import engine as engine_module
from dm_worker.engine import executors
from dm_worker.engine.engine import SparkEngine, _not_of_py4j
from dm_worker.engine.jvm import SparkJvm
from pkg import errors
from pkg.errors import Code, DMError
from tests.harness.slow_engine import CONTEXT, SlowEngine


def test_a_missing_java_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    engine = SparkEngine(folder=tmp_path)
    with pytest.raises(errors.DMError, match="JVM did not start") as caught:
        engine.context()
    assert "java" in caught.value.raw_cause
    assert "Java 17" in caught.value.workaround
    engine.close()
    assert not list(tmp_path.iterdir())
    assert "PYSPARK_GATEWAY_PORT" not in os.environ


def test_the_error_of_a_failed_start_has_output_that_is_read_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = SparkJvm._relay_output

    def read_late(jvm: SparkJvm) -> None:
        jvm._process.wait()
        time.sleep(0.5)
        read(jvm)

    monkeypatch.setattr(SparkJvm, "_relay_output", read_late)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(errors.DMError, match="JVM did not start") as caught:
        SparkJvm({}, tmp_path)
    assert "java" in caught.value.raw_cause


def test_a_closed_engine_does_not_start_again_and_leaves_another_one_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_another = object()
    monkeypatch.setattr(SparkContext, "_jvm", of_another)
    engine = SparkEngine(folder=tmp_path)
    engine.cancel("nothing runs")
    engine.close()
    assert SparkContext._jvm is of_another
    with pytest.raises(RuntimeError, match="closed"):
        engine.context()


def test_what_py4j_logs_as_nobody_is_not_printed() -> None:
    record = logging.LogRecord("root", logging.ERROR, "/x/py4j/java_gateway.py", 1038, "Exception", None, None)
    ours = logging.LogRecord("root", logging.ERROR, "/x/other.py", 1, "Exception", None, None)
    assert (_not_of_py4j(record), _not_of_py4j(ours)) == (False, True)


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


def test_a_start_that_fails_is_reported_to_who_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise errors.new(Code.NotSet, "no Java")

    monkeypatch.setattr(SparkEngine, "_start", fail)
    with pytest.raises(DMError, match="no Java"):
        SparkEngine().context()


@pytest.mark.parametrize(
    ("master", "said", "message"),
    [
        ("spark://h:1", "ERROR Application has been killed. Reason: All masters are unresponsive!", "no executors for"),
        ("spark://h:1", "something else", "JVM did not start: java.lang.NullPointerException"),
        ("", "Application has been killed. Reason: none", "JVM did not start"),
    ],
)
def test_a_refusal_while_the_context_is_being_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, said: str, message: str
) -> None:
    """Spark stops the context in another thread, so that its constructor fails with an error that explains nothing."""

    class Jvm:
        alive, pid, gateway, last_words = True, 1, None, said

        def __init__(self, *_: object) -> None: ...

        def close(self) -> None: ...

    def construct(**_: object) -> SparkContext:
        raise Py4JError("An error occurred while calling None.X.\n: java.lang.NullPointerException\n\tat y")

    monkeypatch.setattr(engine_module, "SparkJvm", Jvm)
    monkeypatch.setattr(engine_module, "SparkContext", construct)
    engine = SparkEngine(master=master, folder=tmp_path)
    with pytest.raises(DMError, match=message) as caught:
        engine.context()
    assert said in caught.value.raw_cause
    assert caught.value.retryable == ("no executors" in message)
