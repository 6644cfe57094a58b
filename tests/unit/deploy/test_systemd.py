"""Hazards: a unit that names another program than is installed, gives up, is killed too early, or has rights."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from pkg.config.master import load_master_config
from pkg.config.worker import load_worker_config

ROOT = Path(__file__).resolve().parents[3]
UNITS = ROOT / "deploy" / "systemd"
PROGRAMS = ("dm-master", "dm-worker")


def settings(program: str) -> dict[str, list[str]]:
    """The settings of a program's unit; a name may stand there more than once."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in (UNITS / f"{program}.service").read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name].append(value)
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_unit_starts_an_installed_program_with_a_sample_file(program: str) -> None:
    (command,) = settings(program)["ExecStart"]
    path, flag, config, more = command.split()
    assert Path(path).name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert (Path(path).name, more) == (program, "$DM_OPTIONS")
    load = load_master_config if program == "dm-master" else load_worker_config
    assert load([flag, str(ROOT / "configs" / Path(config).name)]).name
    assert settings(program)["EnvironmentFile"] == [f"-/etc/dm/{program}.env"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_returns_after_any_end_but_a_wrong_configuration(program: str) -> None:
    unit = settings(program)
    assert (unit["Restart"], unit["RestartPreventExitStatus"], unit["StartLimitIntervalSec"]) == (
        ["always"],
        ["2"],
        ["0"],
    )
    # The programs take up to 30 seconds and end their children themselves; only then may they be killed.
    assert int(unit["TimeoutStopSec"][0].removesuffix("s")) > 30
    assert unit["KillMode"] == ["mixed"]
    assert int(unit["LimitNOFILE"][0]) >= 65536


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_runs_without_rights_and_writes_to_its_own_folders_only(program: str) -> None:
    unit = settings(program)
    assert (unit["User"], unit["Group"]) == (["dm"], ["dm"])
    assert unit["CapabilityBoundingSet"] == [""]
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["NoNewPrivileges"] == ["yes"]
    assert unit["WorkingDirectory"] == [f"/var/lib/{unit['StateDirectory'][0]}"]
    # Java compiles at run time.
    assert ("MemoryDenyWriteExecute" in unit) == (program == "dm-master")
