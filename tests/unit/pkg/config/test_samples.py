"""Hazard: a sample that people copy does not load, or a key that we read is explained nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from pkg.config.keys import TASK
from pkg.config.model import LoaderConfig, MydumperConfig, SyncerConfig
from pkg.config.servers_diff import load_servers_diff
from pkg.config.source import load_source
from pkg.config.task import load_task

CONFIGS = Path(__file__).resolve().parents[4] / "configs"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("task*.yaml")), ids=lambda path: path.name)
def test_task_sample_loads_without_a_warning(path: Path) -> None:
    assert load_task(path.read_text(), path.name).warnings == ()


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("source*.yaml")), ids=lambda path: path.name)
def test_source_sample_loads_without_a_warning(path: Path) -> None:
    warnings: list[str] = []
    load_source(path.read_text(), path.name, warnings)
    assert warnings == []


def test_comparison_sample_loads_without_a_warning() -> None:
    config = load_servers_diff((CONFIGS / "diff.yaml").read_text(), "diff.yaml")
    assert config.warnings == ()
    assert [one.source_id for one in config.upstreams] == ["shop-01", "shop-02"]


def test_every_sample_is_there() -> None:
    names = {path.name for path in CONFIGS.iterdir()}
    assert names >= {"task-full.yaml", "task-all.yaml", "task-incremental.yaml", "task-sharded.yaml", "source.yaml",
                     "source-mariadb.yaml", "dm-master.toml", "dm-worker.toml", "diff.yaml"}  # fmt: skip


def test_full_sample_shows_the_defaults() -> None:
    instance = load_task((CONFIGS / "task-full.yaml").read_text()).instances[0]
    assert instance.mydumper == MydumperConfig()
    assert instance.loader == LoaderConfig(on_duplicate_logical="error")
    assert instance.syncer == SyncerConfig(compact=True, multiple_rows=True)


def test_full_sample_explains_every_key_that_works() -> None:
    text = (CONFIGS / "task-full.yaml").read_text()
    later = {"is-sharding", "enable-heartbeat", "heartbeat-update-interval", "heartbeat-report-interval",
             "online-ddl-scheme", "black-white-list", "validators",
             "ansi-quotes", "remove-meta", "experimental"}  # fmt: skip
    assert [key for key in TASK if key not in later and f"\n{key}:" not in text] == []
