"""Hazards: a key that is silently ignored, an error without its location, a rule that applies to nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dm_master.task_setup.task_split import split_task
from pkg.config.codec import decode_subtask, encode_subtask
from pkg.config.model import Meta, SourceConfig
from pkg.config.task import load_task, task_to_yaml
from pkg.errors import Code, DMError
from pkg.rules.model import (
    BinlogFilterRule,
    BlockAllowList,
    ColumnMappingRule,
    ExpressionFilter,
    ExtractRule,
    RouteRule,
    TableName,
)
from pkg.settings import encrypt
from pkg.settings.connections import DBConfig

HEAD = """\
name: t
task-mode: all
target-database: {host: 127.0.0.1, port: 4000, user: root, password: "p@ss"}
"""
ONE = "mysql-instances: [{source-id: s1}]\n"
TASK = HEAD + ONE
MAPPING = """\
column-mappings:
  r: {schema-pattern: a, target-column: id, expression: partition id, arguments: ["1", "", "t_"]}
"""


def _refused(text: str) -> DMError:
    with pytest.raises(DMError) as caught:
        load_task(text, "t.yaml")
    assert caught.value.workaround, "an error must say what to do"
    return caught.value


def _with(instance: str, rest: str = "", mode: str = "all") -> str:
    return HEAD.replace("task-mode: all", f"task-mode: {mode}") + f"mysql-instances:\n- {instance}\n{rest}"


def test_smallest_task() -> None:
    task = load_task(TASK)
    assert (task.name, task.task_mode, task.meta_schema, task.online_ddl) == ("t", "all", "dm_meta", True)
    assert (task.target.host, task.target.port, task.target.password) == ("127.0.0.1", 4000, "p@ss")
    assert [instance.source_id for instance in task.instances] == ["s1"]
    assert task.text == TASK
    assert "p@ss" not in repr(task)


def test_filters_are_resolved_by_name_in_the_order_of_the_instance() -> None:
    task = load_task(
        _with(
            "{source-id: s1, filter-rules: [f, e], expression-filters: [y, x]}",
            "filters:\n"
            "  e: {schema-pattern: a*, table-pattern: t, sql-pattern: [^DROP], action: Error}\n"
            "  f: {schema-pattern: a, events: [delete], action: Ignore}\n"
            "expression-filter:\n"
            "  x: {schema: a, table: t, insert-value-expr: 'c > 1'}\n"
            "  y: {schema: a, table: t, update-old-value-expr: c, update-new-value-expr: not c}\n",
        )
    )
    assert task.instances[0].filters == (
        BinlogFilterRule("a", "", ("delete",), (), "Ignore"),
        BinlogFilterRule("a*", "t", (), ("^DROP",), "Error"),
    )
    assert task.instances[0].expression_filters == (
        ExpressionFilter("a", "t", update_old_value_expr="c", update_new_value_expr="not c"),
        ExpressionFilter("a", "t", insert_value_expr="c > 1"),
    )


def test_rules_are_resolved_by_name() -> None:
    task = load_task(
        _with(
            "{source-id: s1, route-rules: [b, a], block-allow-list: l, mydumper-config-name: m, loader-thread: 3,\n"
            "   syncer: {worker-count: 5}, syncer-thread: 7, mydumper-thread: 9}",
            "routes:\n"
            "  a: {schema-pattern: x*, target-schema: y}\n"
            '  b: {schema-pattern: x*, table-pattern: "t?", target-schema: y, target-table: t}\n'
            "block-allow-list: {l: {do-dbs: [a], ignore-tables: [{db-name: a, tbl-name: b}]}}\n"
            "mydumpers: {m: {threads: 2, chunk-filesize: 32}}\n",
        )
    )
    instance = task.instances[0]
    assert instance.routes == (RouteRule("x*", "y", "t?", "t"), RouteRule("x*", "y"))
    assert instance.block_allow_list == BlockAllowList(do_dbs=("a",), ignore_tables=(TableName("a", "b"),))
    assert (instance.mydumper.threads, instance.mydumper.chunk_filesize) == (9, 32 << 20)
    assert instance.loader.pool_size == 3
    assert instance.syncer.worker_count == 7


def test_column_mappings_and_extracts_of_an_old_file_reach_the_subtask() -> None:
    """As DM 1.0's examples write them."""
    text = _with(
        "{source-id: s1, column-mapping-rules: [instance-1], route-rules: [shard], black-white-list: bw}",
        "column-mappings:\n  instance-1:\n"
        '    {schema-pattern: "s_*", table-pattern: "t_*", expression: "partition id", source-column: id,\n'
        '     target-column: id, arguments: ["1", "s_", "t_"]}\n'
        "routes:\n  shard:\n    {schema-pattern: s_*, table-pattern: t_*, target-schema: s, target-table: t,\n"
        '     extract-schema: {schema-regexp: "s_(.*)", target-column: c}}\n'
        "black-white-list: {bw: {do-dbs: [s_*]}}\n",
    )
    (subtask,) = split_task(load_task(text), {"s1": SourceConfig("s1", DBConfig("127.0.0.1", 3306))})
    subtask = decode_subtask(encode_subtask(subtask, b""), b"")
    assert subtask.column_mappings == (ColumnMappingRule("s_*", "id", "partition id", "t_*", "id", ("1", "s_", "t_")),)
    assert subtask.routes == (RouteRule("s_*", "s", "t_*", "t", extract_schema=ExtractRule("s_(.*)", "c")),)
    assert subtask.block_allow_list == BlockAllowList(do_dbs=("s_*",))


