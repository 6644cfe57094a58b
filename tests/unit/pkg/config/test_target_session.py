"""Hazard: a session variable of the target undoes what the writing of rows relies on."""

from __future__ import annotations

import pytest

from pkg.config.target_session import without_ignored, writing_session
from pkg.config.task import load_task
from pkg.errors import Code, DMError

TASK = """name: t
task-mode: all
target-database:
  host: h
  port: 4000
  session:
    {}
mysql-instances:
- source-id: s
"""


@pytest.mark.parametrize(
    ("variable", "why"),
    [
        ("autocommit: 1", "one transaction"),
        ("AUTOCOMMIT: 'OFF'", "one transaction"),
        ("completion_type: CHAIN", "one transaction"),
        ("transaction_isolation: READ-UNCOMMITTED", "before it is committed"),
        ("tx_isolation: read uncommitted", "before it is committed"),
        ("character_set_client: gbk", "utf8mb4"),
        ("character_set_connection: sjis", "utf8mb4"),
        ("character_set_results: latin1", "utf8mb4"),
        ("collation_connection: sjis_japanese_ci", "utf8mb4"),
        ("unique_checks: 'off'", "duplicate key"),
        ("sql_select_limit: 1", "meta tables"),
        ("insert_id: 5", "other numbers"),
        ("tidb_batch_insert: 1", "parts of a transaction"),
        ("sql_mode: 'PAD_CHAR_TO_FULL_LENGTH'", "without a key"),
    ],
)
def test_what_the_writing_relies_on_is_refused_with_its_location(variable: str, why: str) -> None:
    with pytest.raises(DMError) as caught:
        load_task(TASK.format(variable), "t.yaml")
    assert caught.value.kind is Code.ConfigYamlTransform
    assert caught.value.message.startswith("t.yaml:7:")
    assert why in caught.value.message
    assert "Remove" in caught.value.workaround


@pytest.mark.parametrize(
    "variable",
    [
        "foreign_key_checks: 1",
        "completion_type: 0",
        "transaction_isolation: REPEATABLE-READ",
        "character_set_client: utf8mb4",
        "collation_connection: utf8mb4_bin",
        "unique_checks: 1",
        "sql_log_bin: 0",
        "innodb_lock_wait_timeout: 10",
        "sql_mode: 'ANSI_QUOTES,NO_ZERO_IN_DATE'",
        "tidb_skip_utf8_check: 1",
    ],
)
def test_the_rest_is_honoured(variable: str) -> None:
    name, value = variable.split(": ")
    assert load_task(TASK.format(variable)).target.session == ((name, value.strip("'")),)


@pytest.mark.parametrize(
    ("variable", "warned"),
    [
        ("tidb_disable_txn_auto_retry: 'off'", True),
        ("TIDB_DISABLE_TXN_AUTO_RETRY: 0", True),
        ("tidb_disable_txn_auto_retry: 'on'", False),
        ("time_zone: '+08:00'", True),
    ],
)
def test_a_harmless_setting_of_dm_is_not_set_and_warned_of(variable: str, warned: bool) -> None:
    task = load_task(TASK.format(variable))
    assert ["has no effect" in text for text in task.warnings] == [True] * warned
    assert bool(without_ignored(task.target.session)) is not warned


def test_a_zero_never_becomes_a_new_number_whatever_modes_a_task_sets() -> None:
    base = {"sql_mode": "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO", "time_zone": "+00:00"}
    assert writing_session(base, {}) == base
    assert writing_session(base, {"sql_mode": ""})["sql_mode"] == "NO_AUTO_VALUE_ON_ZERO"
    assert writing_session(base, {"sql_mode": "ANSI_QUOTES"})["sql_mode"] == "ANSI_QUOTES,NO_AUTO_VALUE_ON_ZERO"
    kept = "no_auto_value_on_zero,ANSI_QUOTES"
    assert writing_session(base, {"sql_mode": kept})["sql_mode"] == kept
