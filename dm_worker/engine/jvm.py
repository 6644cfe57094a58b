"""Spark's JVM as a child process that writes to our log and ends with our process.

PySpark's own start forks with Python code in the child (unsafe with other threads) and lets the JVM write to our stdout
and stderr. So we start it and pass PySpark the address of its gateway through the variables that PySpark reads for
that purpose. The JVM watches its stdin and exits when our process has ended.
"""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from dm_worker.engine.settings import as_properties
from pkg import errors
from pkg.errors import Code
from pkg.process.log import get_logger

log = get_logger(__name__)

#: Timeout in seconds for the start of a JVM on a busy machine.
START_TIMEOUT = 300.0
#: Timeout in seconds for the JVM to exit once its stdin is closed.
EXIT_TIMEOUT = 5.0
#: Timeout in seconds for the last lines of an ended JVM.
_OUTPUT_TIMEOUT = 2.0
_POLL = 0.05
#: Spark's classes in the form that the JVM maps; ``class_archive.py`` creates the file. The owner of the code writes
#: it: it is trusted as much as the code.
CLASS_ARCHIVE = Path(sys.prefix, "share", "dm-spark", "spark-classes.jsa")
#: The setting with the options of the JVM.
JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %c{1}: %m%n%ex{short.message}
"""


class SparkJvm:
    """One JVM with its gateway. ``folder`` contains its temporary files.

    Raises 50000 when it does not start (no Java, no memory), with its last output as the cause.
    """

    def __init__(self, settings: Mapping[str, str], folder: Path) -> None:
        self._said: list[str] = []
        info = folder / "gateway"
        info.unlink(missing_ok=True)
        self._process = _spawn(_with_java_options(settings, folder), info)
        self._output = threading.Thread(target=self._relay_output, name="spark-output", daemon=True)
        self._output.start()
        try:
            self.gateway = _connect(*self._await_gateway(info))
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        """The last lines that the JVM or its Python workers printed."""
        return "\n".join(self._said)

    def close(self, timeout: float = EXIT_TIMEOUT) -> None:
        """Ends the JVM: closes its stdin, and kills it if that does not help; then :attr:`last_words` are complete.
        Idempotent."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._await_output()

    def _await_output(self) -> None:
        """Waits until the output of the JVM, which has ended, is read."""
        # Python workers share the output; do not wait for one that does not end.
        self._output.join(_OUTPUT_TIMEOUT)

    def _await_gateway(self, info: Path) -> tuple[int, str]:
        deadline = time.monotonic() + START_TIMEOUT
        while not info.exists():
            if not self.alive:
                self._await_output()
                raise not_started(f"it exited with code {self._process.returncode}", self._said)
            if time.monotonic() > deadline:
                raise not_started(f"it did not answer within {START_TIMEOUT:.0f} s", self._said)
            time.sleep(_POLL)
        data = info.read_bytes()
        port, length = struct.unpack(">ii", data[:8])
        return port, data[8 : 8 + length].decode()

    def _relay_output(self) -> None:
        """Logs the output of the JVM and the Python workers; the last lines explain a failed start."""
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            line = raw.decode(errors="replace").rstrip()
            if line:
                self._said = [*self._said[-19:], line]
                log.debug("spark", line=line)


def _spawn(settings: Mapping[str, str], info: Path) -> subprocess.Popen[bytes]:
    # In a file, because all users of the machine may read command lines, and a setting may be a secret.
    properties = info.with_name("spark.properties")
    properties.unlink(missing_ok=True)
    with open(os.open(properties, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write(as_properties(settings))
    home = _find_spark_home()
    command = [os.path.join(home, "bin", "spark-submit"), "--properties-file", str(properties)]
    env = {
        # The script starts a first JVM to compute the command of ours.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **os.environ,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
        # The script would start Python to find it.
        "SPARK_HOME": home,
    }
    try:
        return subprocess.Popen(
            [*command, "--load-spark-defaults", "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            # Signals for our process group (Ctrl-C, a closed terminal) are handled by us: we stop the JVM in order.
            start_new_session=True,
        )
    except OSError as exc:
        raise not_started(str(exc), []) from exc


def _with_java_options(settings: Mapping[str, str], folder: Path, archive: Path = CLASS_ARCHIVE) -> dict[str, str]:
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J, encoding="utf-8")
    ours = f"-Dlog4j2.configurationFile=file:{log4j} -Djava.io.tmpdir={folder} -XX:-UsePerfData"
    given = settings.get(JAVA_OPTIONS, "")
    # The driver schedules and copies; the work is in Python. The quick compiler alone halves the CPU of a cold start,
    # and after hundreds of jobs it still needs less CPU per job than together with the thorough one.
    if "TieredStopAtLevel" not in given:
        ours += " -XX:TieredStopAtLevel=1"
    # Two collectors would be an error.
    if not re.search(r"-XX:[+-]Use\w+GC", given):
        ours += " -XX:+UseSerialGC"
    # Java checks that the archive is of the same Java and jars, and otherwise does not use it.
    if archive.is_file() and not re.search(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit", given):
        ours += f' "-XX:SharedArchiveFile={archive}"'
    return {**settings, JAVA_OPTIONS: f"{ours} {given}".strip()}


def _connect(port: int, secret: str) -> Any:
    """PySpark's gateway object for our JVM."""
    address = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(address)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in address:
            os.environ.pop(name, None)


def not_started(why: str, said: list[str]) -> errors.DMError:
    """The error of a failed start; ``said`` are the JVM's last lines."""
    return errors.new(
        Code.NotSet,
        f"Spark's JVM did not start: {why}",
        raw="\n".join(said),
        workaround="Check that Java 17 or newer is installed (JAVA_HOME), that there is enough memory for "
        "`driver-memory`, and the settings under [spark] in the worker's configuration; then resume the "
        "task.",
    )