@pytest.mark.parametrize(
    ("rest", "place", "hint"),
    [
        ("task-mod: all\n", "t.yaml:5:1: unknown key 'task-mod'", "task-mode"),
        ("clean-dump-file: maybe\n", "t.yaml:5:18: clean-dump-file must be true or false", ""),
        ("case-sensitive: 'true'\n", "t.yaml:5:17", "Remove the quotes."),
        ("name: again\n", "t.yaml:5:1: key 'name' is here twice, first in line 1", ""),
        ("routes: [a]\n", "t.yaml:5:9: routes must be keys and values", ""),
        ("routes: {r: {schema-patern: x}}\n", "t.yaml:5:14: unknown key 'schema-patern' in routes.r", "schema-pattern"),
        ("ignore-checking-items: all\n", "t.yaml:5:24: ignore-checking-items must be a list", "[value]"),
        ("timezone: [a\n", "t.yaml:6:1: not valid YAML", ""),
        ("? [a]\n: b\n", "t.yaml:5:3", ""),
        ("collation-compatible: loose\n", "t.yaml:5:1", "collation_compatible"),
        ("experimental: {async-checkpoint-flush: true}\n", "t.yaml:5:40: async-checkpoint-flush is not supported", ""),
    ],
)
def test_every_wrong_key_or_value_has_its_location(rest: str, place: str, hint: str) -> None:
    error = _refused(TASK + rest)
    assert error.kind is Code.ConfigYamlTransform
    assert error.message.startswith(place)
    assert hint in error.workaround


@pytest.mark.parametrize(
    ("key", "mode"),
    [
        ("", ""),
        ("is-sharding: false\n", ""),
        ("is-sharding: true\n", "pessimistic"),
        ("shard-mode: pessimistic\n", "pessimistic"),
        ("is-sharding: true\nshard-mode: pessimistic\n", "pessimistic"),
    ],
)
def test_old_and_new_key_for_merged_shards(key: str, mode: str) -> None:
    assert load_task(key + TASK).shard_mode == mode


