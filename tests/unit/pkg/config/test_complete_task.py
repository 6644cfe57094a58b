"""Hazard: what config task shows is not what runs, or cannot be started again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from pkg.config.complete_task import normalised
from pkg.config.model import TaskConfig
from pkg.config.task import load_task, task_to_yaml

CONFIGS = Path(__file__).resolve().parents[4] / "configs"


def _meaning(text: str) -> TaskConfig:
    """What a task does. Warnings differ: in DM's form older keys are there, too."""
    return dataclasses.replace(load_task(text), text="", warnings=())


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("task*.yaml")), ids=lambda path: path.name)
def test_a_task_in_its_normalised_form_means_the_same(path: Path) -> None:
    text = path.read_text()
    shown = task_to_yaml(normalised(text), redact=False)
    assert _meaning(shown) == _meaning(text)
    assert task_to_yaml(normalised(shown), redact=False) == shown


def test_every_key_of_dm_is_there_in_its_order() -> None:
    data = yaml.safe_load(task_to_yaml(normalised((CONFIGS / "task-all.yaml").read_text())))
    known = [key for key in data if key not in ("strict-rules", "target-collations")]
    assert known[:5] == ["name", "task-mode", "is-sharding", "shard-mode", "strict-optimistic-shard-mode"]
    assert {"enable-heartbeat", "online-ddl-scheme", "column-mappings", "black-white-list", "experimental"} <= set(
        known
    )
    assert (data["meta-schema"], data["online-ddl"], data["clean-dump-file"]) == ("dm_meta", True, True)
    [instance] = data["mysql-instances"]
    assert (instance["meta"], instance["mydumper"], instance["syncer-thread"]) == (None, None, 0)
    assert data["mydumpers"][instance["mydumper-config-name"]]["threads"] == 4
    assert data["loaders"]["load-01"]["pool-size"] == 16
    assert (data["syncers"]["sync-01"]["worker-count"], data["syncers"]["sync-01"]["batch"]) == (16, 100)


SHARDS = """name: t
task-mode: all
is-sharding: true
target-database: {host: h, port: 1, user: u, password: ''}
mysql-instances:
- {source-id: a, route-rules: [east, all], block-allow-list: mine, syncer-thread: 7}
- {source-id: b, route-rules: [all], black-white-list: mine, syncer: {worker-count: 7}, loader-config-name: l}
routes:
  east: {schema-pattern: e, target-schema: x}
  all: {schema-pattern: 'a*', target-schema: y}
block-allow-list: {mine: {do-dbs: [e, 'a*']}}
loaders: {l: {}}
meta-schema: null
clean-dump-file: false
"""


def test_rules_and_blocks_have_numbered_names_and_equal_ones_are_one() -> None:
    data = yaml.safe_load(normalised(SHARDS))
    first, second = data["mysql-instances"]
    assert (first["route-rules"], second["route-rules"]) == (["route-01", "route-02"], ["route-02"])
    assert (first["block-allow-list"], second["block-allow-list"]) == ("balist-01", "balist-01")
    assert (first["syncer-config-name"], second["syncer-config-name"]) == ("sync-01", "sync-01")
    assert (first["loader-config-name"], second["loader-config-name"]) == ("load-01", "load-01")
    assert data["syncers"]["sync-01"]["worker-count"] == 7
    assert (data["is-sharding"], data["shard-mode"]) == (True, "pessimistic")
    assert (data["meta-schema"], data["clean-dump-file"]) == ("dm_meta", False)
    assert _meaning(task_to_yaml(normalised(SHARDS), redact=False)) == _meaning(SHARDS)


DEFAULTS = """name: t
task-mode: all
target-database: {host: h, port: 1, user: u, password: ''}
mysql-instances:
- {source-id: a, mydumper-config-name: m, loader-config-name: l, syncer-config-name: s, validator-config-name: v}
mydumpers: {m: {}}
loaders: {l: {}}
syncers: {s: {}}
validators: {v: {}}
"""


def test_the_defaults_of_all_units_are_shown_as_values_that_a_file_may_have() -> None:
    shown = task_to_yaml(normalised(DEFAULTS), redact=False)
    assert _meaning(shown) == _meaning(DEFAULTS)
    [validator] = yaml.safe_load(shown)["validators"].values()
    assert (validator["validate-interval"], validator["meta-flush-interval"]) == ("10s", "5m0s")
