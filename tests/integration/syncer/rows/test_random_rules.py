"""Hazard: under rules, changes of one row meet in two buckets, or a later change creates a filtered row.

Random changes on a real server; its binlog is applied by parallel writers, in slices of a few rows; what is expected is
computed by the server's own arithmetic, or by a model that does one change after the other.
"""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.binlog.rows.row_decoder import KERNEL
from pkg.config.model import SubTaskConfig
from pkg.rules.model import BinlogFilterRule, ColumnMappingRule, ExpressionFilter, ExtractRule, RouteRule
from tests.integration.syncer.replay import Replay, attempt
from tests.integration.syncer.support import rows

KERNELS = [None] if KERNEL is None else [None, KERNEL]


def rules_of(upstream: SQLServer, target: SQLServer, **rules: Any) -> TaskRules:
    return TaskRules(SubTaskConfig("t", "s", "all", upstream.db_config, target.db_config, **rules))


PARTITIONS = tuple(
    ColumnMappingRule("shard_*", column, "partition id", "t", "", ("", "shard_", "")) for column in ("id", "u")
)
EXTRACT = RouteRule("shard_*", "m", "t", "t", extract_schema=ExtractRule("shard_(.*)", "shard"))
SHARD = "shard VARCHAR(9) COLLATE utf8mb4_general_ci"


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("rules", "columns", "expected"),
    [
        (
            {"routes": (RouteRule("shard_*", "m", "t", "t"),), "column_mappings": PARTITIONS},
            "id BIGINT PRIMARY KEY, u BIGINT, v INT, UNIQUE (u)",
            "SELECT id | {shard} << 56, u | {shard} << 56, v FROM shard_{shard}.t",
        ),
        (
            {"routes": (EXTRACT,)},
            f"id INT, u INT, v INT, {SHARD}, PRIMARY KEY (shard, id), UNIQUE (u, shard)",
            "SELECT id, u, v, '{shard}' FROM shard_{shard}.t",
        ),
    ],
    ids=["partition id", "extract"],
)
def test_merged_shards_with_the_same_keys(
    mariadb_upstream: MariaDBServer,
    target: MariaDBServer,
    kernel: ModuleType | None,
    rules: dict[str, Any],
    columns: str,
    expected: str,
) -> None:
    """Keys move, and unique values change hands."""
    for shard in (1, 2):
        table = "id INT PRIMARY KEY, u INT, v INT, UNIQUE (u)"
        mariadb_upstream.execute(f"CREATE DATABASE shard_{shard}", f"CREATE TABLE shard_{shard}.t ({table})")
    target.execute("CREATE DATABASE m", f"CREATE TABLE m.t ({columns})")
    replay = Replay(
        mariadb_upstream, target, kernel=kernel, slice_bytes=200, rules=rules_of(mariadb_upstream, target, **rules)
    )
    chance = random.Random(7)
    conn = mariadb_upstream.connect(autocommit=False)
    for _ in range(2):
        for number in range(80):
            table = f"shard_{chance.randint(1, 2)}.t"
            one, other, u = chance.randint(1, 15), chance.randint(1, 15), chance.randint(1, 9)
            attempt(
                conn,
                chance.choice(
                    [
                        f"INSERT IGNORE INTO {table} VALUES ({one}, {u}, {number})",
                        f"INSERT IGNORE INTO {table} VALUES ({one}, NULL, {number})",
                        f"UPDATE {table} SET v = {number} WHERE id = {one}",
                        f"UPDATE IGNORE {table} SET id = {other} WHERE id = {one}",
                        f"UPDATE IGNORE {table} SET u = NULL WHERE u = {u}",
                        f"UPDATE IGNORE {table} SET u = {u} WHERE id = {one}",
                        f"DELETE FROM {table} WHERE id = {one}",
                    ]
                ),
                *(["COMMIT"] if chance.random() < 0.3 else []),
            )
        conn.commit()
        assert replay.catch_up()
        want = [row for shard in (1, 2) for row in mariadb_upstream.execute(expected.format(shard=shard))]
        assert rows(target, "m.t") == sorted(want, key=repr)
    conn.close()


@pytest.mark.parametrize(
    ("left_out", "rules"),
    [
        (
            lambda kind, old, new: kind == "insert",
            {"filters": (BinlogFilterRule("d", "t", ("insert",), (), "Ignore"),)},
        ),
        (
            lambda kind, old, new: kind != "insert",
            {"filters": (BinlogFilterRule("d", "t", ("update", "delete"), (), "Ignore"),)},
        ),
        (
            lambda kind, old, new: kind == "delete",
            {"filters": (BinlogFilterRule("d", "t", ("delete",), (), "Ignore"),)},
        ),
        (
            lambda kind, old, new: (
                (kind == "insert" and new % 3 == 0) or (kind == "update" and old % 2 == new % 5 == 1)
            ),
            {
                "expression_filters": (
                    ExpressionFilter("d", "t", insert_value_expr="v % 3 = 0"),
                    ExpressionFilter("d", "t", update_old_value_expr="v % 2 = 1", update_new_value_expr="v % 5 = 1"),
                )
            },
        ),
    ],
    ids=["insert", "update and delete", "delete", "expressions"],
)
def test_changes_of_rows_that_are_not_there_do_nothing(
    mariadb_upstream: MariaDBServer,
    target: MariaDBServer,
    left_out: Any,
    rules: dict[str, Any],
) -> None:
    """Every key is new when its row is inserted, so that no change can find a row that was left behind."""
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, w INT, UNIQUE (w))")
    replay = Replay(mariadb_upstream, target, slice_bytes=150, rules=rules_of(mariadb_upstream, target, **rules))
    chance = random.Random(3)
    here: dict[int, int] = {}
    there: dict[int, int] = {}
    conn = mariadb_upstream.connect(autocommit=False)
    for key in range(1, 160):
        kind = chance.choice(["insert", "insert", "update", "update", "move", "delete"]) if here else "insert"
        old, v = (0 if kind == "insert" else chance.choice(list(here))), chance.randint(1, 99)
        if kind == "insert":
            attempt(conn, f"INSERT INTO d.t VALUES ({key}, {v}, {key})")
        elif kind == "delete":
            attempt(conn, f"DELETE FROM d.t WHERE id = {old}")
        else:
            new = old if kind == "update" else key
            attempt(conn, f"UPDATE d.t SET id = {new}, v = {v}, w = {new} WHERE id = {old}")
        before = here.pop(old, 0)
        if kind != "delete":
            here[old if kind == "update" else key] = v
        if not left_out("update" if kind == "move" else kind, before, v):
            if kind == "insert" or (kind != "delete" and old in there):
                there.pop(old, None)
                there[old if kind == "update" else key] = v
            elif kind == "delete":
                there.pop(old, None)
        if key % 80 == 79:
            conn.commit()
            replay.catch_up()
    conn.commit()
    conn.close()
    replay.catch_up()
    assert rows(mariadb_upstream, "d.t") == sorted([(key, v, key) for key, v in here.items()], key=repr)
    assert rows(target, "d.t") == sorted([(key, v, key) for key, v in there.items()], key=repr)
    assert here != there
