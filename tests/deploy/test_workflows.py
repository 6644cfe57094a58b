"""Hazard: workflows that GitHub refuses, that take whatever an action is today, or that call what is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deploy.local.process import HarnessError
from tests.deploy.tools import run

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_github_understands_them() -> None:
    assert len(WORKFLOWS) >= 2
    run("actionlint", "-no-color", *WORKFLOWS)


def test_a_wrong_workflow_would_be_noticed(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "run-on:"))
    with pytest.raises(HarnessError, match="run-on"):
        run("actionlint", "-no-color", wrong)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_have_a_version_and_targets_of_make_exist(path: Path) -> None:
    text = path.read_text()
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert [action for action in used if not re.search(r"@v\d+\.\d+\.\d+$", action)] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"run: make ([a-z-]+)", text)) <= targets
