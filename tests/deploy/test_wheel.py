"""Hazards: a wheel without compiled code, for this machine only, with other bytes each time, or that does not run."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("dm-master", "dm-worker", "dmctl")
#: Which code decodes rows, and where the package is.
_KERNEL = "import pkg.native as n; print(n.in_use(), n.__file__)"


def build(out: Path) -> dict[str, bytes]:
    """What `make wheel` builds for this Python: the content of each file."""
    environment = {**os.environ, "OUT": str(out), "PYTHONS": sys.executable, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run([ROOT / "deploy" / "wheel.sh"], env=environment, check=True)
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build(out)
    return out


def the(dist: Path, pattern: str) -> Path:
    (found,) = dist.glob(pattern)
    return found


def installed(dist: Path, pattern: str, folder: Path) -> Path:
    """The programs' folder of a fresh environment with the wheel; what it depends on is taken from this one."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    programs = folder / "bin"
    wheel = the(dist, pattern)
    subprocess.run([programs / "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return programs


def output(*command: str | Path, kernel: str = "") -> str:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "DM_KERNEL")}
    if kernel:
        environment["DM_KERNEL"] = kernel
    return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=True).stdout


def test_the_same_sources_give_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in dist.iterdir()}
    assert len(first) == 3
    second = build(tmp_path)
    assert [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)] == []


def test_the_wheel_has_the_data_that_the_code_reads(dist: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "pkg/*.bin"], cwd=ROOT, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(the(dist, "*manylinux*.whl")) as wheel:
        assert {*listed.stdout.split()} == {name for name in wheel.namelist() if name.endswith(".bin")} != set()


def test_the_wheel_is_for_any_linux_and_runs_compiled(dist: Path, tmp_path: Path) -> None:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheel = the(dist, f"*-{tag}-{tag}-*manylinux_2_17_*.whl")
    programs = installed(dist, wheel.name, tmp_path)
    for program in PROGRAMS:
        assert output(programs / program, "--version").startswith("Release Version: v")
    kernel = output(programs / "python", "-c", _KERNEL, kernel="native")
    assert str(tmp_path) in kernel, "another copy of the code was imported"
    assert "python" not in kernel.split()[0]


def test_the_wheel_of_other_platforms_has_no_compiled_code_and_runs(dist: Path, tmp_path: Path) -> None:
    wheel = the(dist, "*-py3-none-any.whl")
    assert [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")] == []
    programs = installed(dist, wheel.name, tmp_path)
    assert output(programs / "dmctl", "--version").startswith("Release Version: v")
    assert output(programs / "python", "-c", _KERNEL).split()[0] == "python"


def test_the_sources_hold_what_a_compiler_needs(dist: Path) -> None:
    with tarfile.open(the(dist, "*.tar.gz")) as sources:
        names = {name.partition("/")[2] for name in sources.getnames()}
    needed = {str(path.relative_to(ROOT)) for path in (ROOT / "pkg" / "native").rglob("*.[ch]")}
    assert needed
    assert needed | {"setup.py", "pkg/native/sources.py", "pkg/config/samples/dm-master.toml"} <= names


def test_nothing_but_the_product_is_installed(dist: Path) -> None:
    names = zipfile.ZipFile(the(dist, "*-manylinux*.whl")).namelist()
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.startswith("dm_spark-")} == {"dm_master", "dm_worker", "dmctl", "pkg"}
