"""Hazards: a subtask that misses a setting of its source or task, a task that starts for a source nobody created."""

from __future__ import annotations

import dataclasses

import pytest

from dm_master.task_setup.task_split import TARGET_DEFAULTS, needs_start_position, split_task, target_session
from pkg.config.model import InstanceConfig, SourceConfig, SubTaskConfig, TaskConfig
from pkg.config.task import load_task
from pkg.errors import Code, DMError
from pkg.rules.model import BinlogFilterRule
from pkg.settings.connections import DBConfig

TASK = load_task("""\
name: t
task-mode: all
meta-schema: m
timezone: "+08:00"
ignore-checking-items: [version]
clean-dump-file: false
collation_compatible: strict
online-ddl: false
shadow-table-rules: ["^s_(.+)$"]
trash-table-rules: ["^t_(.+)$"]
target-database: {host: th, port: 4000}
mysql-instances:
- {source-id: a, route-rules: [r], block-allow-list: b, mydumper: {threads: 1}, loader: {pool-size: 2},
   syncer: {batch: 3}}
- {source-id: b}
routes: {r: {schema-pattern: x, target-schema: y}}
block-allow-list: {b: {do-dbs: [x]}}
""")
SOURCES = {
    "a": SourceConfig("a", DBConfig("ha", 1), flavor="mariadb", server_id=9, enable_gtid=True, case_sensitive=True,
                      relay_dir="/r"),
    "b": SourceConfig("b", DBConfig("hb", 2)),
}  # fmt: skip


def test_a_subtask_has_its_source_and_its_rules() -> None:
    a, b = split_task(TASK, SOURCES)
    assert (a.source_id, a.from_.host, a.flavor, a.server_id, a.enable_gtid) == ("a", "ha", "mariadb", 9, True)
    assert (a.case_sensitive, b.case_sensitive, a.relay_dir) == (True, False, "/r")
    assert (b.from_.host, b.flavor, b.routes) == ("hb", "mysql", ())
    assert a.to.host == b.to.host == "th"


def test_no_setting_of_task_or_instance_is_forgotten() -> None:
    """Compares field by field, so that a field added to the model cannot be left out here."""
    a = split_task(TASK, SOURCES)[0]
    renamed = {"target": "to"}
    for config in (TASK, TASK.instances[0]):
        for field in dataclasses.fields(config):
            name = renamed.get(field.name, field.name)
            if name in {f.name for f in dataclasses.fields(SubTaskConfig)} and name != "case_sensitive":
                assert getattr(a, name) == getattr(config, field.name), name
    known = {f.name for cls in (TaskConfig, InstanceConfig, SourceConfig) for f in dataclasses.fields(cls)}
    # The end comes from flags of start-task.
    assert {f.name for f in dataclasses.fields(SubTaskConfig)} - known == {"to", "until"}


def test_filters_of_the_task_come_before_those_of_the_source() -> None:
    own, of_source = (BinlogFilterRule(name, events=("insert",), action="Ignore") for name in ("x", "y"))
    task = dataclasses.replace(TASK, instances=(dataclasses.replace(TASK.instances[0], filters=(own,)),))
    sources = {"a": dataclasses.replace(SOURCES["a"], filters=(of_source,))}
    assert split_task(task, sources)[0].filters == (own, of_source)


def test_only_the_chosen_sources() -> None:
    assert [s.source_id for s in split_task(TASK, SOURCES, ["b"])] == ["b"]
    assert [s.source_id for s in split_task(TASK, {"b": SOURCES["b"]}, ["b"])] == ["b"]


@pytest.mark.parametrize(
    ("sources", "only", "text"),
    [
        ({"aa": SOURCES["a"], "b": SOURCES["b"]}, [], "'a' is not created"),
        (SOURCES, ["c"], "source 'c' not found in task's config"),
        ({}, [], "not created"),
    ],
)
def test_unknown_source_is_refused_with_a_hint(sources: dict[str, SourceConfig], only: list[str], text: str) -> None:
    with pytest.raises(DMError) as caught:
        split_task(TASK, sources, only)
    assert caught.value.kind is Code.ConfigSourceIDNotFound
    assert text in caught.value.message
    assert "operate-source create" in caught.value.workaround


def test_only_incremental_without_meta_asks_for_a_start() -> None:
    a = split_task(TASK, SOURCES)[0]
    assert not needs_start_position(a)
    assert needs_start_position(dataclasses.replace(a, task_mode="incremental"))


def test_writers_stay_strict_whatever_the_upstream_is() -> None:
    """A value that does not fit is an error: cut data would be silent."""
    session = dict(target_session((), "NO_ZERO_DATE,NO_UNSIGNED_SUBTRACTION", TASK))
    assert session == {
        "sql_mode": "NO_UNSIGNED_SUBTRACTION,IGNORE_SPACE,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,"
        "STRICT_TRANS_TABLES,STRICT_ALL_TABLES"
    }


@pytest.mark.parametrize("mode", ["NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "EMPTY_STRING_IS_NULL", "NO_ZERO_IN_DATE"])
def test_upstream_modes_that_change_data_stay_upstream(mode: str) -> None:
    assert mode not in dict(target_session((), mode, TASK))["sql_mode"]


def test_defaults_are_set_where_the_target_has_them_unless_configured_otherwise() -> None:
    """A variable that some version lacks would refuse every connection."""
    assert dict(target_session(TARGET_DEFAULTS, "", TASK)).items() >= TARGET_DEFAULTS.items()
    assert "tidb_txn_mode" not in dict(target_session({"allow_auto_random_explicit_insert"}, "", TASK))
    given = dataclasses.replace(TASK, target=DBConfig("h", 1, session=(("tidb_txn_mode", "pessimistic"),)))
    assert dict(target_session(TARGET_DEFAULTS, "", given))["tidb_txn_mode"] == "pessimistic"


def test_given_session_wins_but_cannot_shift_time_or_renumber_rows() -> None:
    given = DBConfig("h", 1, session=(("sql_mode", "ANSI"), ("time_zone", "+08:00"), ("foreign_key_checks", "1")))
    session = dict(target_session((), "NO_ZERO_DATE", dataclasses.replace(TASK, target=given)))
    assert session == {"sql_mode": "ANSI,NO_AUTO_VALUE_ON_ZERO", "foreign_key_checks": "1"}
