"""Hazard: a worker does not do what etcd expects, or works on after kill -9 or without a lease."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from deploy.local.cluster import environment
from deploy.local.process import Process, free_port, wait_until
from dm_worker.relay.atomic_files import replace_file
from dm_worker.subtask.subtask import GRACE
from pkg.config.model import CheckerConfig, SourceConfig, SubTaskConfig
from pkg.ha import keys
from pkg.ha.binlog_operator import BinlogOperator
from pkg.pb import dmworker_pb2 as pb
from pkg.pb import dmworker_pb2_grpc
from pkg.settings.connections import DBConfig
from tests.harness.etcd import EtcdServer
from tests.harness.registering_master import RegisteringMaster

#: Nobody listens there: an upstream that is away must not matter to the worker itself.
NOWHERE = DBConfig(host="127.0.0.1", port=1, user="root", password="secret-of-the-upstream")
SOURCE = SourceConfig(source_id="mysql-01", from_=NOWHERE, flavor="mysql", checker=CheckerConfig(check_interval=0.2))
TASK = SubTaskConfig(name="t1", source_id="mysql-01", task_mode="all", from_=NOWHERE, to=NOWHERE)
TTL = 6


class FakeUnitWorker(Process):
    """A real dm-worker process whose units are fakes."""

    name = "dm-worker"

    def __init__(
        self, master: str, *, member: str = "worker1", spark: bool = False, settings: str = "", without: str = ""
    ) -> None:
        """``without`` names a compiled part that cannot be loaded."""
        super().__init__()
        (self.dir / "sitecustomize.py").write_text(f"import sys\nsys.modules['pkg.native._{without}'] = None\n")
        self.member = member
        self.port = free_port()
        self.units = self.dir / "units"
        self.units.mkdir()
        self.config = self.dir / "dm-worker.toml"
        self.config.write_text(
            f'name = "{member}"\nworker-addr = "127.0.0.1:{self.port}"\njoin = "{master}"\nkeepalive-ttl = {TTL}\n'
            + settings
            # Without a Java to start, the tests that need no Spark are quick.
            + ("[spark]\nslots = 2\n" if spark else "")
        )
        self.spark = spark

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "tests.harness.fake_units", "--config", str(self.config)]

    def environment(self) -> Mapping[str, str]:
        home = {} if self.spark else {"SPARK_HOME": str(self.dir)}
        inherited = environment()
        paths = {"PYTHONPATH": os.pathsep.join(filter(None, [str(self.dir), inherited.get("PYTHONPATH")]))}
        return {**inherited, "FAKE_UNITS": str(self.units), "TMPDIR": str(self.dir), **home, **paths}

    def ready(self) -> bool:
        try:
            return b"Release Version" in self.get("/status").encode()
        except OSError:
            return False

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def journal(self) -> list[str]:
        path = self.units / "journal"
        return [line.split(" ", 1)[1] for line in path.read_text().splitlines()] if path.exists() else []

    def tell(self, name: str, text: str = "") -> None:
        # The units look for it all the time: it must have its text as soon as it is there.
        replace_file(self.units / name, text)

    def untell(self, name: str) -> None:
        (self.units / name).unlink()

    def query(self, task: str = "") -> pb.QueryStatusResponse:
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            stub = dmworker_pb2_grpc.WorkerStub(channel)  # type: ignore[no-untyped-call]
            answer: pb.QueryStatusResponse = stub.QueryStatus(pb.QueryStatusRequest(name=task), timeout=5)
            return answer

    def stage(self, task: str = "t1") -> int:
        return next((s.stage for s in self.query().subTaskStatus if s.name == task), 0)

    def wait_stage(self, stage: int, seconds: float = 60, task: str = "t1") -> None:
        wait_until(lambda: self.stage(task) == stage, lambda: f"stage {pb.Stage.Name(stage)}\n{self.tail()}", seconds)

    def wait_run(self, unit: str) -> None:
        """Until the unit itself has begun: its subtask is Running a moment earlier, when a stop still finds no run."""
        wait_until(lambda: f"{unit} run" in self.journal(), lambda: f"{unit} run\n{self.tail()}")


@pytest.fixture
def master(etcd: EtcdServer) -> Iterator[RegisteringMaster]:
    master = RegisteringMaster(etcd.endpoint)
    yield master
    master.close()


@pytest.fixture
def new_worker(master: RegisteringMaster) -> Iterator[Callable[..., FakeUnitWorker]]:
    made: list[FakeUnitWorker] = []

    def make(**options: object) -> FakeUnitWorker:
        worker = FakeUnitWorker(master.address, **options)  # type: ignore[arg-type]
        made.append(worker)
        return worker

    yield make
    for worker in made:
        worker.cleanup()


@pytest.fixture
def worker(master: RegisteringMaster, new_worker: Callable[..., FakeUnitWorker]) -> FakeUnitWorker:
    """Joined and bound to the source."""
    worker = new_worker()
    worker.start()
    master.bind("worker1", SOURCE)
    wait_until(lambda: worker.query().result, "source bound")
    return worker


def test_a_worker_without_source_says_so(master: RegisteringMaster, new_worker: Callable[..., FakeUnitWorker]) -> None:
    worker = new_worker()
    worker.start()
    wait_until(lambda: master.alive("worker1"), "alive key")
    answer = worker.query()
    assert not answer.result
    assert "code=40070" in answer.msg
    assert worker.get("/health") == '{"health": "true"}'


def test_status_and_metrics_show_that_compiled_code_is_missing(
    master: RegisteringMaster, new_worker: Callable[..., FakeUnitWorker]
) -> None:
    worker = new_worker(without="rows")
    worker.start()
    master.bind("worker1", SOURCE)
    wait_until(lambda: worker.query().result, "source bound")
    message = worker.query().msg
    assert "the compiled code of rows is not in use, and the Python code in its place is many times slower:" in message
    assert "import of pkg.native._rows halted" in message
    assert "make kernel" in message
    metrics = worker.get("/metrics")
    reason = "ModuleNotFoundError:_import_of_pkg.native._rows_halted;_None_in_sys.modules"
    assert f'dm_worker_kernel_compiled{{part="rows",reason="{reason}"}} 0\n' in metrics
    assert 'dm_worker_kernel_compiled{part="scan",reason=""} 1\n' in metrics
    assert '["compiled code is missing"]' in worker.tail()


def test_units_run_in_order_and_status_shows_each(master: RegisteringMaster, worker: FakeUnitWorker) -> None:
    empty = worker.query()
    assert (empty.sourceStatus.source, empty.sourceStatus.worker) == ("mysql-01", "worker1")
    assert list(empty.subTaskStatus) == []
    assert empty.msg == "no sub task started"
    orders = [BinlogOperator("skip", task, "mysql-01", "bin.000001:4") for task in ("t1", "t2")]
    for order in orders:
        master.etcd.put(order.key, order.to_json())
    master.start_task(TASK)
    worker.wait_stage(pb.Running)
    status = worker.query("t1").subTaskStatus[0]
    assert (status.unit, status.dump.progress, status.HasField("result")) == (pb.Dump, "50.00 %", False)
    worker.tell("dump.finish")
    worker.wait_run("load")
    assert worker.query().subTaskStatus[0].WhichOneof("status") == "load"
    assert master.etcd.get(keys.LOAD_TASK.key("t1", "mysql-01")) is not None
    kept = [master.etcd.get(order.key) is not None for order in orders]
    assert kept == [False, True], "a new copy obeys no order of an earlier life"
    worker.tell("load.finish")
    worker.wait_run("sync")
    assert worker.query().subTaskStatus[0].WhichOneof("status") == "sync"
    assert master.etcd.get(keys.LOAD_TASK.key("t1", "mysql-01")) is None
    assert worker.query("other").subTaskStatus[0].msg == "no sub task with name other has started"
    metrics = worker.get("/metrics")
    assert 'dm_worker_task_state{source_id="mysql-01",task="t1",worker="worker1"} 2\n' in metrics
    assert 'dm_syncer_replication_lag_gauge{source_id="mysql-01",task="t1",worker="worker1"} 7\n' in metrics
    assert 'dm_syncer_binlog_file{node="syncer",source_id="mysql-01",task="t1"} 3\n' in metrics


def test_pause_resume_stop(master: RegisteringMaster, worker: FakeUnitWorker) -> None:
    master.start_task(TASK)
    worker.wait_run("dump")
    master.set_stage(TASK, "Paused")
    worker.wait_stage(pb.Paused)
    result = worker.query().subTaskStatus[0].result
    assert result.isCanceled
    assert not result.errors
    assert 'task="t1",worker="worker1"} 3\n' in worker.get("/metrics")
    master.set_stage(TASK, "Running")
    wait_until(lambda: worker.journal() == ["dump run", "dump canceled", "dump run"], "running again")
    assert worker.stage() == pb.Running
    master.stop_task(TASK)
    wait_until(lambda: not worker.query().subTaskStatus, "subtask gone")
    assert worker.journal() == ["dump run", "dump canceled", "dump run", "dump canceled"]
    assert "dm_worker_task_state{" not in worker.get("/metrics")
    # Started again, it is a new subtask.
    master.start_task(TASK)
    worker.wait_stage(pb.Running)


def test_pause_and_stop_do_not_wait_for_a_unit_that_initialises(
    master: RegisteringMaster, worker: FakeUnitWorker
) -> None:
    worker.tell("dump.initialising")
    master.start_task(TASK)
    worker.wait_run("dump")
    master.set_stage(TASK, "Paused")
    worker.wait_stage(pb.Paused)
    assert worker.journal() == ["dump run"]
    assert not worker.query().subTaskStatus[0].result.errors
    master.stop_task(TASK)
    wait_until(lambda: not worker.query().subTaskStatus, "subtask gone")
    assert worker.journal() == ["dump run"]
    # Another one of its name begins when the thread of the first has ended.
    master.start_task(TASK)
    worker.untell("dump.initialising")
    again = ["dump run", "dump left alone", "dump run"]
    wait_until(lambda: worker.journal() == again, lambda: f"it runs: {worker.journal()}\n{worker.tail()}")
    worker.wait_stage(pb.Running)


def test_a_changed_config_replaces_the_subtask(master: RegisteringMaster, worker: FakeUnitWorker) -> None:
    master.start_task(replace(TASK, task_mode="incremental"))
    worker.wait_run("sync")
    master.start_task(TASK)
    wait_until(lambda: worker.journal() == ["sync run", "sync canceled", "dump run"], "replaced")


def test_a_stubborn_unit_is_stopped_hard_after_its_grace(master: RegisteringMaster, worker: FakeUnitWorker) -> None:
    worker.tell("dump.stubborn")
    master.start_task(TASK)
    worker.wait_run("dump")
    began = time.monotonic()
    master.set_stage(TASK, "Paused")
    worker.wait_stage(pb.Pausing)
    worker.wait_stage(pb.Paused)
    assert time.monotonic() - began >= GRACE - 1


def test_an_error_pauses_and_resume_task_goes_on(master: RegisteringMaster, worker: FakeUnitWorker) -> None:
    worker.tell("dump.fail", "Error 1062 (23000): Duplicate entry '1' for key 'PRIMARY'")
    master.start_task(TASK)
    worker.wait_stage(pb.Paused)
    error = worker.query().subTaskStatus[0].result.errors[0]
    assert (error.ErrCode, error.ErrClass) == (10006, "database")
    assert "Duplicate entry" in error.Message
    assert 'dm_dumpling_exit_with_error_count{resumable_err="false",source_id="mysql-01",task="t1"} 1\n' in worker.get(
        "/metrics"
    )
    worker.untell("dump.fail")
    time.sleep(2)
    assert worker.stage() == pb.Paused, "a duplicate key must not be tried again by itself"
    master.set_stage(TASK, "Running")  # the same text again: what resume-task writes
    worker.wait_stage(pb.Running)


def test_a_passing_error_is_resumed_by_itself(master: RegisteringMaster, worker: FakeUnitWorker) -> None:
    worker.tell("dump.fail", "Error 2013: Lost connection to server during query")
    master.start_task(TASK)
    worker.wait_stage(pb.Paused)
    worker.untell("dump.fail")
    worker.wait_stage(pb.Running)


def test_an_unreadable_config_is_an_error_in_the_status(master: RegisteringMaster, worker: FakeUnitWorker) -> None:
    master.start_task(TASK)
    worker.wait_stage(pb.Running)
    other = replace(TASK, name="t2")
    master.start_task(other)
    worker.wait_stage(pb.Running, task="t2")
    master.etcd.put(keys.SUBTASK.key("mysql-01", "t2"), '{"name": "t2", "from-the-future": 1}')
    worker.wait_stage(pb.Paused, task="t2")
    status = worker.query("t2").subTaskStatus[0]
    assert status.result.errors[0].ErrCode == 20035
    assert 'dm_worker_task_state{source_id="mysql-01",task="t2",worker="worker1"} 3\n' in worker.get("/metrics")
    assert worker.stage("t1") == pb.Running, "another task must not suffer"
    master.start_task(other)
    worker.wait_stage(pb.Running, task="t2")


def test_kill_9_and_restart_resume_what_was_expected(master: RegisteringMaster, worker: FakeUnitWorker) -> None:
    paused = replace(TASK, name="t2")
    master.start_task(TASK)
    master.start_task(paused, "Paused")
    worker.wait_stage(pb.Running)
    worker.wait_stage(pb.Paused, task="t2")
    worker.tell("dump.finish")
    worker.tell("load.finish")
    worker.wait_run("sync")
    worker.kill()
    assert master.alive("worker1"), "its lease outlives it"
    worker.start()
    worker.wait_stage(pb.Running)
    wait_until(lambda: worker.journal().count("sync run") == 2, "sync again")
    assert worker.journal().count("dump run") == 1, "a finished dump is not done again"
    worker.wait_stage(pb.Paused, task="t2")


def test_etcd_restart_within_the_lease_disturbs_nothing(
    master: RegisteringMaster, worker: FakeUnitWorker, etcd: EtcdServer
) -> None:
    master.start_task(TASK)
    worker.wait_stage(pb.Running)
    etcd.kill()
    etcd.start()
    time.sleep(TTL + 1)
    assert worker.journal() == ["dump run"]
    assert worker.query().result
    master.set_stage(TASK, "Paused")
    worker.wait_stage(pb.Paused)


def test_a_lost_lease_stops_everything_and_the_worker_joins_again(
    master: RegisteringMaster, worker: FakeUnitWorker, etcd: EtcdServer
) -> None:
    worker.tell("dump.stubborn")  # a graceful stop would take its time
    master.start_task(TASK)
    wait_until(lambda: worker.journal() == ["dump run"], "running")
    etcd.kill()
    died = time.monotonic()
    time.sleep(TTL / 3)
    assert worker.journal() == ["dump run"], "the lease still lives: nothing has to stop"
    wait_until(lambda: worker.journal() == ["dump run", "dump canceled"], "stopped with the lease")
    assert time.monotonic() - died <= TTL + 3, "stopped before anybody else may take the source"
    assert not worker.query().result
    etcd.start()
    wait_until(lambda: worker.journal() == ["dump run", "dump canceled", "dump run"], "running again")
    assert master.registrations >= 2


def test_an_unbound_source_stops_and_another_takes_over(
    master: RegisteringMaster, worker: FakeUnitWorker, new_worker: Callable[..., FakeUnitWorker]
) -> None:
    other = new_worker(member="worker10")  # its key begins with the other's
    other.start()
    master.start_task(TASK)
    worker.wait_run("dump")
    master.unbind("worker1")
    wait_until(lambda: worker.journal() == ["dump run", "dump canceled"], "stopped")
    master.bind("worker10", SOURCE)
    other.wait_stage(pb.Running)
    assert not worker.query().result


def test_a_load_goes_on_only_where_its_files_are(
    master: RegisteringMaster, worker: FakeUnitWorker, new_worker: Callable[..., FakeUnitWorker]
) -> None:
    worker.tell("dump.finish")
    master.start_task(TASK)
    worker.wait_run("load")
    master.unbind("worker1")
    wait_until(lambda: "load canceled" in worker.journal(), "stopped")
    other = new_worker(member="worker2")
    other.start()
    master.bind("worker2", SOURCE)
    other.wait_stage(pb.Paused)
    error = other.query().subTaskStatus[0].result.errors[0]
    assert error.ErrCode == 34017
    assert "worker1" in error.Message
    assert other.journal() == []


def test_sigterm_stops_gracefully_and_revokes_the_lease(master: RegisteringMaster, worker: FakeUnitWorker) -> None:
    master.start_task(TASK)
    worker.wait_run("dump")
    assert worker.stop(seconds=15) == 0
    assert worker.journal() == ["dump run", "dump canceled"]
    assert not master.alive("worker1")


def test_a_unit_that_cannot_be_stopped_ends_with_the_process(master: RegisteringMaster, worker: FakeUnitWorker) -> None:
    worker.tell("dump.immortal")
    master.start_task(TASK)
    worker.wait_run("dump")
    assert worker.stop(seconds=30) == 1
    assert "code=40083" in worker.tail()


def test_a_taken_name_is_refused_at_once(master: RegisteringMaster, new_worker: Callable[..., FakeUnitWorker]) -> None:
    master.registered["worker1"] = "10.0.0.1:8262"
    worker = new_worker()
    done = subprocess.run(
        [*worker.command()], env=dict(worker.environment()), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "code=46003" in done.stderr
    assert done.stdout == ""


def test_no_master_to_join_is_an_error_that_names_it(new_worker: Callable[..., FakeUnitWorker]) -> None:
    worker = new_worker()
    nowhere = f"127.0.0.1:{free_port()}"
    done = subprocess.run(
        [*worker.command(), f"--join={nowhere}"],
        env=dict(worker.environment()),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "code=40077" in done.stderr
    assert nowhere in done.stderr


def test_rows_are_hidden_from_the_log_but_not_from_the_status(
    master: RegisteringMaster, new_worker: Callable[..., FakeUnitWorker]
) -> None:
    worker = new_worker(settings="redact-info-log = true\n")
    worker.start()
    master.bind("worker1", SOURCE)
    worker.tell("dump.fail", "Error 1062 (23000): Duplicate entry 'the-customers-name' for key 'PRIMARY'")
    master.start_task(TASK)
    worker.wait_stage(pb.Paused)
    assert "the-customers-name" in worker.query().subTaskStatus[0].result.errors[0].Message
    log = worker.log.read_text()
    assert "Duplicate entry ? for key 'PRIMARY'" in log
    assert "the-customers-name" not in log


def test_secrets_reach_no_log(master: RegisteringMaster, worker: FakeUnitWorker) -> None:
    master.start_task(TASK)
    worker.wait_stage(pb.Running)
    assert "secret-of-the-upstream" not in worker.log.read_text()


def children(pid: int) -> list[int]:
    """All descendants of a process."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            child = int(stat.parent.name)
            found += [child, *children(child)]
    return found


def alive(pids: Sequence[int]) -> list[int]:
    living = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z":
            living.append(pid)
    return living


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_child_outlives_the_worker(
    master: RegisteringMaster, new_worker: Callable[..., FakeUnitWorker], how: signal.Signals
) -> None:
    worker = new_worker(spark=True)
    worker.start()
    master.bind("worker1", SOURCE)
    # JVM, Python daemon and a Python worker.
    wait_until(lambda: len(children(worker.pid)) >= 3 and "Spark is ready" in worker.log.read_text(), "Spark", 60)
    processes = children(worker.pid)
    worker.signal(how)
    wait_until(lambda: not worker.running(), "the worker ended", 30)
    wait_until(lambda: not alive(processes), f"children of {worker.pid} ended: {processes}")
    if how == signal.SIGTERM:
        assert not list(worker.dir.glob("dm-worker-*")), "temporary files left behind"
