"""Hazard: scripts that read a subtask over HTTP do not find DM's keys, or find a secret."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

from dm_master.task_setup.task_split import split_task
from pkg.config.model import SubTaskConfig
from pkg.config.source import load_source
from pkg.config.subtask_toml import subtask_to_toml
from pkg.config.task import load_task
from pkg.settings.connections import SecurityConfig

CONFIGS = Path(__file__).resolve().parents[4] / "configs"


def _subtask() -> SubTaskConfig:
    source = load_source((CONFIGS / "source.yaml").read_text())
    [subtask] = split_task(load_task((CONFIGS / "task-full.yaml").read_text()), {source.source_id: source})
    return replace(
        subtask,
        from_=replace(subtask.from_, password="secret", session=(("sql_mode", "ANSI"),)),
        to=replace(subtask.to, security=SecurityConfig(ssl_ca="/ca", ssl_key_bytes=b"private")),
    )


def test_a_subtask_is_toml_with_dms_keys() -> None:
    text = subtask_to_toml(_subtask(), lambda password: f"<{len(password)}>")
    assert text.startswith('is-sharding = false\nshard-mode = ""\nonline-ddl = true\n')
    data = tomllib.loads(text)
    assert (data["name"], data["mode"], data["source-id"], data["meta-schema"]) == (
        "every-key", "full", "mysql-replica-01", "dm_meta",
    )  # fmt: skip
    assert (data["mydumper"]["threads"], data["loader"]["pool-size"], data["syncer"]["worker-count"]) == (4, 16, 16)
    assert data["from"]["session"] == {"sql_mode": "ANSI"}
    assert data["to"]["security"] == {"ssl-ca": "/ca", "ssl-cert": "", "ssl-key": "", "cert-allowed-cn": []}
    assert [rule["target-schema"] for rule in data["route-rules"]] == ["shop", "shop"]
    assert data["route-rules"][0]["extract-table"] == {"regexp": "orders_(.*)", "target-column": "c_shard"}
    assert data["block-allow-list"]["do-tables"] == [{"db-name": "shop_*", "tbl-name": "*"}]


def test_no_secret_is_shown() -> None:
    text = subtask_to_toml(_subtask(), lambda password: f"<{len(password)}>")
    assert 'password = "<6>"' in text
    assert "secret" not in text
    assert "private" not in text


def test_sharding_is_shown_as_dm_does() -> None:
    text = subtask_to_toml(replace(_subtask(), shard_mode="pessimistic"), lambda password: "")
    assert text.startswith('is-sharding = true\nshard-mode = "pessimistic"\n')
