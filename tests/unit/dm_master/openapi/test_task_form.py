"""Hazard: a task that is converted between its JSON and its file means another one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_master.openapi.models import ApiTask
from dm_master.openapi.refusal import Refusal
from dm_master.openapi.task_form import task_file, task_of
from pkg.config.model import TaskConfig
from pkg.config.task import load_task
from pkg.settings.yaml_reader import dump_yaml
from tests.sweeps import LONG, examples

_NAME = st.text("abcxyz_09é", min_size=1, max_size=8)
#: Texts that YAML would read as something else.
_TRICKY = st.sampled_from(
    ["0123", "+08:00", "yes", "null", "~", "1e3", "a: b", "'", '"', "#x", "{", "-", " ", "2020-01-01"]
)
_SCHEMA = st.one_of(_NAME, st.sampled_from(["shop_*", "0123", "yes"]))
_EVENTS = st.sets(st.sampled_from(["delete", "insert", "truncate table"]), min_size=1).map(sorted)


def _meaning(config: TaskConfig) -> TaskConfig:
    return replace(config, text="", warnings=())


@st.composite
def _api_tasks(draw: st.DrawFn) -> ApiTask:
    sources = draw(st.lists(_NAME, min_size=1, max_size=3, unique=True))
    filters = {
        name: {"ignore_event": events} for name, events in draw(st.dictionaries(_NAME, _EVENTS, max_size=2)).items()
    }
    rules: list[Any] = []
    for source in sources:
        tables = draw(st.lists(st.tuples(_NAME, st.one_of(_NAME, st.just("*"))), unique=True, max_size=3))
        for schema, table in tables:
            rule: Any = {"source": {"source_name": source, "schema": schema, "table": table}}
            if draw(st.booleans()):
                rule["target"] = {"schema": draw(_SCHEMA.filter(lambda it: "*" not in it)), "table": draw(_NAME)}
            chosen = sorted(draw(st.sets(st.sampled_from(sorted(filters))))) if filters else []
            rule |= {"binlog_filter_rule": chosen} if chosen else {}
            rules.append(rule)
    used = {name for rule in rules for name in rule.get("binlog_filter_rule", ())}
    task: Any = {
        "name": draw(_NAME),
        "task_mode": draw(st.sampled_from(["all", "full", "incremental"])),
        "enhance_online_schema_change": draw(st.booleans()),
        "on_duplicate": draw(st.sampled_from(["error", "replace", "ignore"])),
        "target_config": {
            "host": draw(_NAME), "port": draw(st.integers(1, 65535)), "user": draw(st.one_of(_NAME, _TRICKY)),
            "password": draw(st.one_of(_TRICKY.filter(lambda it: it.strip() != ""), st.just(""))),
        },
        "binlog_filter_rule": {name: one for name, one in filters.items() if name in used},
        "table_migrate_rule": rules,
        "source_config": {
            "full_migrate_conf": {"export_threads": draw(st.integers(1, 99)), "data_dir": f"./{draw(_NAME)}"},
            "incr_migrate_conf": {"repl_threads": draw(st.integers(1, 99)), "safe_mode": draw(st.booleans())},
            "source_conf": [{"source_name": source} for source in sources],
        },
    }  # fmt: skip
    return cast(ApiTask, task)


@settings(max_examples=examples(400 if LONG else 25))
@given(_api_tasks())
def test_json_to_a_file_and_back(task: ApiTask) -> None:
    text = task_file(task)
    back = task_of(text, secrets=True)
    assert _meaning(load_task(task_file(back))) == _meaning(load_task(text))
    # What the request said is still there; the rest are defaults.
    for key in ("name", "task_mode", "on_duplicate", "binlog_filter_rule", "table_migrate_rule", "target_config"):
        assert back[key] == task[key], key  # type: ignore[literal-required]
    assert task_of(task_file(back), secrets=True) == back
    json.dumps(back)


_FULL: dict[str, Any] = {
    "case-sensitive": True,
    "collation_compatible": "strict",
    "target-collations": {"utf8mb4_uca1400_ai_ci": "utf8mb4_0900_ai_ci"},
    "lossy-conversions": "allow",
    "strict-rules": True,
    "clean-dump-file": False,
    "shard-mode": "pessimistic",
    "is-sharding": True,
    "shadow-table-rules": ["^_(.+)_(?:new)$"],
    "timezone": "+08:00",
    "ignore-checking-items": ["version"],
    "meta-schema": "0123",
}
_BLOCKS: dict[str, Any] = {
    "routes": ("route-rules", {"schema-pattern": "a*", "target-schema": "0123"}),
    "filters": ("filter-rules", {"schema-pattern": "a*", "events": ["delete"], "action": "Ignore"}),
    "expression-filter": ("expression-filters", {"schema": "a", "table": "t", "insert-value-expr": "v = '0123'"}),
    "column-mappings": (
        "column-mapping-rules",
        {
            "schema-pattern": "a", "table-pattern": "t", "expression": "partition id", "source-column": "id",
            "target-column": "id", "arguments": ["1", "a", "t", "_"],
        },
    ),
}  # fmt: skip
_UNITS: dict[str, Any] = {
    "mydumper": {"threads": 7, "where": "id > 1", "rows": 100, "extra-args": "--consistency lock"},
    "loader": {"pool-size": 3, "on-duplicate-logical": "error"},
    "syncer": {"worker-count": 9, "compact": True, "safe-mode-duration": "60s"},
}


@st.composite
def _files(draw: st.DrawFn) -> str:
    data: dict[str, Any] = {"name": draw(_NAME), "task-mode": draw(st.sampled_from(["all", "incremental"]))}
    data |= {key: _FULL[key] for key in draw(st.sets(st.sampled_from(sorted(_FULL))))}
    data["target-database"] = {
        "host": "h",
        "port": 1,
        "user": draw(_TRICKY.filter(lambda it: it != " ")),
        "password": "0123",
    }
    if draw(st.booleans()):
        data["target-database"]["session"] = {
            "foreign_key_checks": draw(st.sampled_from(["0", "OFF"])),
            "tidb_txn_mode": "x",
        }
    instances = []
    for number in range(draw(st.integers(1, 2))):
        one: dict[str, Any] = {"source-id": f"s{number}"}
        for block in draw(st.sets(st.sampled_from(sorted(_BLOCKS)))):
            key, rule = _BLOCKS[block]
            data.setdefault(block, {})[f"r.{number}"] = rule
            one[key] = [f"r.{number}"]
        for unit in draw(st.sets(st.sampled_from(sorted(_UNITS)))):
            one[unit] = _UNITS[unit]
        if data["task-mode"] == "incremental" and draw(st.booleans()):
            one["meta"] = {"binlog-name": "mysql-bin.000001", "binlog-pos": 4}
        lists = draw(
            st.sampled_from(
                [None, {"do-dbs": ["a*"]}, {"do-tables": [{"db-name": "a", "tbl-name": "t"}], "ignore-dbs": ["b"]}]
            )
        )
        if lists:
            data.setdefault("block-allow-list", {})[f"l{number}"] = lists
            one["block-allow-list"] = f"l{number}"
        instances.append(one)
    return dump_yaml(data | {"mysql-instances": instances})


@settings(max_examples=examples(400 if LONG else 25))
@given(_files())
def test_a_file_to_json_and_back(text: str) -> None:
    task = json.loads(json.dumps(task_of(text, secrets=True)))
    assert _meaning(load_task(task_file(task))) == _meaning(load_task(text))


def test_the_sample_with_every_key_is_said_in_full() -> None:
    text = (Path(__file__).parents[4] / "configs" / "task-full.yaml").read_text()
    task = task_of(text)
    assert _meaning(load_task(task_file(task))) == _meaning(load_task(text))
    assert "mysql-instances" in task["further_settings"]


_PLAIN = """\
name: t
task-mode: all
target-database: {host: h, port: 1, user: root, password: "secret"}
mysql-instances: [{source-id: s1, block-allow-list: l, expression-filters: [e]}]
block-allow-list: {l: {do-tables: [{db-name: a, tbl-name: b}]}}
expression-filter: {e: {schema: a, table: b, delete-value-expr: "id > 1"}}
"""


def test_secrets_are_hidden_unless_the_file_came_with_the_request() -> None:
    assert task_of(_PLAIN)["target_config"]["password"] == "******"
    assert task_of(_PLAIN, secrets=True)["target_config"]["password"] == "secret"


def test_fields_that_contradict_the_further_settings_are_refused() -> None:
    task = task_of(_PLAIN, secrets=True)
    assert "mysql-instances" in task["further_settings"]
    task["table_migrate_rule"][0]["source"]["table"] = "other"
    with pytest.raises(Refusal, match="table_migrate_rule: further_settings has the task's rules"):
        task_file(task)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"table_migrate_rule": [{"source": {"source_name": "x", "schema": "a", "table": "b"}}]},
            "x must be in source_config",
        ),
        ({"binlog_filter_rule": {"f": {"ignore_event": ["delete"]}}}, "no rule of table_migrate_rule uses f"),
    ],
)
def test_names_that_lead_nowhere_are_refused(change: dict[str, Any], words: str) -> None:
    task = task_of(_PLAIN, secrets=True)
    del task["further_settings"]
    with pytest.raises(Refusal, match=words):
        task_file(cast(ApiTask, {**task, **change}))
