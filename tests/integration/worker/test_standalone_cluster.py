"""Hazard: on a Spark cluster with authentication our code or settings do not arrive, or errors hide the reason.

Each test runs its drivers in separate processes, because a process has one SparkContext.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import environment
from pkg.process.dies_with_parent import dying_with_parent
from tests.harness.spark import SparkCluster

#: JVMs of drivers and executors start slowly on a machine that does other things too.
pytestmark = pytest.mark.timeout(900)
_TELL_REFUSAL = "answer = fails(engine.context)\nengine.close()\nprint(json.dumps(answer))\n"


@pytest.fixture(scope="module")
def spark_cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=2, cores=2) as cluster:
        yield cluster


def driver(
    cluster: SparkCluster, tmp_path: Path, script: str, conf: Mapping[str, str] | None = None, timeout: float = 120.0
) -> subprocess.Popen[str]:
    """Starts ``script`` with an ``engine`` on the cluster; it prints what it finds out as JSON."""
    settings = {**cluster.conf, **(conf or {})}
    prelude = (
        "import json, os, signal, sys, threading, time\n"
        "from pathlib import Path\n"
        "from pkg.process import log\n"
        "log.setup(level='debug', file='log')\n"
        "from dm_worker.engine.engine import SparkEngine\n"
        "from pkg.errors import DMError\n"
        f"engine = SparkEngine(master={cluster.master.url!r}, slots=4, conf={settings!r},\n"
        f"                     folder=Path({str(tmp_path)!r}), executor_timeout={timeout})\n"
        "def fails(action):\n"
        "    try:\n"
        "        action()\n"
        "    except DMError as exc:\n"
        "        return str(exc)\n"
        "    return ''\n"
    )
    return subprocess.Popen(
        dying_with_parent([sys.executable, "-c", prelude + script]),
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(cluster: SparkCluster, process: subprocess.Popen[str]) -> Any:
    """What the driver printed; nothing else may be printed."""
    try:
        out, err = process.communicate(timeout=400)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err += "\ntimed out"
    assert process.returncode == 0, f"{out}{err}\n{cluster.logs()}"
    assert not err
    return json.loads(out)


@pytest.fixture(scope="module", autouse=True)
def turned_away(
    spark_cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[subprocess.Popen[str]]:
    """A driver with a wrong secret. Spark tries for 60 s to register it, which no setting shortens: while the first
    tests run, nobody waits for that."""
    folder = tmp_path_factory.mktemp("secret")
    process = driver(spark_cluster, folder, _TELL_REFUSAL, {"spark.authenticate.secret": "wrong"}, 12)
    yield process
    process.kill()
    process.communicate()


def test_executors_run_the_shipped_code_also_for_a_new_driver_and_no_secret_is_shown(
    spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    script = (
        "def look(_):\n"
        "    import dm_worker.syncer.execution.spark_tasks, pkg, os, sys, time\n"
        "    time.sleep(1)\n"
        "    yield os.path.realpath(pkg.__path__[0]), os.path.realpath('.'), 'grpc' in sys.modules\n"
        "from dm_worker.engine.executors import describe_executor\n"
        "kernel = next(describe_executor([])).kernel or 'pure Python'\n"
        "engine_slots = engine.slots\n"
        "seen = engine.context().parallelize(range(4), 4).mapPartitions(look).collect()\n"
        "command = Path(f'/proc/{engine.jvm_pid}/cmdline').read_text()\n"
        "os.kill(engine.jvm_pid, signal.SIGKILL)\n"
        "while engine.jvm_pid: time.sleep(0.01)\n"
        "again = engine.context().parallelize(range(4), 4).mapPartitions(look).count()\n"
        "warnings = engine.warnings\n"
        "engine.close()\n"
        "print(json.dumps([engine_slots, seen, command, again, kernel, warnings]))\n"
    )
    slots, seen, command, again, kernel, warnings = result(spark_cluster, driver(spark_cluster, tmp_path, script))
    assert (slots, again) == (4, 4)
    assert all(place == f"{folder}/dm-code/pkg" for place, folder, _ in seen), seen
    assert len({folder for _, folder, _ in seen}) == 2, "both executors worked"
    assert not any(grpc for *_, grpc in seen)
    log = (tmp_path / "log").read_text()
    assert '["Spark executors"]' in log
    found = re.findall(r'"Spark executors".*\[kernel="?(.*?)"?\]', log)
    assert warnings == []
    assert found == [kernel, kernel], "executors use what was compiled for the driver, and say so"
    assert spark_cluster.secret not in log + command
    assert [path.name for path in tmp_path.iterdir()] == ["log"], "nothing is left behind"


@dataclass(frozen=True)
class SecondDriver:
    """What a driver found out while another one had taken half of the cluster: its slots, and its answers about
    ``shared``, a folder that all see, and one that is another for everybody."""

    slots: int
    answers: list[str]
    shared: Path


@pytest.fixture(scope="module")
def second(spark_cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> SecondDriver:
    """Two drivers side by side, for the tests of both; ``/proc/self/cwd`` is another folder in every process: just what
    a path is that is not shared."""
    folder = tmp_path_factory.mktemp("second")
    shared = folder / "shared" / "x"
    for path in (shared, folder / "x"):
        path.mkdir(parents=True)
        (path / "f.sql").write_text("1234")
    hold = "slots = engine.slots\nprint(json.dumps(slots), flush=True)\ntime.sleep(600)\n"
    script = (
        "from dm_worker.engine.shared_folder import check_readable, check_writable\n"
        f"shared, own = Path({str(shared)!r}), Path('/proc/self/cwd/x')\n"
        "slots = engine.slots\n"
        "context = engine.context()\n"
        "answers = [fails(lambda: check_writable(context, shared, 4)),\n"
        "    fails(lambda: check_writable(context, own, 4)),\n"
        "    fails(lambda: check_readable(context, shared, {'f.sql': 4}, 4)),\n"
        "    fails(lambda: check_readable(context, shared, {'f.sql': 5}, 4)),\n"
        "    fails(lambda: check_readable(context, own, {'f.sql': 4}, 4))]\n"
        "engine.close()\n"
        "print(json.dumps([slots, answers]))\n"
    )
    first = driver(spark_cluster, tmp_path_factory.mktemp("first"), hold, {"spark.cores.max": "2"})
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "2\n"
        # As long as the first one lives, this one gets what is left.
        slots, answers = result(spark_cluster, driver(spark_cluster, folder, script))
        assert first.poll() is None
    finally:
        first.kill()
        first.communicate()
    spark_cluster.wait_executors(0)
    return SecondDriver(slots, answers, shared)


def test_two_workers_share_a_cluster_instead_of_starving_each_other(second: SecondDriver) -> None:
    assert second.slots == 2


def test_a_folder_that_only_this_machine_sees_is_refused(second: SecondDriver) -> None:
    good, not_there, found, torn, unread = second.answers
    assert (good, found) == ("", "")
    for message in (not_there, torn, unread):
        assert "code=32001" in message
        assert "is not the same for the Spark executor on" in message
        assert "`dir` of loaders" in message
    assert "No such file" in not_there
    assert "f.sql has 4 bytes on the executor and 5 on this worker" in torn
    assert sorted(path.name for path in second.shared.iterdir()) == ["f.sql"], "the proofs are gone"


def test_a_cluster_that_cannot_be_used_is_reported_with_its_reason(
    spark_cluster: SparkCluster, turned_away: subprocess.Popen[str], tmp_path: Path
) -> None:
    faults: dict[str, tuple[dict[str, str], float]] = {
        "memory": ({"spark.executor.memory": "64g"}, 12),
        "python": ({"spark.pyspark.python": "/no/such/python"}, 90),
    }
    drivers = {}
    for name, (conf, timeout) in faults.items():
        (tmp_path / name).mkdir()
        drivers[name] = driver(spark_cluster, tmp_path / name, _TELL_REFUSAL, conf, timeout)
    drivers["secret"] = turned_away
    said = {name: str(result(spark_cluster, process)) for name, process in drivers.items()}
    assert "no executors for this worker" in said["secret"]
    assert "spark.authenticate.secret" in said["secret"]
    assert "no executor registered within 12 s" in said["memory"]
    assert "executor-timeout" in said["memory"]
    assert 'Cannot run program "/no/such/python"' in said["python"]
    assert "spark.pyspark.python" in said["python"]


def test_a_restarted_master_that_forgot_us_ends_in_a_new_context(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = (
        "context = engine.context()\n"
        "engine._watch._timeout = 5\n"
        "first = engine.jvm_pid\n"
        "print('up', flush=True)\n"
        f"while not Path({str(go)!r}).exists(): time.sleep(0.1)\n"
        "def slow(_):\n"
        "    import time; time.sleep(1); yield 1\n"
        "lost, tries = 0, 0\n"
        "while engine.jvm_pid == first and tries < 100:\n"
        "    tries += 1\n"
        "    try:\n"
        "        with engine.job_group('g') as context:\n"
        "            context.parallelize(range(2), 2).mapPartitions(slow).collect()\n"
        "    except Exception:\n"
        "        lost += 1\n"
        "with engine.job_group('g') as context:\n"
        "    done = context.parallelize(range(4), 4).mapPartitions(slow).sum()\n"
        "engine.close()\n"
        "print(json.dumps([lost, done]))\n"
    )
    process = driver(spark_cluster, tmp_path, script)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n", spark_cluster.logs()
    spark_cluster.master.kill()
    spark_cluster.master.start(wait=False)
    spark_cluster.wait_executors(0, 120)
    go.touch()
    lost, done = result(spark_cluster, process)
    assert (lost, done) == (1, 4)
    assert "all Spark executors are lost" in (tmp_path / "log").read_text()
