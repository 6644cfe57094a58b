"""Hazards: rules that lose, double or misplace rows, found before anything runs, on real servers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import free_port
from dm_master.precheck import PrecheckResult, run_prechecks
from dm_master.precheck.result import PASSED, CheckFinding
from dm_master.rules.dry_run import show_rules
from pkg.config.model import SourceConfig, TaskConfig
from pkg.config.task import load_task
from pkg.errors import Code, DMError

USAGE, RULES, KEYS, BITS = "rule usage check", "rule check", "auto-increment key check", "partition id check"
STRUCTURE = "table structure compatibility check"
SHARD = "(id BIGINT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20), w INT)"
MERGE = "routes:\n  merge: {schema-pattern: 'a_*', table-pattern: 't_*', target-schema: a, target-table: t}\n"


def _task(target: SQLServer, instances: dict[str, str], rules: str, mode: str = "all") -> TaskConfig:
    """Line 5 is the first of ``rules``, plus one for each instance."""
    entries = "".join(f"- {{source-id: {source}, {rest}}}\n" for source, rest in instances.items())
    head = f"name: t\ntask-mode: {mode}\ntarget-database: {{host: 127.0.0.1, port: {target.port}, password: ''}}\n"
    return replace(load_task(f"{head}mysql-instances:\n{entries}{rules}"), target=target.db_config)


def _sources(**servers: SQLServer) -> dict[str, SourceConfig]:
    return {
        name: SourceConfig(name, server.db_config, flavor=server.flavor, server_id=4_000_000)
        for name, server in servers.items()
    }


def _findings(result: PrecheckResult, name: str) -> list[CheckFinding]:
    return [finding for check in result.results if check.name == name for finding in check.findings]


def _failed(result: PrecheckResult) -> set[str]:
    for check in result.results:
        assert all(finding.instruction for finding in check.findings), "each must say what to do"
    return {check.name for check in result.results if check.state == "fail"}


@pytest.fixture
def shards(mariadb_upstream: MariaDBServer) -> MariaDBServer:
    mariadb_upstream.execute(
        "CREATE DATABASE a_1", "CREATE DATABASE a_2", "CREATE DATABASE other",
        *(f"CREATE TABLE a_{i}.t_{j} {SHARD}" for i in (1, 2) for j in (1, 2)),
        "CREATE TABLE other.x (id INT PRIMARY KEY)",
    )  # fmt: skip
    return mariadb_upstream


@pytest.fixture
def merged(target: MariaDBServer) -> MariaDBServer:
    """A target that has the table into which the shards go."""
    target.execute("CREATE DATABASE a", f"CREATE TABLE a.t {SHARD}")
    return target


INSTANCE = "route-rules: [used, typo], block-allow-list: l"


def test_rules_that_do_nothing_are_reported_with_their_location_and_refused_when_asked_for(
    shards: MariaDBServer, target: MariaDBServer
) -> None:
    rules = (
        "routes:\n  used: {schema-pattern: other, target-schema: a}\n"
        "  typo: {schema-pattern: ather, target-schema: a}\n"
        "block-allow-list:\n  l:\n    do-dbs: [other, nowhere]\n    ignore-tables: [{db-name: other, tbl-name: gone}]\n"
    )
    sources = _sources(s1=shards)
    task = _task(target, {"s1": INSTANCE}, rules)
    result = run_prechecks(task, sources)
    assert result.passed
    assert not _failed(result)
    assert {finding.severity for finding in _findings(result, USAGE)} == {"warn"}
    assert "no errors but some warnings" in result.text
    for place in ("task.yaml:8:26: 'typo' of routes", "task.yaml:11:21: 'l: do-dbs[1]'", "task.yaml:12:31: 'l: ignore"):
        assert place in result.text
    strict = "strict-rules: true\n"
    result = run_prechecks(_task(target, {"s1": INSTANCE}, rules + strict), sources)
    assert not result.passed
    assert _failed(result) == {USAGE}
    assert [(finding.severity, finding.message) for finding in _findings(result, USAGE)] == [
        ("fail", "task.yaml:8:26: 'typo' of routes has no effect: it matches no table"),
        ("fail", "task.yaml:11:21: 'l: do-dbs[1]' of block-allow-list has no effect: it matches no table"),
        ("warn", "task.yaml:12:31: 'l: ignore-tables[0]' of block-allow-list has no effect: it matches no table"),
    ]
    assert result.rules is not None
    assert (result.rules.tables, result.rules.targets, result.rules.left_out) == (1, 1, 4)
    assert len(result.rules.unused) == 3
    ignored = replace(task, ignore_checking_items=("rules",))
    assert run_prechecks(ignored, sources).text == PASSED
    # What the tables of a stream will be is not known yet.
    later = _task(target, {"s1": INSTANCE}, rules + strict, mode="incremental")
    assert {finding.severity for finding in _findings(run_prechecks(later, sources), USAGE)} == {"warn"}


def test_a_rule_for_one_of_two_sources_is_used_by_that_one(
    shards: MariaDBServer, mysql_upstream: MySQLServer, target: MariaDBServer
) -> None:
    rules = "routes:\n  r: {schema-pattern: other, target-schema: a}\n"
    task = _task(target, {"s1": "route-rules: [r]", "s2": "route-rules: [r]"}, rules)
    sources = _sources(s1=shards, s2=mysql_upstream)
    assert not _findings(run_prechecks(task, sources), USAGE)
    assert not _findings(run_prechecks(task, sources, only=["s2"]), USAGE), "s1 is not looked at, and may use it"


def test_routes_that_claim_one_table_are_both_named(shards: MariaDBServer, target: MariaDBServer) -> None:
    rules = (
        "routes:\n  one: {schema-pattern: 'a_*', target-schema: x}\n  two: {schema-pattern: 'a_1*', target-schema: y}\n"
    )
    result = run_prechecks(_task(target, {"s1": "route-rules: [one, two]"}, rules), _sources(s1=shards))
    (finding,) = _findings(result, "table route check")
    assert finding.message.startswith("task.yaml:7:25: 'one' of routes; task.yaml:8:25: 'two' of routes: [code=40080")
    assert finding.subject == "s1 `a_1`.`t_1` and 1 more tables"


def test_merging_shards_get_a_mapping_that_then_satisfies_the_checks(
    shards: MariaDBServer, mysql_upstream: MySQLServer, merged: MariaDBServer
) -> None:
    mysql_upstream.execute("CREATE DATABASE a_1", f"CREATE TABLE a_1.t_1 {SHARD}")
    sources = _sources(s1=shards, s2=mysql_upstream)
    instances = dict.fromkeys(sources, "route-rules: [merge]")
    result = run_prechecks(_task(merged, instances, MERGE), sources)
    assert result.passed, result.text
    (finding,) = _findings(result, KEYS)
    assert finding.subject == "s1 `a_1`.`t_1` (by 'merge' of routes, task.yaml:8:27)"
    proposal = re.search(r"or add (column-mappings: .*); in mysql-instances: (.*) \(and make", finding.instruction)
    assert proposal is not None
    names = dict(part.split(" ", 1) for part in proposal[2].split("; "))
    mapped = {name: f"{rest}, {names[name]}" for name, rest in instances.items()}
    text = f"{MERGE}{proposal[1]}\n"
    assert run_prechecks(_task(merged, mapped, f"{text}shard-mode: pessimistic\n"), sources).text == PASSED
    assert "has no shard-mode" in run_prechecks(_task(merged, mapped, text), sources).text


def test_instances_with_one_id_collide(
    shards: MariaDBServer, mysql_upstream: MySQLServer, merged: MariaDBServer
) -> None:
    mysql_upstream.execute("CREATE DATABASE a_1", f"CREATE TABLE a_1.t_1 {SHARD}")
    rules = (
        f"{MERGE}column-mappings:\n  ids: {{schema-pattern: 'a_*', table-pattern: 't_*', expression: partition id,"
        " target-column: id, arguments: ['1', a_, t_]}\n"
    )
    instance = "route-rules: [merge], column-mapping-rules: [ids]"
    result = run_prechecks(
        _task(merged, {"s1": instance, "s2": instance}, rules), _sources(s1=shards, s2=mysql_upstream)
    )
    assert _failed(result) == {BITS}
    (finding,) = _findings(result, BITS)
    assert finding.message.startswith(
        "task.yaml:10:25: 'ids' of column-mappings: s1 `a_1`.`t_1` and s2 `a_1`.`t_1` get"
    )


@pytest.mark.parametrize(
    ("column", "there", "check", "text"),
    [
        ("id", "id INT PRIMARY KEY, v VARCHAR(20), w INT", STRUCTURE, "column, which is int"),
        ("v", "id BIGINT PRIMARY KEY, v VARCHAR(16), w INT", STRUCTURE, "column, which is varchar(16)"),
        ("gone", "", RULES, "the table has no column `gone`"),
    ],
)
def test_mapped_values_must_fit(
    shards: MariaDBServer, target: MariaDBServer, column: str, there: str, check: str, text: str
) -> None:
    if there:
        target.execute("CREATE DATABASE a", f"CREATE TABLE a.t ({there})")
    rules = (
        f"{MERGE}column-mappings:\n  ids: {{schema-pattern: 'a_*', table-pattern: 't_*', expression: partition id,"
        f" target-column: {column}, arguments: ['', a_, t_]}}\n"
    )
    task = _task(target, {"s1": "route-rules: [merge], column-mapping-rules: [ids]"}, rules)
    found = [f for f in _findings(run_prechecks(task, _sources(s1=shards)), check) if f.severity == "fail"]
    assert len(found) == 4
    assert found[0].message.startswith("task.yaml:9:25: 'ids' of column-mappings")
    assert text in found[0].message


def _extracting(target: SQLServer, regexp: str, column: str) -> TaskConfig:
    rules = MERGE.replace("}", f", extract-table: {{table-regexp: '{regexp}', target-column: {column}}}}}")
    return _task(target, {"s1": "route-rules: [merge]"}, rules)


def test_what_a_route_fills_must_have_its_place(shards: MariaDBServer, target: MariaDBServer) -> None:
    sources = _sources(s1=shards)
    absent = run_prechecks(_extracting(target, "t_(.*)", "shard"), sources)
    assert _failed(absent) == {STRUCTURE}
    (first, *_) = _findings(absent, STRUCTURE)
    assert "does not exist in downstream table" in first.message
    assert first.subject == "s1 `a_1`.`t_1` (by 'merge' of routes, task.yaml:7:27)"
    target.execute("CREATE DATABASE a", f"CREATE TABLE a.t {SHARD}")
    lacking = run_prechecks(_extracting(target, "t_(.*)", "shard"), sources)
    assert "must contain extended columns that it lacks: `shard`" in _findings(lacking, STRUCTURE)[0].message
    columns = "id BIGINT AUTO_INCREMENT, v VARCHAR(20), w INT, shard VARCHAR(64)"
    target.execute("DROP TABLE a.t", f"CREATE TABLE a.t ({columns}, PRIMARY KEY (id, shard))")
    ready = run_prechecks(_extracting(target, "t_(.*)", "shard"), sources)
    assert not _failed(ready)
    (keys,) = _findings(ready, KEYS)
    assert "in the 2 tables" in keys.message, "a_1.t_1 and a_2.t_1 have one value"
    own = _findings(run_prechecks(_extracting(target, "t_(.*)", "w"), sources), STRUCTURE)
    assert own[0].message.endswith("must not contain the extended column `w`, which the route fills")
    unfound = _findings(run_prechecks(_extracting(target, "x(.*)", "shard"), sources), RULES)
    assert unfound[0].message.startswith("task.yaml:7:27: 'merge' of routes: [code=20045")


def test_expressions_over_columns_that_are_not_there(shards: MariaDBServer, merged: MariaDBServer) -> None:
    def run(expression: str, mode: str = "all") -> list[CheckFinding]:
        rules = f'{MERGE}expression-filter:\n  e: {{schema: a_1, table: t_1, insert-value-expr: "{expression}"}}\n'
        task = _task(merged, {"s1": "route-rules: [merge], expression-filters: [e]"}, rules, mode)
        return _findings(run_prechecks(task, _sources(s1=shards)), RULES)

    assert run("w > 5 AND v = 'x'") == []
    (finding,) = run("gone > 5")
    assert (finding.severity, finding.subject) == ("fail", "s1 `a_1`.`t_1`")
    assert finding.message.startswith("task.yaml:9:15: 'e' of expression-filter: [code=20041")
    assert "no column `gone`" in finding.message
    assert run("gone > 5", "load&sync")[0].severity == "warn", "its column may still come"


# The dry run


def test_a_dry_run_lists_every_table(shards: MariaDBServer, mysql_upstream: MySQLServer, target: MariaDBServer) -> None:
    mysql_upstream.execute("CREATE DATABASE a_7", f"CREATE TABLE a_7.t_8 {SHARD}")
    rules = (
        f"{MERGE}column-mappings:\n  ids: {{schema-pattern: 'a_*', table-pattern: 't_*', expression: partition id,"
        " target-column: id, arguments: ['', a_, t_]}\n  late: {schema-pattern: z, expression: add prefix,"
        " target-column: v, arguments: [x]}\nblock-allow-list:\n  l: {do-dbs: ['a_*']}\n"
    )
    instance = "route-rules: [merge], column-mapping-rules: [ids, late], block-allow-list: l"
    task = _task(target, {"s1": instance, "s2": instance}, rules)
    sources = _sources(s1=shards, s2=mysql_upstream)
    found = show_rules(task, sources, ())
    assert [(one.source_id, one.schema, one.table, one.target) for one in found.explanations] == [
        *(("s1", f"a_{i}", f"t_{j}", ("a", "t")) for i in (1, 2) for j in (1, 2)),
        ("s1", "other", "x", None),
        ("s2", "a_7", "t_8", ("a", "t")),
    ]
    assert found.explanations[4].reason.startswith("no entry of do-dbs in 'l'")
    effects = {one.rule.name: one.effect for one in found.explanations[5].applied}
    assert effects["ids"] == f"`id` becomes {7 << 56 | 8 << 48} + `id` (partition id: schema 7, table 8)"
    assert (found.summary.tables, found.summary.targets, found.summary.left_out) == (5, 1, 1)
    assert found.summary.unused == ("task.yaml:11:26: 'late' of column-mappings has no effect: it matches no table",)
    assert {one.source_id for one in show_rules(task, sources, ["s2"]).explanations} == {"s2"}
    gone = {**sources, "s2": replace(sources["s2"], from_=replace(sources["s2"].from_, port=free_port()))}
    with pytest.raises(DMError) as caught:
        show_rules(task, gone, ())
    assert caught.value.kind is Code.TaskCheckFailedOpenDB