@pytest.mark.parametrize(
    ("old", "new", "code", "place"),
    [
        ("name: t\n", "", 20019, ":1:1"),
        ("name: t\n", "name: ''\n", 20019, ":1:7"),
        ("name: t\n", "name: a/b\n", 20003, ":1:7"),
        ("name: t\n", "name: ..\n", 20003, ":1:7"),
        ("name: t\n", f"name: {'n' * 47}\n", 20003, ":1:7"),
        ("task-mode: all", "task-mode: everything", 20020, ":2:12"),
        ("task-mode: all\n", "", 20020, ":1:1"),
        ("target-database", "shard-mode: strict\ntarget-database", 20033, ":3:13"),
        ("target-database", "shard-mode: optimistic\ntarget-database", 20033, "not supported yet"),
        ("target-database", "is-sharding: true\nshard-mode: optimistic\ntarget-database", 20033, "contradicts"),
        ("target-database", "strict-optimistic-shard-mode: true\ntarget-database", 20066, ":3:31"),
        ("target-database", "timezone: Mars/Phobos\ntarget-database", 20008, ":3:11"),
        ("target-database", "timezone: SYSTEM\ntarget-database", 20008, ":3:11"),
        ("target-database", "timezone: '+14:01'\ntarget-database", 20008, ":3:11"),
        ("target-database", "ignore-checking-items: [version, versoin]\ntarget-database", 20001, ":3:24"),
        ("target-database", "collation_compatible: tight\ntarget-database", 20052, ":3:23"),
        ("target-database", "online-ddl-scheme: ost\ntarget-database", 20007, ":3:20"),
        ("target-database", "shadow-table-rules: ['^_(.+)_(new)$']\ntarget-database", 20048, "2 groups"),
        ("target-database", "trash-table-rules: ['(']\ntarget-database", 20048, "compile"),
        (
            "target-database",
            "trash-table-rules: ['_(?!x)(.+)_old']\ntarget-database",
            20048,
            "invalid perl operator: (?!",
        ),
        ("target-database", "column-mappings: {a: {target-column: x}}\ntarget-database", 20038, ":3:22"),
        ('target-database: {host: 127.0.0.1, port: 4000, user: root, password: "p@ss"}\n', "", 20021, ":1:1"),
        ("host: 127.0.0.1, ", "", 20021, ":3:18"),
        ("port: 4000, ", "", 20021, ":3:18"),
        ("port: 4000", "port: '4000'", 20003, ":3:42"),
        ("port: 4000", "port: 70000", 20003, "at most 65535"),
        ("{source-id: s1}", "", 20013, ":4:18"),
        ("{source-id: s1}", "{source-id: s1}, {source-id: s1}", 20014, ":4:48"),
        ("{source-id: s1}", "{source-id: ''}", 20005, ":4:31"),
        ("{source-id: s1}", "{source-id: " + "s" * 33 + "}", 20006, ":4:31"),
        ("{source-id: s1}", "{source-id: ../s1}", 20003, ":4:31"),
    ],
)
def test_rules_of_the_whole_task(old: str, new: str, code: int, place: str) -> None:
    assert old in TASK
    error = _refused(TASK.replace(old, new))
    assert error.code == code
    assert place in error.message


