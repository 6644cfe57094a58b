"""Hazard: units that systemd does not understand, or that leave a program with more rights than it needs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
#: systemd's figure for what a service may do, in tenths: 0 nothing, 100 everything. Most services have over 90.
MOST_EXPOSURE = 20


@pytest.fixture(params=["dm-master", "dm-worker"])
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The unit with a program that is there: systemd looks for it."""
    path = tmp_path / f"{request.param}.service"
    path.write_text((UNITS / path.name).read_text().replace(f"/opt/dm/bin/{request.param}", "/bin/true"))
    return path


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert shutil.which("systemd-analyze"), "these tests need systemd's tools: apt-get install systemd"
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def test_systemd_understands_every_setting(unit: Path) -> None:
    done = analyze("verify", "--man=no", str(unit))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_wrong_setting_would_be_noticed(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("[Service]", "[Service]\nRestartSecs=5s"))
    assert "RestartSecs" in analyze("verify", "--man=no", str(unit)).stderr


def test_it_may_do_little(unit: Path) -> None:
    done = analyze("security", "--offline=yes", f"--threshold={MOST_EXPOSURE}", "--no-pager", str(unit))
    assert done.returncode == 0, done.stdout[-2000:]
