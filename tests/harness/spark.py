"""A Spark standalone cluster on loopback: one master and some workers, from PySpark's jars.

It requires authentication, like a production cluster. Tests find its executors in /proc, to kill them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from deploy.local.process import Process, free_port, wait_until
from dm_worker.engine.jvm import CLASS_ARCHIVE
from tests.harness.proctree import command_of, descendants

_EXECUTOR = "CoarseGrainedExecutorBackend"
#: JVMs start slowly on a busy machine.
_START_SECONDS = 120.0


def java_options() -> str:
    """Options that make the JVMs of a test start fast, like those of the driver."""
    archive = [f"-XX:SharedArchiveFile={CLASS_ARCHIVE}"] if CLASS_ARCHIVE.is_file() else []
    return " ".join(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *archive])


class _SparkDaemon(Process):
    """Shared by master and workers: how they start, and the log line that shows that they are ready."""

    main_class = ""
    ready_words = ""

    def __init__(self, base: Path, defaults: Path) -> None:
        super().__init__(base)
        self._defaults = defaults

    @abstractmethod
    def arguments(self) -> Sequence[str]:
        """The daemon's command-line arguments."""

    def command(self) -> Sequence[str]:
        launcher = os.path.join(_find_spark_home(), "bin", "spark-class")
        return [launcher, self.main_class, *self.arguments(), "--properties-file", str(self._defaults)]

    def environment(self) -> Mapping[str, str]:
        settings = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": java_options()}
        return {**os.environ, **settings, "SPARK_LOCAL_IP": "127.0.0.1"}

    def ready(self) -> bool:
        return self.ready_words in self.log.read_text(errors="replace")


class SparkMaster(_SparkDaemon):
    """The master; it keeps no state over a restart, Spark's default."""

    name = "spark-master"
    main_class = "org.apache.spark.deploy.master.Master"
    ready_words = "New state: ALIVE"

    def __init__(self, base: Path, defaults: Path) -> None:
        super().__init__(base, defaults)
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def arguments(self) -> Sequence[str]:
        return ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(free_port())]


class SparkWorker(_SparkDaemon):
    """One worker with some cores; each application gets one executor of it."""

    name = "spark-worker"
    main_class = "org.apache.spark.deploy.worker.Worker"
    ready_words = "Successfully registered with master"

    def __init__(self, base: Path, defaults: Path, master: str, cores: int) -> None:
        super().__init__(base, defaults)
        self._master = master
        self._cores = cores

    def arguments(self) -> Sequence[str]:
        ports = ["--host", "127.0.0.1", "--webui-port", str(free_port())]
        size = ["--cores", str(self._cores), "--memory", "4g", "--work-dir", str(self.dir / "work")]
        return [*ports, *size, self._master]

    def executors(self) -> list[int]:
        """The process ids of the executors that run on this worker."""
        if not self.running():
            return []
        return [pid for pid in descendants(self.pid) if _EXECUTOR in command_of(pid)]

    def executor_logs(self) -> str:
        """The last output of the executors."""
        found = sorted((self.dir / "work").glob("*/*/stderr"))
        return "\n".join(f"-- {path}\n{path.read_text(errors='replace')[-4000:]}" for path in found)


def driver_conf(secret: str) -> dict[str, str]:
    """The ``[spark.conf]`` of a driver for a cluster on loopback."""
    return {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secret,
        "spark.network.crypto.enabled": "true",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": java_options(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def driver_toml(master: str, secret: str, **settings: object) -> str:
    """The ``[spark]`` section of a dm-worker whose cluster is at the URL ``master``."""
    conf = "\n".join(f'"{key}" = "{value}"' for key, value in driver_conf(secret).items())
    lines = "\n".join(f"{key.replace('_', '-')} = {value}" for key, value in settings.items())
    return f'[spark]\nmaster = "{master}"\n{lines}\n[spark.conf]\n{conf}\n'


class SparkCluster:
    """A master and ``workers`` workers of ``cores`` cores each, in their own folder."""

    def __init__(self, workers: int = 2, cores: int = 2) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="dm-spark-cluster-"))
        #: The secret that both sides need; the master refuses a driver without it.
        self.secret = secrets.token_hex(16)
        defaults = self.dir / "spark.conf"
        defaults.write_text(
            f"spark.authenticate true\nspark.authenticate.secret {self.secret}\nspark.network.crypto.enabled true\n"
        )
        self.master = SparkMaster(self.dir, defaults)
        self.workers = [SparkWorker(self.dir, defaults, self.master.url, cores) for _ in range(workers)]

    @property
    def conf(self) -> dict[str, str]:
        """The ``[spark.conf]`` of a driver for this cluster."""
        return driver_conf(self.secret)

    def toml(self, **settings: object) -> str:
        """The ``[spark]`` section of a dm-worker that uses this cluster."""
        return driver_toml(self.master.url, self.secret, **settings)

    def start(self) -> None:
        self.master.start(wait=False)
        self.master.wait_ready(_START_SECONDS)
        for worker in self.workers:
            worker.start(wait=False)
        for worker in self.workers:
            worker.wait_ready(_START_SECONDS)

    def executors(self) -> list[int]:
        return [pid for worker in self.workers for pid in worker.executors()]

    def wait_executors(self, count: int, seconds: float = _START_SECONDS) -> list[int]:
        """Waits until ``count`` executors run; returns their process ids."""
        wait_until(lambda: len(self.executors()) == count, f"{count} Spark executors run", seconds)
        return self.executors()

    def logs(self) -> str:
        """The last lines of all logs, for a failing test's report."""
        daemons = "\n\n".join(f"== {p.name} {p.dir.name}\n{p.tail(20)}" for p in (self.master, *self.workers))
        return "\n\n".join([daemons, *(worker.executor_logs() for worker in self.workers)])

    def close(self) -> None:
        for process in (*self.workers, self.master):
            process.stop(seconds=15)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self) -> SparkCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