@pytest.mark.parametrize(
    ("instance", "rest", "code", "place"),
    [
        ("{source-id: s1, route-rules: [x]}", "routes: {xx: {}}\n", 20023, "t.yaml:5:32"),
        ("{source-id: s1, filter-rules: [x]}", "", 20024, ""),
        ("{source-id: s1, expression-filters: [x]}", "", 20040, ""),
        ("{source-id: s1, block-allow-list: x}", "", 20026, ""),
        ("{source-id: s1, mydumper-config-name: x}", "", 20027, ""),
        ("{source-id: s1, loader-config-name: x}", "", 20029, ""),
        ("{source-id: s1, syncer-config-name: x}", "", 20030, ""),
        ("{source-id: s1, validator-config-name: x}", "", 20056, ""),
        ("{source-id: s1, mydumper-config-name: x, mydumper: {threads: 1}}", "mydumpers: {x: {}}\n", 20015, ""),
        ("{source-id: s1, loader-config-name: x, loader: {pool-size: 1}}", "loaders: {x: {}}\n", 20016, ""),
        ("{source-id: s1, syncer-config-name: x, syncer: {batch: 1}}", "syncers: {x: {}}\n", 20017, ""),
        ("{source-id: s1}", "syncers: {g: {safe-mode: true}}\n", 20038, "t.yaml:6:14: syncers: no entry"),
        ("{source-id: s1}", "routes: {r: {schema-pattern: a, target-schema: b}}\n", 20038, "'r'"),
        ("{source-id: s1}", "block-allow-list: {l: }\n", 20038, "'l'"),
        (
            "{source-id: s1, route-rules: [r, r]}",
            "routes: {r: {schema-pattern: a, target-schema: b}}\n",
            20032,
            "t.yaml:5:32",
        ),
        ("{source-id: s1, column-mapping-rules: [r]}", "", 20025, "t.yaml:5:41"),
        (
            "{source-id: s1, column-mapping-rules: [r, q]}",
            MAPPING + "  q: {schema-pattern: A, target-column: ID, expression: add prefix, arguments: [x]}\n",
            20046,
            "t.yaml:5:41: column mapping rule",
        ),
        ("{source-id: s1, route-rules: [r]}", "routes: {r: {target-schema: b}}\n", 20045, "schema-pattern"),
        ("{source-id: s1, route-rules: [r]}", "routes: {r: {schema-pattern: a}}\n", 20045, "target-schema"),
        (
            "{source-id: s1, route-rules: [r]}",
            "routes: {r: {schema-pattern: '*a', target-schema: b}}\n",
            20045,
            "t.yaml:6:30",
        ),
        ("{source-id: s1, route-rules: [r]}", "routes: {r: {schema-pattern: '~(', target-schema: b}}\n", 20045, ""),
        (
            "{source-id: s1, route-rules: [r, q]}",
            "routes: {r: {schema-pattern: a, target-schema: b}, q: {schema-pattern: A, target-schema: b}}\n",
            20045,
            "",
        ),
        (
            "{source-id: s1, route-rules: [r]}",
            "routes: {r: {schema-pattern: a, target-schema: b,\n"
            "  extract-table: {table-regexp: x, target-column: c}}}\n",
            20045,
            "t.yaml:7:33",
        ),
        ("{source-id: s1, block-allow-list: l}", "block-allow-list: {l: {do-dbs: ['~(']}}\n", 20044, ""),
        ("{source-id: s1, block-allow-list: l}", "block-allow-list: {l: {do-tables: [{db-name: a}]}}\n", 20044, ""),
        (
            "{source-id: s1, filter-rules: [f, g]}",
            "filters:\n  f: {schema-pattern: a, events: [insert], action: Ignore}\n"
            "  g: {schema-pattern: A, events: [INSERT], action: Error}\n",
            20037,
            "t.yaml:5:37: this filter contradicts number 1",
        ),
        ("{source-id: s1, filter-rules: [f]}", "filters: {f: {schema-pattern: a, action: Drop}}\n", 20037, "'Drop'"),
        ("{source-id: s1, expression-filters: [f]}", "expression-filter: {f: {schema: a}}\n", 20042, "table"),
        (
            "{source-id: s1, expression-filters: [f]}",
            "expression-filter: {f: {schema: a, table: b, insert-value-expr: c = }}\n",
            20041,
            "column 4: expected a value",
        ),
        (
            "{source-id: s1, expression-filters: [f]}",
            "expression-filter: {f: {schema: a, table: b, insert-value-expr: c, delete-value-expr: d}}\n",
            20039,
            "",
        ),
        ("{source-id: s1, validator-config-name: v}", "validators: {v: {max-pending-row-size: much}}\n", 20003, ""),
        ("{source-id: s1, validator-config-name: v}", "validators: {v: {mode: half}}\n", 20055, "not valid"),
        ("{source-id: s1, mydumper: {chunk-filesize: big}}", "", 20047, "t.yaml:5:46"),
        ("{source-id: s1, mydumper: {threads: -1}}", "", 20003, "at least 0"),
        ('{source-id: s1, mydumper: {extra-args: "--where \'a"}}', "", 32001, "extra-args"),
        ("{source-id: s1, loader: {import-mode: physical}}", "", 20053, "not supported yet"),
        ("{source-id: s1, loader: {import-mode: import-into}}", "", 20053, "not supported yet"),
        ("{source-id: s1, loader: {import-mode: fast}}", "", 20053, "not valid"),
        ("{source-id: s1, loader: {on-duplicate-logical: keep}}", "", 20054, ""),
        ("{source-id: s1, loader: {on-duplicate-physical: keep}}", "", 20062, ""),
        ("{source-id: s1, loader: {checksum-physical: maybe}}", "", 20063, ""),
        ("{source-id: s1, loader: {analyze: maybe}}", "", 20065, ""),
        ("{source-id: s1, loader: {dir: 's3://bucket/x'}}", "", 20059, "not supported yet"),
        ("{source-id: s1, syncer: {safe-mode-duration: 60}}", "", 20060, ""),
        ("{source-id: s1, syncer: {safe-mode-duration: -1s}}", "", 20060, ""),
        ("{source-id: s1, syncer: {safe-mode: true, safe-mode-duration: 0s}}", "", 20061, ""),
    ],
)
def test_rules_of_instances_and_units(instance: str, rest: str, code: int, place: str) -> None:
    error = _refused(_with(instance, rest))
    assert error.code == code
    assert place in error.message
    assert error.message.startswith("t.yaml:")


