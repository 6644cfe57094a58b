"""A Docker engine for the tests: the one that answers, else one that is started here and ends with the tests."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from deploy.local.cache import CACHE, once
from deploy.local.process import HarnessError, binary, wait_until

#: Images and containers of an engine that is started here. They are kept: the next run needs no build.
ROOT = Path(os.environ.get("DM_TEST_DOCKER_ROOT", CACHE / "docker"))
_START_SECONDS = 120.0


def docker(*arguments: str, text: str | None = None, seconds: float = 900.0) -> str:
    """Runs ``docker``; what it printed. Raises ``HarnessError`` with its output if it fails."""
    done = subprocess.run(
        [binary("docker"), *arguments], input=text, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode:
        raise HarnessError(f"docker {' '.join(arguments[:8])} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def answers() -> bool:
    """Whether a Docker engine answers where the environment says that it is."""
    try:
        docker("version", "--format", "{{.Server.Version}}", seconds=20)
    except (HarnessError, subprocess.TimeoutExpired):
        return False
    return True


@contextlib.contextmanager
def running_engine() -> Iterator[str]:
    """Has an engine with Compose 2 ready for :func:`docker` and for testcontainers; says where it is from."""
    with contextlib.ExitStack() as stack:
        origin = "the engine that answers"
        if not answers():
            stack.enter_context(_started())
            origin = f"an engine that was started for the tests, with its files in {ROOT}"
        stack.enter_context(_environment("TESTCONTAINERS_RYUK_DISABLED", "true"))
        stack.enter_context(_plugins())
        yield origin


@contextlib.contextmanager
def _started() -> Iterator[None]:
    """Starts ``dockerd``; it takes overlay2 where the file system allows it, else vfs."""
    if os.geteuid() != 0:
        raise HarnessError("no Docker engine answers, and only root can start one: start Docker, or run as root")
    ROOT.mkdir(parents=True, exist_ok=True)
    socket, pid = ROOT / "docker.sock", ROOT / "docker.pid"
    places = [f"--data-root={ROOT}/root", f"--exec-root={ROOT}/exec", f"--pidfile={pid}", f"--host=unix://{socket}"]
    with (ROOT / "log").open("wb") as log:
        # A group of its own: Ctrl-C is for the tests, which end it.
        engine = subprocess.Popen([binary("dockerd"), *places], stdout=log, stderr=log, start_new_session=True)
    try:
        with _environment("DOCKER_HOST", f"unix://{socket}"):
            wait_until(lambda: engine.poll() is not None or answers(), "dockerd answers", _START_SECONDS)
            if engine.poll() is not None:
                raise HarnessError(f"dockerd ended:\n{(ROOT / 'log').read_text(errors='replace')[-3000:]}")
            yield
    finally:
        engine.terminate()
        engine.wait(60)


@contextlib.contextmanager
def _plugins() -> Iterator[None]:
    """Compose 2 and buildx: those of the machine, else those of Debian 13, whose programs run on other releases."""
    try:
        docker("compose", "version")
        docker("buildx", "version")
        yield
        return
    except HarnessError:
        files = once("docker-plugins", _unpack_plugins)
    config = files / "config"
    with _environment("DOCKER_CONFIG", str(config)):
        yield


def _unpack_plugins(folder: Path) -> None:
    options = ['Acquire::Check-Valid-Until "false"', 'Acquire::Check-Date "false"', 'APT::Install-Recommends "false"']
    command = [binary("mmdebstrap"), "--quiet", "--variant=extract", "--mode=chrootless"]
    command += [f"--aptopt={line}" for line in options]
    command += ["--include=docker-compose,docker-buildx", "trixie", str(folder / "files")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    plugins = folder / "config" / "cli-plugins"
    plugins.mkdir(parents=True)
    for name in ("docker-compose", "docker-buildx"):
        shutil.move(folder / "files" / "usr/libexec/docker/cli-plugins" / name, plugins / name)
    (folder / "config" / "config.json").write_text(json.dumps({}))
    shutil.rmtree(folder / "files")


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
