"""Two upstreams with two schemas of two shards each, all merge rules and filters together, while writers change rows.

SQL over the upstreams computes the expected rows of the target, not this program's code.
"""

from __future__ import annotations

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.workload import COMPARED, ORDERS, Shard, SQLRow, Writer, create_shard, fetch
from tests.harness.certified import NotAsked, certify, validated

ROWS = 1500
SHARDS = [(schema, table) for schema in (1, 2) for table in (1, 2)]
#: Entries, and their copies in a table that is not migrated, from which nothing is ever deleted.
LOG = "(id INT NOT NULL PRIMARY KEY, level VARCHAR(10) NOT NULL, text VARCHAR(40)) DEFAULT CHARSET=utf8mb4"
#: Entries up to this one exist before the full copy, to which the binlog's filters do not apply.
COPIED = 40
INSTANCES = """
  - source-id: source-{n}
    route-rules: [orders, log]
    column-mapping-rules: [ids-{n}]
    block-allow-list: shops
    filter-rules: [keep-log]
    expression-filters: [no-debug-1, no-debug-2]"""
TASK = """
name: task
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances:{instances}
routes:
  orders:
    schema-pattern: "shop_*"
    table-pattern: "~^orders_[0-9]+$"
    target-schema: shop
    target-table: orders
    extract-table: {{table-regexp: "orders_(.*)", target-column: c_table}}
    extract-source: {{source-regexp: "(s)ource-(.*)", target-column: c_source}}
  log:
    schema-pattern: "shop_*"
    table-pattern: log
    target-schema: shop
    target-table: log
    extract-schema: {{schema-regexp: "shop_(.*)", target-column: c_schema}}
    extract-source: {{source-regexp: "(.*)", target-column: c_source}}
column-mappings:
  ids-1: {{schema-pattern: "shop_*", table-pattern: "orders_*", target-column: id, expression: partition id,
    arguments: ["1", "shop", "orders", "_"]}}
  ids-2: {{schema-pattern: "shop_*", table-pattern: "orders_*", target-column: id, expression: partition id,
    arguments: ["2", "shop", "orders", "_"]}}
block-allow-list:
  shops:
    do-dbs: ["shop_*"]
    ignore-tables: [{{db-name: "~^shop_.$", tbl-name: "hidden_*"}}]
filters:
  keep-log: {{schema-pattern: "shop_*", table-pattern: log, events: [delete, truncate table], action: Ignore}}
expression-filter:
  no-debug-1: {{schema: shop_1, table: log, insert-value-expr: "level = 'debug'"}}
  no-debug-2: {{schema: shop_2, table: log, insert-value-expr: "level = 'debug' OR id % 7 = 0"}}
"""


def _write_log(server: SQLServer, ids: range) -> None:
    for schema in (1, 2):
        values = ",".join(f"({n},'{'debug' if n % 3 == 0 else 'info'}','entry {n}')" for n in ids)
        for table in ("log", "hidden_log"):
            server.execute(f"INSERT INTO shop_{schema}.{table} VALUES {values}")


def _create(server: SQLServer, seed: int) -> Writer:
    shards = [Shard(server, f"shop_{schema}", f"orders_{table}", 0) for schema, table in SHARDS]
    for i, shard in enumerate(shards):
        create_shard(shard, ROWS, seed * 100 + i)
    for schema in (1, 2):
        server.execute(
            f"CREATE TABLE shop_{schema}.log {LOG}",
            f"CREATE TABLE shop_{schema}.hidden_log {LOG}",
            f"CREATE TABLE shop_{schema}.hidden_{schema} (a INT)",
        )
    _write_log(server, range(1, COPIED + 1))
    return Writer(shards, seed=seed, rows=ROWS)


def _orders(servers: list[SQLServer]) -> list[SQLRow]:
    rows = []
    for source, server in enumerate(servers, 1):
        for schema, table in SHARDS:
            mapped = COMPARED.replace("id", f"({source}<<59 | {schema}<<52 | {table}<<44 | id)", 1)
            rows += fetch(server, f"shop_{schema}.orders_{table}", f"{mapped}, 's{source}', '{table}'")
    return sorted(rows, key=repr)


def _log(servers: list[SQLServer]) -> list[SQLRow]:
    rows = []
    for source, server in enumerate(servers, 1):
        for schema, dropped in ((1, "level = 'debug'"), (2, "level = 'debug' OR id % 7 = 0")):
            kept = f"shop_{schema}.hidden_log WHERE id <= {COPIED} OR NOT ({dropped})"
            rows += fetch(server, kept, f"'source-{source}', '{schema}', id, level, text")
    return sorted(rows, key=repr)


@pytest.mark.timeout(600)
def test_shards_with_equal_keys_merge_under_all_rules(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, target: MariaDBServer
) -> None:
    servers: list[SQLServer] = [mariadb_upstream, mysql_upstream]
    writers = [_create(server, seed) for seed, server in enumerate(servers, 1)]
    extracted = ", c_source VARCHAR(32) NOT NULL, c_table INT NOT NULL, PRIMARY KEY"
    target.execute(
        "CREATE DATABASE shop",
        f"CREATE TABLE shop.orders {ORDERS.replace(', PRIMARY KEY', extracted)}",
        "CREATE TABLE shop.log (c_source VARCHAR(32), c_schema VARCHAR(32), id INT, level VARCHAR(10),"
        " text VARCHAR(40), PRIMARY KEY (c_source, c_schema, id))",
    )
    for i, server in enumerate(servers, 1):
        free_cluster.add_source(server, f"source-{i}", gtid=i == 2)
    for writer in writers:
        writer.start()
    try:
        instances = "".join(INSTANCES.format(n=n) for n in (1, 2))
        task = free_cluster.write_task(validated(TASK.format(port=target.port, instances=instances)))
        free_cluster.ok("start-task", task)
        free_cluster.wait_stage("task", "Running", unit="Sync")
        for server in servers:
            _write_log(server, range(COPIED + 1, 100))
            server.execute("DELETE FROM shop_1.log WHERE id < 50", "TRUNCATE TABLE shop_2.log")
        free_cluster.dmctl("pause-task", "task")  # the pause may take longer than the answer
        free_cluster.wait_stage("task", "Paused")
        for server in servers:
            _write_log(server, range(100, 130))
        free_cluster.ok("resume-task", "task")
        free_cluster.wait_stage("task", "Running", unit="Sync")
        for writer in writers:
            writer.stop()
            assert writer.transactions
        free_cluster.wait_synced("task")
    finally:
        for writer in writers:
            writer.abandon()
    columns = "c_source, c_schema, id, level, text"
    assert fetch(target, "shop.log", columns) == _log(servers)
    assert fetch(target, "shop.orders", f"{COMPARED}, c_source, CAST(c_table AS CHAR)") == _orders(servers)
    assert {name for (name,) in target.execute("SHOW TABLES FROM shop")} == {"orders", "log"}
    # The routes apply to tables: the schemas themselves keep their names, and stay empty.
    assert target.execute("SHOW TABLES FROM shop_1") == target.execute("SHOW TABLES FROM shop_2") == []
    certify(free_cluster, "task", not_compared={"`shop`.`log`": NotAsked.PAST_VALUES})