def test_compaction_is_refused_beside_foreign_key_checks() -> None:
    text = _with("{source-id: s1, syncer: {compact: true}}").replace("port: 4000", "port: 4000, session: {x: y}")
    load_task(text)
    assert _refused(text.replace("x: y", "foreign_key_checks: 1")).kind is Code.ConfigUnsupportedForeignKeyChecksOption
    load_task(TASK.replace("port: 4000", "port: 4000, session: {foreign_key_checks: 1}"))


def test_start_place_only_where_it_counts() -> None:
    meta = "{source-id: s1, meta: {binlog-name: b.000001, binlog-pos: 4}}"
    assert load_task(_with(meta, mode="incremental")).instances[0].meta == Meta("b.000001", 4)
    full = load_task(_with(meta, mode="full"))
    assert full.instances[0].meta is None
    assert "has no effect" in full.warnings[0]
    nowhere = _refused(_with("{source-id: s1, meta: {binlog-pos: 4}}", mode="incremental"))
    assert nowhere.kind is Code.ConfigMetaInvalid
    assert "must specify `binlog-name` without GTID" in nowhere.message, "scripts look for it"
    assert load_task(_with("{source-id: s1}", mode="incremental")).instances[0].meta is None


def test_explicit_wishes_differ_from_none() -> None:
    assert load_task(TASK).instances[0].syncer.compact is None
    assert load_task(TASK).instances[0].loader.on_duplicate_logical == ""
    instance = load_task(
        _with("{source-id: s1, syncer: {compact: false, multiple-rows: no}, loader: {on-duplicate: ignore}}")
    ).instances[0]
    assert instance.syncer.compact is False
    assert instance.syncer.multiple_rows is False
    assert instance.loader.on_duplicate_logical == "ignore"


def test_keys_without_effect_are_reported() -> None:
    task = load_task(
        TASK + "enable-heartbeat: true\nheartbeat-report-interval: 5\nremove-meta: true\nansi-quotes: no\n"
    )
    assert len(task.warnings) == 4
    assert any("--remove-meta" in warning for warning in task.warnings)


def test_black_white_list_counts_only_alone() -> None:
    old = "black-white-list: {l: {do-dbs: [old]}}\n"
    task = load_task(_with("{source-id: s1, black-white-list: l}", old))
    assert task.instances[0].block_allow_list.do_dbs == ("old",)
    both = load_task(_with("{source-id: s1, block-allow-list: l}", old + "block-allow-list: {l: {do-dbs: [new]}}\n"))
    assert both.instances[0].block_allow_list.do_dbs == ("new",)
    assert task.warnings
    assert both.warnings


def test_scalars_keep_their_text() -> None:
    text = TASK.replace('"p@ss"', "0123").replace("port: 4000", "port: 4000, session: {time_zone: +08:00, a: 1, b: on}")
    task = load_task(text + "timezone: +08:00\n")
    assert task.target.password == "0123"
    assert task.target.session == (("time_zone", "+08:00"), ("a", "1"), ("b", "on"))
    assert task.timezone == "+08:00"


@pytest.mark.parametrize("mode", ["ANSI,NO_BACKSLASH_ESCAPES", "empty_string_is_null"])
def test_session_that_would_change_data_is_refused(mode: str) -> None:
    error = _refused(TASK.replace("port: 4000", f"port: 4000, session: {{SQL_MODE: '{mode}'}}"))
    assert error.message.startswith("t.yaml:3:57: sql_mode")


