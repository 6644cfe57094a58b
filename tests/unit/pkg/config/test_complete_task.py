"""Hazard: what config task shows is not what runs, or cannot be started again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from pkg.config.complete_task import with_defaults
from pkg.config.task import load_task, task_to_yaml

CONFIGS = Path(__file__).resolve().parents[4] / "configs"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("task*.yaml")), ids=lambda path: path.name)
def test_a_task_with_its_defaults_means_the_same(path: Path) -> None:
    text = path.read_text()
    shown = task_to_yaml(with_defaults(text), redact=False)
    before, after = (dataclasses.replace(load_task(one), text="") for one in (text, shown))
    assert after == before


def test_the_defaults_of_the_task_and_of_its_units_are_shown() -> None:
    data = yaml.safe_load(with_defaults((CONFIGS / "task-all.yaml").read_text()))
    [instance] = data["mysql-instances"]
    assert (data["meta-schema"], data["online-ddl"], data["clean-dump-file"]) == ("dm_meta", True, True)
    assert data["shadow-table-rules"] == ["^_(.+)_(?:new|gho)$"]
    assert instance["mydumper"]["threads"] == 4
    assert instance["loader"]["pool-size"] == 16
    assert (instance["syncer"]["worker-count"], instance["syncer"]["batch"]) == (16, 100)


def test_what_the_file_says_stays() -> None:
    text = (
        (CONFIGS / "task-all.yaml")
        .read_text()
        .replace(
            'block-allow-list: "shop"\n',
            'block-allow-list: "shop"\n    syncer: {worker-count: 7}\n    loader-config-name: l\n',
        )
    )
    data = yaml.safe_load(with_defaults(text + "loaders:\n  l:\nmeta-schema: null\nclean-dump-file: false\n"))
    [instance] = data["mysql-instances"]
    assert (instance["syncer"]["worker-count"], instance["syncer"]["batch"]) == (7, 100)
    assert "loader" not in instance
    assert data["loaders"]["l"]["pool-size"] == 16
    assert (data["meta-schema"], data["clean-dump-file"]) == ("dm_meta", False)
