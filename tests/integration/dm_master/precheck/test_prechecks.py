"""Hazards: a task that starts on servers it cannot work with, and a problem that is reported without what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import free_port
from dm_master.precheck import PrecheckResult, run_prechecks
from dm_master.precheck.result import PASSED, CheckFinding
from pkg.config.model import Meta, SourceConfig, TaskConfig
from pkg.config.task import load_task
from pkg.errors import Code, DMError
from pkg.settings.connections import DBConfig
from tests.harness.dm_state.tables import DMState

TABLE = "CREATE TABLE a.t (id INT PRIMARY KEY, v VARCHAR(20))"


@pytest.fixture(scope="module")
def bare_mysql() -> Iterator[MySQLServer]:
    """A MySQL without binlog and GTID."""
    server = MySQLServer(binlog=False)
    server.start()
    yield server
    server.cleanup()


def _task(target: DBConfig, *sources: str, mode: str = "all", rest: str = "", instance: str = "") -> TaskConfig:
    entries = "".join(f"- {{source-id: {source}{instance}}}\n" for source in sources)
    head = f"name: t\ntask-mode: {mode}\ntarget-database: {{host: 127.0.0.1, port: {target.port}, password: ''}}\n"
    return replace(load_task(f"{head}mysql-instances:\n{entries}{rest}"), target=target)


def _source(server: SQLServer, source_id: str = "s1", **changes: object) -> SourceConfig:
    config = SourceConfig(source_id, server.db_config, flavor=server.flavor, server_id=4_000_000)
    return replace(config, **changes)  # type: ignore[arg-type]


def _run(task: TaskConfig, *sources: SourceConfig) -> PrecheckResult:
    return run_prechecks(task, {source.source_id: source for source in sources})


def _findings(result: PrecheckResult, name: str) -> list[CheckFinding]:
    return [finding for check in result.results if check.name == name for finding in check.findings]


def _failed(result: PrecheckResult) -> set[str]:
    assert not result.passed
    assert "code=26005" in result.text
    for check in result.results:
        for finding in check.findings:
            assert finding.instruction, f"{finding.message} must say what to do"
    return {check.name for check in result.results if check.state == "fail"}


def _user(server: SQLServer, *grants: str) -> DBConfig:
    """A fresh user with just these grants."""
    if server.execute("SELECT 1 FROM mysql.user WHERE user = 'dm' AND host = '127.0.0.1'"):
        server.execute("DROP USER 'dm'@'127.0.0.1'")
    server.execute("CREATE USER 'dm'@'127.0.0.1' IDENTIFIED BY 'pw'")
    for grant in grants:
        server.execute(f"GRANT {grant} TO 'dm'@'127.0.0.1'")
    return replace(server.db_config, user="dm", password="pw")


@pytest.mark.parametrize("mode", ["full", "incremental", "all"])
def test_good_servers_pass(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, target: MariaDBServer, mode: str
) -> None:
    mariadb_upstream.execute("CREATE DATABASE a", TABLE)
    mysql_upstream.execute("CREATE DATABASE b", TABLE.replace("a.t", "b.t"))
    target.execute("CREATE DATABASE a", TABLE, "CREATE DATABASE b", TABLE.replace("a.t", "b.t"))
    result = _run(
        _task(target.db_config, "s1", "s2", mode=mode),
        _source(mariadb_upstream, enable_gtid=True),
        _source(mysql_upstream, "s2", enable_gtid=True),
    )
    assert (result.passed, result.text) == (True, PASSED)


def test_least_privileges_suffice(mysql_upstream: MySQLServer, target: MariaDBServer) -> None:
    mysql_upstream.execute("CREATE DATABASE a", TABLE)
    user = _user(mysql_upstream, "SELECT ON a.*", "RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.*")
    task = _task(
        target.db_config, "s1", rest="block-allow-list: {l: {do-dbs: [a]}}\n", instance=", block-allow-list: l"
    )
    result = _run(task, _source(mysql_upstream, from_=user))
    assert result.passed, result.text


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_each_missing_privilege_is_named(
    flavor: str, mysql_upstream: MySQLServer, mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    server: SQLServer = mysql_upstream if flavor == "mysql" else mariadb_upstream
    server.execute("CREATE DATABASE a", TABLE, "CREATE TABLE a.hidden (id INT PRIMARY KEY)")
    user = _user(server, "SELECT ON a.t", "INSERT ON a.hidden")
    result = _run(_task(target.db_config, "s1"), _source(server, from_=user))
    assert _failed(result) >= {"source db dump privilege checker", "source db replication privilege checker"}
    dump = " ".join(finding.message for finding in _findings(result, "source db dump privilege checker"))
    assert "lack of Select privilege: `a`.`hidden`" in dump
    assert "`a`.`t`" not in dump
    assert "lack of Reload global (*.*) privilege" in dump
    replication = [finding.message for finding in _findings(result, "source db replication privilege checker")]
    assert replication == [f"lack of Replication {name} global (*.*) privilege" for name in ("Slave", "Client")]


def test_user_without_any_table_is_reported(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    mariadb_upstream.execute("CREATE DATABASE a", TABLE)
    user = _user(mariadb_upstream, "RELOAD, REPLICATION SLAVE, BINLOG MONITOR ON *.*")
    result = _run(_task(target.db_config, "s1"), _source(mariadb_upstream, from_=user))
    assert _failed(result) == {"source db dump privilege checker"}


def test_privileges_of_a_role_count(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    mariadb_upstream.execute("CREATE DATABASE a", TABLE, "CREATE OR REPLACE ROLE migrator")
    mariadb_upstream.execute("GRANT SELECT, RELOAD, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO migrator")
    user = _user(mariadb_upstream)
    mariadb_upstream.execute("GRANT migrator TO 'dm'@'127.0.0.1'", "SET DEFAULT ROLE migrator FOR 'dm'@'127.0.0.1'")
    result = _run(_task(target.db_config, "s1"), _source(mariadb_upstream, from_=user))
    assert result.passed, result.text


def test_target_user_with_too_little_gets_warnings(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    mariadb_upstream.execute("CREATE DATABASE a", TABLE)
    user = _user(target, "SELECT, INSERT, UPDATE, DELETE ON *.*")
    result = _run(_task(user, "s1"), _source(mariadb_upstream))
    assert result.passed
    assert "no errors but some warnings" in result.text
    lacking = [finding.message for finding in _findings(result, "target db privilege checker")]
    assert [text.split()[2] for text in lacking] == ["Create", "Alter", "Drop", "Index"]
    assert "`a`.*" in lacking[0]
    assert "`dm_meta`.*" in lacking[0]


def test_binlog_off_and_gtid_off(bare_mysql: MySQLServer, target: MariaDBServer) -> None:
    result = _run(_task(target.db_config, "s1"), _source(bare_mysql, enable_gtid=True))
    assert _failed(result) >= {"mysql_binlog_enable", "gtid_mode"}
    (gtid,) = _findings(result, "gtid_mode")
    assert "code=26007" in gtid.message
    assert "gtid_mode=ON" in gtid.instruction


def test_full_copy_needs_no_binlog(bare_mysql: MySQLServer, target: MariaDBServer) -> None:
    assert _run(_task(target.db_config, "s1", mode="full"), _source(bare_mysql)).passed


@pytest.mark.parametrize(
    ("setting", "bad", "good", "check"),
    [
        ("binlog_format", "'MIXED'", "'ROW'", "mysql_binlog_format"),
        ("binlog_row_image", "'MINIMAL'", "'FULL'", "mysql_binlog_row_image"),
    ],
)
def test_binlog_settings(
    mysql_upstream: MySQLServer,
    mariadb_upstream: MariaDBServer,
    target: MariaDBServer,
    setting: str,
    bad: str,
    good: str,
    check: str,
) -> None:
    servers: tuple[SQLServer, ...] = (mysql_upstream, mariadb_upstream)
    for server in servers:
        server.execute(f"SET GLOBAL {setting} = {bad}")
        try:
            result = _run(_task(target.db_config, "s1"), _source(server))
        finally:
            server.execute(f"SET GLOBAL {setting} = {good}")
        assert _failed(result) == {check}
        assert bad.strip("'") in _findings(result, check)[0].message


def test_unreachable_servers_and_wrong_passwords_are_all_named(
    mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    gone = DBConfig("127.0.0.1", free_port())
    wrong = replace(mariadb_upstream.db_config, user="nobody", password="hunter2")
    task = _task(replace(target.db_config, user="nobody", password="hunter2"), "s1", "s2")
    result = _run(task, _source(mariadb_upstream, from_=gone), _source(mariadb_upstream, "s2", from_=wrong))
    assert _failed(result) == {"connection check"}
    texts = [f"{finding.message} {finding.instruction}" for finding in _findings(result, "connection check")]
    assert len(texts) == 3
    assert all("code=26002" in text for text in texts)
    assert ["Error 1045 (28000)" in text and "password" in text for text in texts] == [True, False, True]
    assert "connect: connection refused" in texts[1]
    assert "hunter2" not in result.text


def test_columns_that_the_target_lacks(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    mariadb_upstream.execute("CREATE DATABASE a", TABLE)
    target.execute("CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY)")
    result = _run(_task(target.db_config, "s1"), _source(mariadb_upstream))
    assert _failed(result) == {"table structure compatibility check"}
    (finding,) = _findings(result, "table structure compatibility check")
    assert finding.message == "the target table lacks the column v"
    assert (finding.subject, finding.other) == ("s1 `a`.`t`", "target `a`.`t`")


def test_a_task_under_way_may_be_ahead_of_its_target(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    """The column may have been added while the task was stopped: its DDL is still to come."""
    mariadb_upstream.execute("CREATE DATABASE a", TABLE)
    target.execute("CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY)", "CREATE DATABASE dm_meta")
    target.execute("CREATE TABLE dm_meta.t_syncer_checkpoint (id VARCHAR(32))")
    task, source = _task(target.db_config, "s1"), _source(mariadb_upstream)
    assert not _run(task, source).passed
    target.execute("INSERT INTO dm_meta.t_syncer_checkpoint VALUES ('s1')")
    result = _run(task, source)
    assert result.passed
    assert "lacks the column v" in result.text


def test_shards_that_cannot_merge(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, target: MariaDBServer
) -> None:
    mariadb_upstream.execute("CREATE DATABASE a1", "CREATE TABLE a1.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    mysql_upstream.execute("CREATE DATABASE a2", "CREATE TABLE a2.t (id INT PRIMARY KEY AUTO_INCREMENT, w INT)")
    rest = "routes: {r: {schema-pattern: a*, table-pattern: t, target-schema: a, target-table: t}}\n"
    task = _task(target.db_config, "s1", "s2", rest=rest, instance=", route-rules: [r]")
    result = _run(task, _source(mariadb_upstream), _source(mysql_upstream, "s2"))
    assert _failed(result) == {"sharding table consistency check"}
    assert "the columns v, w" in _findings(result, "sharding table consistency check")[0].message
    (keys,) = _findings(result, "auto-increment key check")
    assert "auto-increment primary key `PRIMARY` (id) may repeat in the 2 tables" in keys.message
    mysql_upstream.execute("ALTER TABLE a2.t CHANGE w v INT")
    assert _run(task, _source(mariadb_upstream), _source(mysql_upstream, "s2")).passed


def test_targets_that_differ_only_in_case(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    mariadb_upstream.execute("CREATE DATABASE a", TABLE, TABLE.replace("a.t", "a.T"))
    result = _run(_task(target.db_config, "s1"), _source(mariadb_upstream))
    assert _failed(result) == {"target table name check"}


def test_two_routes_for_one_table_are_reported(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    mariadb_upstream.execute("CREATE DATABASE a", TABLE)
    rest = (
        "routes: {r: {schema-pattern: a, table-pattern: t, target-schema: x},"
        " q: {schema-pattern: a*, table-pattern: t*, target-schema: y}}\n"
    )
    result = _run(_task(target.db_config, "s1", rest=rest, instance=", route-rules: [r, q]"), _source(mariadb_upstream))
    assert _failed(result) == {"table route check"}
    assert "code=40080" in result.text


def test_online_change_under_way(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    mariadb_upstream.execute("CREATE DATABASE a", TABLE, TABLE.replace("a.t", "a._t_gho"))
    result = _run(_task(target.db_config, "s1"), _source(mariadb_upstream))
    assert _failed(result) == {"online ddl checker"}
    # DM, or this program, has followed it up to the checkpoint.
    DMState(target, source="s1").put_online_change(("a", "_t_gho"), ("a", "t"), "ALTER TABLE `a`.`_t_gho` ADD x INT")
    result = _run(_task(target.db_config, "s1"), _source(mariadb_upstream))
    assert result.passed
    assert "it continues here" in _findings(result, "online ddl checker")[0].message


def test_tables_named_like_those_of_an_online_ddl_tool_are_reported(
    mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    tables = [TABLE.replace("a.t", name) for name in ("a._t_old", "a._alone_new", "a._other_del")]
    mariadb_upstream.execute("CREATE DATABASE a", TABLE, *tables)
    lists = "block-allow-list: {b: {do-tables: [{db-name: a, tbl-name: t}, {db-name: a, tbl-name: alone}]}}\n"
    task = _task(target.db_config, "s1", rest=lists, instance=", block-allow-list: b")
    found = _findings(_run(task, _source(mariadb_upstream)), "online ddl checker")
    assert {(finding.severity, finding.message.partition(" is ")[0]) for finding in found} == {
        ("warn", "table `a`.`_alone_new`"),
        ("warn", "table `a`.`_t_old`"),
    }


def test_too_few_connections(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    instance = ", mydumper: {threads: 1000}, loader: {pool-size: 1000}"
    ((limit,),) = target.execute("SELECT @@GLOBAL.max_connections")
    # TiDB has no limit by default.
    target.execute("SET GLOBAL max_connections = 100")
    try:
        result = _run(_task(target.db_config, "s1", instance=instance), _source(mariadb_upstream))
    finally:
        target.execute(f"SET GLOBAL max_connections = {limit}")
    assert _failed(result) == {"dumper conn number checker", "loader conn number checker"}


def test_target_tables_with_rows_before_a_full_copy_are_one_warning(
    mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    names = [f"t{number:02}" for number in range(60)]
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE a", *(f"CREATE TABLE a.{name} (id INT PRIMARY KEY)" for name in names))
    check = "target table empty check"
    assert not _findings(_run(_task(target.db_config, "s1"), _source(mariadb_upstream)), check)
    target.execute(*(f"INSERT INTO a.{name} VALUES (1)" for name in names[5:]))
    result = _run(_task(target.db_config, "s1"), _source(mariadb_upstream))
    assert result.passed
    (finding,) = _findings(result, check)
    assert finding.message.endswith("before the full copy: 55 (`a`.`t05`, `a`.`t06`, `a`.`t07` and 52 more)")
    assert "empty these tables" in result.text
    for rest, mode in (("ignore-checking-items: [downstream_table_empty]\n", "all"), ("", "incremental")):
        assert not _findings(
            _run(_task(target.db_config, "s1", rest=rest, mode=mode), _source(mariadb_upstream)), check
        )


def test_coordinates_that_the_target_shows_in_another_order_are_named(
    mysql_upstream: MySQLServer, mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    check = "table structure compatibility check"
    for server in (mysql_upstream, mariadb_upstream):
        server.execute(
            "CREATE DATABASE a", "CREATE TABLE a.places (id INT PRIMARY KEY, place POINT, area POLYGON)", TABLE
        )
    result = _run(_task(target.db_config, "s1"), _source(mysql_upstream))
    assert result.passed
    (finding,) = _findings(result, check)
    assert "1 tables have geometries (`a`.`places`)" in finding.message
    assert not _findings(_run(_task(target.db_config, "s1"), _source(mariadb_upstream)), check)


def test_coordinates_keep_their_bytes(mysql_upstream: MySQLServer, target: MariaDBServer) -> None:
    """What docs/servers.md says of the order of coordinates."""
    bytes_of = "SELECT HEX(ST_GeomFromText('POINT(48 11)', 4326))"
    ((stored,),) = mysql_upstream.execute(bytes_of)
    ((text, first),) = target.execute(f"SELECT ST_AsText(x'{stored}'), ST_X(x'{stored}')")
    assert (text, first) == ("POINT(11 48)", 11)


def test_ignored_items_are_left_out(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    instance = ", mydumper: {threads: 1000}, loader: {pool-size: 1000}"
    rest = "ignore-checking-items: [conn_number]\n"
    assert _run(_task(target.db_config, "s1", instance=instance, rest=rest), _source(mariadb_upstream)).passed
    nothing = _task(DBConfig("127.0.0.1", free_port()), "s1", rest="ignore-checking-items: [all]\n")
    assert _run(nothing, _source(mariadb_upstream)).text == PASSED


def test_schemas_that_the_binlog_leaves_out(target: MariaDBServer) -> None:
    server = MariaDBServer(extra=["--binlog-ignore-db=quiet"])
    try:
        server.start()
        server.execute("CREATE DATABASE quiet", "CREATE DATABASE loud")
        result = _run(_task(target.db_config, "s1"), _source(server))
    finally:
        server.cleanup()
    assert _failed(result) == {"binlog_do_db/binlog_ignore_db check"}
    assert _findings(result, "binlog_do_db/binlog_ignore_db check")[0].message.endswith(": quiet")


def _start_at(server: SQLServer, target: MariaDBServer, meta: Meta, *, gtid: bool) -> PrecheckResult:
    task = _task(target.db_config, "s1", mode="incremental")
    task = replace(task, instances=(replace(task.instances[0], meta=meta),))
    return _run(task, _source(server, enable_gtid=gtid))


def test_start_positions_by_file(
    mysql_upstream: MySQLServer, mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    servers: tuple[SQLServer, ...] = (mysql_upstream, mariadb_upstream)
    for server in servers:
        name, position = server.binlog_status()[:2]
        assert _start_at(server, target, Meta(name, position), gtid=False).passed
        for bad in (Meta(name, position + 1000), Meta("mysql-bin.999999", 4), Meta("", 0, "0-1-1")):
            assert _failed(_start_at(server, target, bad, gtid=False)) == {"meta position check"}


def test_start_positions_by_gtid_mysql(mysql_upstream: MySQLServer, target: MariaDBServer) -> None:
    server = mysql_upstream
    server.execute("CREATE DATABASE a", TABLE)
    executed = str(server.execute("SELECT @@GLOBAL.gtid_executed")[0][0])
    uuid = executed.partition(":")[0]
    assert _start_at(server, target, Meta("", 0, executed), gtid=True).passed
    ahead = Meta("", 0, f"{uuid}:1-1000000")
    assert "never had" in _start_at(server, target, ahead, gtid=True).text
    assert "not a GTID set" in _start_at(server, target, Meta("", 0, "nonsense"), gtid=True).text
    server.execute("FLUSH BINARY LOGS")
    server.purge_binlogs()
    assert "purged" in _start_at(server, target, Meta("", 0, f"{uuid}:1"), gtid=True).text


def test_start_positions_by_gtid_mariadb(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    server = mariadb_upstream
    server.execute("CREATE DATABASE a", TABLE)
    now = str(server.execute("SELECT @@GLOBAL.gtid_binlog_pos")[0][0])
    domain, server_id, sequence = now.split("-")
    assert _start_at(server, target, Meta("", 0, now), gtid=True).passed
    ahead = Meta("", 0, f"{domain}-{server_id}-{int(sequence) + 5}")
    assert "never had" in _start_at(server, target, ahead, gtid=True).text
    assert "not a GTID set" in _start_at(server, target, Meta("", 0, "nonsense"), gtid=True).text
    server.execute("FLUSH BINARY LOGS")
    server.execute("CREATE TABLE a.later (id INT)")
    server.purge_binlogs()
    assert "purged" in _start_at(server, target, Meta("", 0, f"{domain}-{server_id}-1"), gtid=True).text
    assert _start_at(server, target, Meta("", 0, now), gtid=True).passed


def test_source_that_nobody_created(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    with pytest.raises(DMError) as caught:
        _run(_task(target.db_config, "s2"), _source(mariadb_upstream))
    assert caught.value.kind is Code.ConfigSourceIDNotFound


def test_objects_that_hold_data_but_cannot_be_migrated_are_refused_until_left_out(
    mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE a",
        TABLE,
        "CREATE TABLE a.h (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
        "CREATE SEQUENCE a.s",
        "CREATE VIEW a.v AS SELECT * FROM a.t",
    )
    source = _source(mariadb_upstream)
    result = _run(_task(target.db_config, "s1"), source)
    assert _failed(result) == {"table structure compatibility check"}
    refused = _findings(result, "table structure compatibility check")
    assert sorted(str(finding.subject) for finding in refused) == ["s1 `a`.`h`", "s1 `a`.`s`"]
    left_out = "{do-dbs: [a], ignore-tables: [{db-name: a, tbl-name: h}, {db-name: a, tbl-name: s}]}"
    rest = f"block-allow-list: {{b: {left_out}}}\n"
    task = _task(target.db_config, "s1", rest=rest, instance=", block-allow-list: b")
    assert _run(task, source).passed


def test_merge_rules_are_checked_with_the_servers(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    mariadb_upstream.execute("CREATE DATABASE a", TABLE)
    rules = (
        "routes: {r: {schema-pattern: a, target-schema: b, target-table: m, table-pattern: t,"
        " extract-source: {source-regexp: '(.*)', target-column: origin}}}\n"
        "column-mappings: {c: {schema-pattern: a, target-column: id, expression: partition id,"
        " arguments: ['1', '', '']}}\n"
    )
    task = _task(target.db_config, "s1", rest=rules, instance=", route-rules: [r], column-mapping-rules: [c]")
    missing = _run(task, _source(mariadb_upstream))
    assert "`origin`" in missing.text
    assert "BIGINT" in missing.text
    target.execute(
        "CREATE DATABASE b", "CREATE TABLE b.m (id BIGINT PRIMARY KEY, v VARCHAR(20), origin CHAR(9) NOT NULL)"
    )
    assert _run(task, _source(mariadb_upstream)).passed
    wrong = _run(
        _task(
            target.db_config, "s1", rest=rules.replace("'', ''", "'', 'x'"),
            instance=", route-rules: [r], column-mapping-rules: [c]",
        ),
        _source(mariadb_upstream),
    )  # fmt: skip
    assert _failed(wrong) == {"rule check"}
    assert "code=26004" in wrong.text


FAMILY = (
    "CREATE DATABASE a",
    "CREATE TABLE a.p (id INT PRIMARY KEY, `b``c` INT, UNIQUE KEY (id, `b``c`))",
    "CREATE TABLE a.c (id INT PRIMARY KEY, `x,y` INT, FOREIGN KEY (id) REFERENCES a.p (id) ON DELETE CASCADE,"
    " CONSTRAINT pair FOREIGN KEY (id, `x,y`) REFERENCES p (id, `b``c`) ON UPDATE SET NULL)",
)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_foreign_keys_are_compared_by_a_user_who_may_only_select(
    flavor: str, mysql_upstream: MySQLServer, mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    server: SQLServer = mysql_upstream if flavor == "mysql" else mariadb_upstream
    family = [sql.replace(" ON UPDATE SET NULL", " ON UPDATE CASCADE") for sql in FAMILY]
    for each in (server, target):
        each.execute(*family)
    user = _user(server, "SELECT ON a.*", "RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.*")
    rest = "block-allow-list: {l: {do-dbs: [a]}}\n"
    task = _task(target.db_config, "s1", rest=rest, instance=", block-allow-list: l")
    result = _run(task, _source(server, from_=user))
    assert result.passed, result.text
    target.execute("ALTER TABLE a.c DROP FOREIGN KEY pair")
    result = _run(task, _source(server, from_=user))
    assert _failed(result) == {"foreign key check"}
    (finding,) = _findings(result, "foreign key check")
    assert "`a`.`c` (id, x,y) to `a`.`p` (id, b`c)" in finding.message
    ignoring = replace(task, ignore_checking_items=("foreign_keys",))
    assert _run(ignoring, _source(server, from_=user)).passed


def test_a_task_that_forbids_foreign_keys_to_act_is_refused(
    mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    mariadb_upstream.execute(*FAMILY[:2], FAMILY[2].replace(" ON UPDATE SET NULL", ""))
    forbids = replace(target.db_config, session=(("foreign_key_checks", "0"),))
    assert _failed(_run(_task(forbids, "s1"), _source(mariadb_upstream))) == {"foreign key check"}


@pytest.mark.target_with("storage engines")
def test_target_tables_that_cannot_roll_back_are_refused(
    mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    mariadb_upstream.execute("CREATE DATABASE a", TABLE)
    target.execute("CREATE DATABASE a", f"{TABLE} ENGINE=MyISAM")
    task = _task(target.db_config, "s1")
    result = _run(task, _source(mariadb_upstream))
    assert _failed(result) == {"target table engine check"}
    assert "`a`.`t` has the engine MyISAM" in _findings(result, "target table engine check")[0].message
    assert _run(replace(task, ignore_checking_items=("table_engine",)), _source(mariadb_upstream)).passed
