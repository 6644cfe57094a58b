"""The project's Compose file as a cluster that tests drive: dmctl, SQL, and what happens to containers."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker as docker_sdk
import pymysql
from testcontainers.compose import DockerCompose

from deploy.local.cluster import ROOT
from deploy.local.process import HarnessError
from tests.containers.driven import TARGET_PASSWORD, UPSTREAM_PASSWORD, DrivenCluster
from tests.containers.images import PRESENT

MASTERS = ("dm-master1", "dm-master2")
#: With a file of its standard input: the version before has no `-`.
_FILE = "/tmp/dmctl-input"
_DMCTL = ("sh", "-c", f'cat >{_FILE}; exec dmctl "$@"', "dmctl")
_SPARK_DEFAULTS = ROOT / "deploy" / "docker" / "spark" / "spark-defaults.sample"
_FILES = [str(ROOT / "docker-compose.yml"), str(Path(__file__).with_name("ports.yml"))]


class ComposeCluster(DrivenCluster, DockerCompose):
    """``docker-compose.yml`` with the ports of databases on loopback; :meth:`up` and :meth:`down`."""

    masters = MASTERS

    def __init__(self, folder: Path, images: Mapping[str, str]) -> None:
        self._folder, self._images = folder, dict(images)
        self._environment_file = folder / "env"
        self.project = f"dm-test-{folder.name[-8:].lower().strip('_-')}"
        DockerCompose.__init__(
            self,
            context=str(ROOT),
            compose_file_name=_FILES,
            env_file=str(self._environment_file),
            docker_command_path="docker",
        )
        self.sdk = docker_sdk.from_env()

    def compose(self, *arguments: str, text: str | None = None, seconds: float = 600.0) -> str:
        """Runs ``docker compose``; what it printed. Raises ``HarnessError`` with its output if it fails."""
        files = [word for name in _FILES for word in ("--file", name)]
        command = [
            "docker",
            "compose",
            "--project-name",
            self.project,
            "--env-file",
            str(self._environment_file),
            *files,
        ]
        command += ["--profile", "spark", *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=seconds, check=False)
        if done.returncode:
            raise HarnessError(
                f"docker compose {' '.join(arguments)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )
        return done.stdout

    def up(self, *services: str, version: str = PRESENT) -> None:
        """Starts or replaces ``services`` (else all but Spark's) with that version of the image; waits for health."""
        # In single quotes nothing but a quote has a meaning, which cannot be written there.
        values = {**self._images, "DM_VERSION": version}
        lines = [f"{name}='{value}'" for name, value in values.items()]
        passwords = {"UPSTREAM_PASSWORD": UPSTREAM_PASSWORD, "TARGET_PASSWORD": TARGET_PASSWORD}
        lines += [f"{name}={_quoted(value)}" for name, value in passwords.items()]
        self._environment_file.write_text("\n".join(lines) + "\n")
        chosen = services or self.plain_services()
        self.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "300", *chosen)

    def plain_services(self) -> list[str]:
        """The services without a profile."""
        config = json.loads(self.compose("config", "--format", "json"))
        return [name for name, service in config["services"].items() if not service.get("profiles")]

    def down(self, *, volumes: bool) -> None:
        self.compose("down", "--remove-orphans", *(["--volumes"] if volumes else []))

    # ---- the cluster ------------------------------------------------------------------------------------------------

    def run_dmctl(self, master: str, arguments: Sequence[str], text: str) -> str:
        words = [_FILE if word == "-" else word for word in arguments]
        addresses = ",".join(f"{name}:8261" for name in MASTERS)
        return self.compose("exec", "-T", master, *_DMCTL, "--master-addr", addresses, *words, text=text)

    # ---- containers -------------------------------------------------------------------------------------------------

    def containers(self, service: str) -> list[Any]:
        """The running containers of a service, as the Docker SDK has them."""
        labels = [f"com.docker.compose.project={self.project}", f"com.docker.compose.service={service}"]
        return list(self.sdk.containers.list(filters={"label": labels}))

    def kill(self, service: str, number: int = 0) -> None:
        """``docker kill`` of one container."""
        self.containers(service)[number].kill()

    def healthy(self, service: str) -> bool:
        found = self.containers(service)
        return bool(found) and all(one.attrs["State"]["Health"]["Status"] == "healthy" for one in found)

    def images_of(self, *services: str) -> set[str]:
        """The names of the images that these services run."""
        return {one.attrs["Config"]["Image"] for service in services for one in self.containers(service)}

    @contextmanager
    def cut_off(self, service: str) -> Iterator[None]:
        """The container reaches nobody and nobody reaches it."""
        container = self.containers(service)[0]
        network = self.sdk.networks.get(f"{self.project}_default")
        network.disconnect(container)
        try:
            yield
        finally:
            network.connect(container, aliases=[service])

    # ---- databases --------------------------------------------------------------------------------------------------

    def connect(self, server: str) -> pymysql.Connection[Any]:
        """A connection from this machine to ``upstream-mariadb``, ``upstream-mysql`` or ``target``."""
        port = int(self.compose("port", server, "3306").strip().rpartition(":")[2])
        password = TARGET_PASSWORD if server == "target" else UPSTREAM_PASSWORD
        return pymysql.connect(
            host="127.0.0.1", port=port, user="root", password=password, charset="utf8mb4", autocommit=True
        )

    def logs(self) -> str:
        return self.compose("logs", "--tail", "25", "--no-color")[-15000:]


def _quoted(value: str) -> str:
    """A value of ``.env`` as Compose reads it back: a single quote needs double quotes, where `$` is escaped."""
    if "'" not in value:
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"'


def new_folder() -> Path:
    """A folder whose name is new: the Compose project has its end as name."""
    return Path(tempfile.mkdtemp(prefix="dm-containers-"))


def pause(seconds: float) -> None:
    """Lets the workload go on in the meantime; nothing is decided by it."""
    time.sleep(seconds)


@contextmanager
def spark_secret() -> Iterator[None]:
    """The file with the Spark cluster's secret, as docs/containers.md has it made; an operator's own is left alone."""
    made = _SPARK_DEFAULTS.with_suffix(".conf")
    if made.exists():
        yield
        return
    text = _SPARK_DEFAULTS.read_text()
    made.write_text(re.sub(r"(?m)^(spark\.authenticate\.secret).*$", rf"\1 {secrets.token_hex(32)}", text))
    try:
        yield
    finally:
        made.unlink()