def test_anchors_and_merges_work() -> None:
    task = load_task(
        HEAD
        + "mysql-instances:\n- &i {source-id: s1, syncer: &s {batch: 7}}\n- {<<: *i, source-id: s2}\n"
    )  # fmt: skip
    assert [(i.source_id, i.syncer.batch) for i in task.instances] == [("s1", 7), ("s2", 7)]


def test_encrypted_password_is_opened() -> None:
    key = bytes(32)
    encrypt.set_secret_key(key)
    try:
        assert load_task(TASK.replace("p@ss", encrypt.encrypt("open"))).target.password == "open"
    finally:
        encrypt.set_secret_key(b"")


def test_tls_material_in_every_form() -> None:
    numbers = list(b"-----BEGIN X")
    block = f"security: {{ssl-ca-bytes: {numbers}, ssl-cert-base64: eHl6, ssl-key: /k}}"
    security = load_task(TASK.replace("port: 4000", f"port: 4000, {block}")).target.security
    assert security is not None
    assert (security.ssl_ca_bytes, security.ssl_cert_bytes, security.ssl_key) == (b"-----BEGIN X", b"xyz", "/k")


def test_syntax_errors_do_not_quote_the_line() -> None:
    error = _refused('target-database: {password: "hunter2" x}\n')
    assert error.kind is Code.ConfigYamlTransform
    assert "hunter2" not in str(error)


def test_shown_task_hides_secrets_and_loads_again() -> None:
    text = TASK + "# a comment\nsyncers: {}\nmeta-schema: m\n"
    shown = task_to_yaml(load_task(text))
    assert "p@ss" not in shown
    assert yaml.safe_load(shown)["target-database"]["password"] == "******"
    assert list(yaml.safe_load(shown)) == [
        "name", "task-mode", "meta-schema", "target-database", "mysql-instances", "syncers",
    ]  # fmt: skip
    assert task_to_yaml(shown) == shown
    assert "p@ss" in task_to_yaml(text, redact=False)
    whole = load_task(task_to_yaml(text, redact=False))
    assert (whole.target, whole.instances, whole.meta_schema) == (
        load_task(text).target,
        load_task(text).instances,
        "m",
    )


@pytest.mark.parametrize("text", ["", "- a\n", "just text\n", "a: b\n---\nc: d\n", "\x00", "a: &a *a\n", "[" * 5000])
def test_what_is_no_task_file_is_refused(text: str) -> None:
    assert _refused(text).kind in (Code.ConfigYamlTransform, Code.ConfigNeedUniqueTaskName)


@given(st.text(max_size=60))
def test_no_text_crashes_the_reader(text: str) -> None:
    with pytest.raises(DMError):
        load_task(text)


@pytest.mark.parametrize(("mode", "value", "warned"), [("load", "true", 1), ("load", "false", 0), ("full", "true", 0)])
def test_clean_dump_file_is_warned_of_where_it_removes_nothing(mode: str, value: str, warned: int) -> None:
    sample = (Path(__file__).resolve().parents[4] / "configs" / "task-full.yaml").read_text()
    text = sample.replace("task-mode: full", f"task-mode: {mode}").replace("dump-file: true", f"dump-file: {value}")
    assert len([one for one in load_task(text).warnings if one.startswith("clean-dump-file")]) == warned


def test_timezone_is_warned_of_without_an_expression_filter() -> None:
    text = (Path(__file__).resolve().parents[4] / "configs" / "task-all.yaml").read_text()
    [warning] = load_task(text + 'timezone: "+08:00"\n').warnings
    assert warning.startswith("timezone has no effect: rows are transferred in UTC")


def test_a_contradiction_of_is_sharding_is_reported_with_dms_strings() -> None:
    sample = (Path(__file__).resolve().parents[4] / "configs" / "task-full.yaml").read_text()
    with pytest.raises(DMError, match=r"please use `shard-mode` only\."):
        load_task(sample.replace('shard-mode: ""', "is-sharding: true\nshard-mode: optimistic"))
