"""A server process of the demo or a test: starts it, waits until it is ready, kills it, and never leaves it running."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pkg.process.dies_with_parent import dying_with_parent


class HarnessError(RuntimeError):
    """A real component is missing or does not start: a set-up error, never a reason to skip."""


#: The limit of any wait in seconds: a busy machine is slow, and the first test that needs Spark starts it.
WAIT_TIMEOUT = 240.0
#: Ports below the range of outgoing connections, and the size of the part that each parallel test process owns.
_PORTS, _SHARE = range(16_000, 32_000), 2_000


def _own_ports() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    share = _PORTS[worker % (len(_PORTS) // _SHARE) * _SHARE :][:_SHARE]
    # Another checkout's tests may run at the same time.
    first = os.getpid() * 37 % _SHARE
    while True:
        yield from share[first:]
        yield from share[:first]


_own = _own_ports()


def free_port() -> int:
    """A loopback port without a listener, not used recently by this or another process of the same test run."""
    for port in _own:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise HarnessError("no free port")


def binary(*names: str) -> str:
    """The first of ``names`` found on PATH or in Debian's folders for servers."""
    for name in names:
        found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")
        if found:
            return found
    raise HarnessError(f"none of {', '.join(names)} is installed; `make setup` installs it")


def wait_until(
    ready: Callable[[], bool], what: str | Callable[[], str], seconds: float = 60.0, step: float = 0.05
) -> None:
    """Polls ``ready`` until it is true; raises ``HarnessError`` naming ``what`` (as it is then) after ``seconds``."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise HarnessError(f"{what if isinstance(what, str) else what()}: not within {seconds:.0f} s")
        time.sleep(step)


def await_stopped(pid: int) -> None:
    """Waits until no thread of a process runs, or it is gone: on a busy machine, its threads go on after SIGSTOP until
    one of them has handled the signal."""

    def stands_still() -> bool:
        try:
            stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
        except (FileNotFoundError, ProcessLookupError):  # a thread ended after it was listed
            return False
        return {stat.rpartition(")")[2].split()[0] for stat in stats} <= {"T", "Z"}

    wait_until(stands_still, f"process {pid} is stopped", step=0.001)


@cache
def _starter() -> ThreadPoolExecutor:
    """The thread that starts all processes: the kernel ends them with it, and it lives as long as this process."""
    return ThreadPoolExecutor(1, thread_name_prefix="starter")


class Process(ABC):
    """One child process with a log file; subclasses define how to start it and when it is ready.

    It ends with this process, even after kill -9, unless :attr:`outlives` is set before the start.
    """

    name = "process"
    #: Whether processes started from now on continue after this one ends (a cluster for manual use).
    outlives = False

    def __init__(self, base: Path | None = None) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix=f"dm-{self.name}-", dir=base))
        self.log = self.dir / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command line."""

    def environment(self) -> Mapping[str, str]:
        return os.environ

    @abstractmethod
    def ready(self) -> bool:
        """Whether it is ready for use."""

    @property
    def pid(self) -> int:
        if self._process is None:
            raise HarnessError(f"{self.name} is not running")
        return self._process.pid

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> None:
        command = list(self.command())
        self._process = self._spawn(command) if self.outlives else self._spawn_dying(command)
        if wait:
            self.wait_ready()

    def _spawn_dying(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return _starter().submit(self._spawn, dying_with_parent(command)).result()

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.dir,
                env=dict(self.environment()),
                start_new_session=True,
            )

    def wait_ready(self, seconds: float = 120.0) -> None:
        def up() -> bool:
            if not self.running():
                raise HarnessError(f"{self.name} ended while starting:\n{self.tail()}")
            return self.ready()

        wait_until(up, f"{self.name} answers", seconds)

    def tail(self, lines: int = 40) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def signal(self, number: int) -> None:
        """Sends a signal; after SIGSTOP, returns when no thread runs."""
        os.kill(self.pid, number)
        if number == signal.SIGSTOP:
            await_stopped(self.pid)

    def kill(self) -> None:
        """kill -9, and waits until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, seconds: float = 30.0) -> int:
        """Ends it gracefully (kills it after ``seconds``); returns the exit code."""
        if self._process is None:
            return 0
        if self.running():
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return int(self._process.returncode or 0)

    def restart(self) -> None:
        self.stop()
        self.start()

    def cleanup(self) -> None:
        """Stops it at once and removes its folder."""
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


@contextmanager
def up(*processes: Process) -> Iterator[None]:
    """Starts all of them; removes them at the end, also if one does not start."""
    try:
        for process in processes:
            process.start()
        yield
    finally:
        for process in processes:
            process.cleanup()


def port_open(port: int) -> bool:
    with socket.socket() as sock:
        sock.settimeout(0.5)
        return sock.connect_ex(("127.0.0.1", port)) == 0
