"""Hazard: a changed configuration makes the state of a running replication invalid."""

from __future__ import annotations

from dataclasses import replace

from pkg.config.keys import fixed_changes
from pkg.config.model import SubTaskConfig, SyncerConfig
from pkg.settings.connections import DBConfig

SERVER = DBConfig(host="127.0.0.1", port=1)


TASK = SubTaskConfig(name="t1", source_id="s1", task_mode="all", from_=SERVER, to=SERVER)


def test_only_what_keeps_the_replication_state_valid_may_change() -> None:
    assert fixed_changes(TASK, replace(TASK, syncer=SyncerConfig(worker_count=3), to=replace(SERVER, port=2))) == []
    assert fixed_changes(TASK, replace(TASK, meta_schema="other", task_mode="full")) == ["task-mode", "meta-schema"]
