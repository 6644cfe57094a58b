"""Hazard: scripts that look for DM's strings do not find them, or miss the warnings about a program's settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.config_service import ConfigService
from pkg.config.master import load_master_config
from pkg.pb import dmmaster_pb2 as pb

_CONFIG = load_master_config(["-name", "m1", "-master-addr", "127.0.0.1:8261", "-openapi"])


def _service(**scheduler: Any) -> ConfigService:
    known = {"task_text": lambda name: None, "sources": dict, "workers": list, "subtasks": lambda name: {}}
    etcd = SimpleNamespace(get_prefix=lambda prefix: ([], 1))
    cluster = SimpleNamespace(
        etcd=etcd, config=_CONFIG, scheduler=SimpleNamespace(**(known | scheduler)), candidates=list
    )
    return ConfigService(cast(ClusterAccess, cluster))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pb.TaskType, "task not found"),
        (pb.MasterType, "master not found"),
        (pb.WorkerType, "worker not found"),
        (pb.SourceType, "source not found"),
        (pb.TaskTemplateType, "task-template not found"),
    ],
)
def test_what_does_not_exist_is_named_with_dms_strings(kind: pb.CfgType, text: str) -> None:
    answer = _service().get_cfg(pb.GetCfgRequest(type=kind, name="gone"))
    assert not answer.result
    assert answer.msg.startswith(f"{text}: gone")


def test_a_subtask_that_is_not_there() -> None:
    answer = _service().get_subtask_cfg(pb.GetSubTaskCfgRequest(name="gone"))
    assert (answer.result, answer.msg.partition(";")[0]) == (False, "task not found: gone")


def test_settings_without_effect_are_in_the_answer() -> None:
    answer = _service().get_cfg(pb.GetCfgRequest(type=pb.MasterType, name="m1"))
    assert answer.result
    assert "openapi = true" in answer.cfg
    assert list(answer.warnings) == []


def test_a_task_is_shown_with_its_defaults() -> None:
    text = (
        "name: t\ntask-mode: all\ntarget-database: {host: h, port: 1, password: '******'}\n"
        "mysql-instances: [{source-id: s}]\n"
    )
    shown = _service(task_text=lambda name: text).get_cfg(pb.GetCfgRequest(type=pb.TaskType, name="t")).cfg
    assert [part for part in ("threads: 4", "pool-size: 16", "worker-count: 16") if part not in shown] == []
