"""A whole migration by the client that openapi-python-client makes of the served contract."""

from __future__ import annotations

import sys
import time
from typing import Any

from dm_open_api_client import Client, models
from dm_open_api_client.api.source import dmapi_create_source
from dm_open_api_client.api.task import dmapi_create_task, dmapi_get_task_status, dmapi_start_task, dmapi_stop_task


def migrate(api: Client, upstream: int, target: int) -> None:
    source = models.Source(
        source_name="s1", host="127.0.0.1", port=upstream, user="root", password="", enable=True, enable_gtid=False
    )
    _done(dmapi_create_source.sync(client=api, body=models.CreateSourceRequest(source=source)))
    rule = models.TaskTableMigrateRuleSource(source_name="s1", schema="shop", table="*")
    task = models.Task(
        name="t1",
        task_mode=models.TaskTaskMode.ALL,
        enhance_online_schema_change=True,
        on_duplicate=models.TaskOnDuplicate.ERROR,
        target_config=models.TaskTargetDataBase(host="127.0.0.1", port=target, user="root", password=""),
        table_migrate_rule=[models.TaskTableMigrateRule(source=rule)],
        source_config=models.TaskSourceConfig(source_conf=[models.TaskSourceConf(source_name="s1")]),
    )
    _done(dmapi_create_task.sync(client=api, body=models.CreateTaskRequest(task=task)))
    _done(dmapi_start_task.sync("t1", client=api, body=models.StartTaskRequest()))
    while (now := _status(api)).stage != models.TaskStage.RUNNING or now.unit != "Sync":
        if now.stage == models.TaskStage.PAUSED:
            raise RuntimeError(str(now))
        time.sleep(0.3)
    print("replicating", flush=True)
    sys.stdin.readline()
    _done(dmapi_stop_task.sync("t1", client=api, body=models.StopTaskRequest()))
    print(_status(api).stage, flush=True)


def _done(answer: Any) -> Any:
    if isinstance(answer, models.ErrorWithMessage):
        raise RuntimeError(f"{answer.error_code}: {answer.error_msg}")
    return answer


def _status(api: Client) -> Any:
    (status,) = _done(dmapi_get_task_status.sync("t1", client=api)).data
    return status


if __name__ == "__main__":
    migrate(Client(base_url=sys.argv[1], timeout=120), int(sys.argv[2]), int(sys.argv[3]))
