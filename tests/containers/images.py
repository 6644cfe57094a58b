"""The images of the tests: the project's own, built here, and servers from a registry or from Debian's packages."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local.cluster import ROOT
from deploy.local.process import HarnessError
from deploy.local.server_files import server_files
from tests.containers.engine import docker

_STAND_INS = Path(__file__).parent / "stand_ins"
_BASE = "dm-stand-in/python:3.11"
VERSION_BEFORE = ROOT / "tests" / "e2e" / "data" / "version-before.tar.xz"
#: Tags of the project's image: the checkout's, and one that runs the code of the version before.
PRESENT, BEFORE = "test", "test-before"


@dataclass(frozen=True)
class Images:
    """What goes into the environment of Compose files, and where the images are from."""

    variables: Mapping[str, str]
    origin: str


def provided() -> Images:
    """Every image, ready. Builds take minutes the first time; the engine keeps the layers."""
    defaults = dict(re.findall(r"\$\{(PYTHON_IMAGE|MARIADB_IMAGE|MYSQL_IMAGE):-([^}]+)\}", _compose_file()))
    wanted = {name: defaults[name] for name in sorted(defaults)}
    if all(_has(image) or _pulled(image) for image in wanted.values()):
        images = Images(wanted, "images of the registry")
    else:
        images = Images(_stand_ins(), "base images made of Debian's packages: no image registry answers")
    _build_project(images.variables["PYTHON_IMAGE"])
    return images


def _compose_file() -> str:
    return (ROOT / "docker-compose.yml").read_text()


def _has(image: str) -> bool:
    return bool(docker("image", "ls", "--quiet", image).strip())


def _pulled(image: str) -> bool:
    try:
        docker("pull", "--quiet", image)
    except (HarnessError, subprocess.TimeoutExpired):
        return False
    return True


def _stand_ins() -> dict[str, str]:
    made: dict[str, tuple[str, Callable[[str], None]]] = {
        "PYTHON_IMAGE": (_BASE, _import_base),
        "MARIADB_IMAGE": ("dm-stand-in/mariadb:10.11", _build_mariadb),
        "MYSQL_IMAGE": ("dm-stand-in/mysql:8.0", _build_mysql),
    }
    for image, make in made.values():
        if not _has(image):
            make(image)
    return {name: image for name, (image, _) in made.items()}


def _import_base(image: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "base.tar")
        done = subprocess.run([str(_STAND_INS / "base.sh"), str(archive)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise HarnessError(f"the base image cannot be made of Debian's packages:\n{done.stderr[-3000:]}")
        docker("import", str(archive), image)


def _build_mariadb(image: str) -> None:
    docker("build", "--build-arg", f"BASE={_BASE}", "--tag", image, str(_STAND_INS / "mariadb"))


def _build_mysql(image: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder, "mysql")
        shutil.copytree(_STAND_INS / "mysql", context)
        shutil.copytree(server_files("mysql-8.0"), context / "server", symlinks=True)
        docker("build", "--build-arg", f"BASE={_BASE}", "--tag", image, str(context))


def _build_project(python: str) -> None:
    docker("build", "--build-arg", f"PYTHON_IMAGE={python}", "--tag", f"dm:{PRESENT}", str(ROOT), seconds=1800)


def build_version_before() -> None:
    """The version before, in the present image: its code comes first on Python's path. It has no compiled parts."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(VERSION_BEFORE) as archive:
            archive.extractall(Path(folder, "code"), filter="data")
        Path(folder, "Dockerfile").write_text(
            f"FROM dm:{PRESENT}\nCOPY code /opt/before\nENV PYTHONPATH=/opt/before DM_KERNEL=python\n"
        )
        docker("build", "--tag", f"dm:{BEFORE}", folder)
