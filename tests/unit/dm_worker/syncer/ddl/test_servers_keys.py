"""Hazard: a server can't open one of many tables, and the error does not say which."""

from __future__ import annotations

import pymysql
import pytest

from dm_worker.syncer.ddl import servers_keys
from dm_worker.syncer.ddl.servers_keys import ServersKeys
from dm_worker.syncer.rows import server_lookup
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.mysql import foreign_key_introspect
from pkg.settings.connections import DBConfig


class NoConnection:
    def close(self) -> None:
        pass


def test_the_table_whose_keys_a_server_cannot_show_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def show(_: object, __: str, table: str) -> str:
        if table == "torn":
            raise pymysql.OperationalError(1030, "Got error 174 from storage engine InnoDB")
        return "CREATE TABLE `t` (`id` int(11) DEFAULT NULL)"

    monkeypatch.setattr(server_lookup, "connect", lambda *_, **__: NoConnection())
    monkeypatch.setattr(foreign_key_introspect, "show_create_if_there", show)
    monkeypatch.setattr(servers_keys, "logs_actions", lambda _: False)
    monkeypatch.setattr(servers_keys, "folds_names", lambda _: False)
    monkeypatch.setattr(servers_keys, "list_all_tables", lambda _: {"s": ["first", "torn"]})
    server = DBConfig("127.0.0.1", 1, "root")
    cfg = SubTaskConfig("t", "s", "all", server, server)
    keys = ServersKeys(cfg, TaskRules(cfg), lambda: False)
    with pytest.raises(DMError) as caught:
        keys.problems()
    assert "the upstream refused a statement on `s`.`torn`" in str(caught.value)
    assert "CHECK TABLE" in str(caught.value)
