"""Hazard: after an upgrade a batch under way counts as another one, and its rows are written again in safe mode.

The batch row keeps a fingerprint of the plans and of the task's rules, the dump's manifest one of its configuration.
The names of classes and of fields are part of what is stored (:mod:`dm_worker.meta.stored_text`). The digests here are
those of earlier versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest

from dm_worker.dumper.folder import fingerprint
from dm_worker.meta.stored_text import stored_text
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.rows.conflict_sets import families
from dm_worker.syncer.rows.key_normalization import TargetCharsets
from dm_worker.syncer.rows.plan_builder import PlanOptions, build
from dm_worker.syncer.rows.table_plan import TablePlan
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.binlog.position import Location, Position
from pkg.config.model import SubTaskConfig
from pkg.mysql.collation_weights import CollationWeights
from pkg.mysql.schema import Column, ForeignKey, Index, IndexPart, TableInfo
from pkg.rules.model import (
    BinlogFilterRule,
    BlockAllowList,
    ColumnMappingRule,
    ExpressionFilter,
    ExtractRule,
    RouteRule,
    TableName,
)
from pkg.settings.connections import DBConfig

TABLE = [bytes([0, 65 + i % 26]) for i in range(300)]
WEIGHTS = CollationWeights.of("utf8mb4_general_ci", TABLE, b"\xff\xfd")
ID = Column("id", "bigint", "bigint(20)", nullable=False)
OTHER = Column("other", "int", "int(11)", nullable=False)
V = Column("v", "varchar", "varchar(9)", charset="utf8mb4", collation="utf8mb4_general_ci")
LATIN = Column("l", "varchar", "varchar(9)", False, False, "latin1", "latin1_bin")
KINDS = (
    Column("a", "decimal", "decimal(9,2)", nullable=False),
    Column("b", "double", "double", nullable=False),
    Column("c", "datetime", "datetime", nullable=False),
    Column("d", "binary", "binary(9)", nullable=False),
    Column("e", "enum", "enum('x','y')", nullable=False),
    Column("f", "set", "set('x','y')", nullable=False),
)
WIDER = (
    Column("a", "decimal", "decimal(12,3)", nullable=False),
    Column("b", "float", "float", nullable=False),
    Column("c", "datetime", "datetime(6)", nullable=False),
    Column("d", "binary", "binary(12)", nullable=False),
    Column("e", "enum", "enum('y','x')", nullable=False),
    Column("f", "set", "set('y','x')", nullable=False),
)
OPTIONS = PlanOptions(charsets=TargetCharsets(lambda *_: WEIGHTS, lambda _: "".join(map(chr, range(256)))))
HERE = Location(Position("mysql-bin.000001", 4))


def task() -> SubTaskConfig:
    server = DBConfig("127.0.0.1", 3306)
    return SubTaskConfig(
        "t",
        "source-1",
        "all",
        server,
        server,
        timezone="+08:00",
        routes=(RouteRule("s_*", "d", "t_*", "t", extract_table=ExtractRule("t_(.*)", "shard")),),
        filters=(BinlogFilterRule("s_*", "t_*", ("delete", "truncate table"), ("^DROP",), "Ignore"),),
        expression_filters=(ExpressionFilter("s_1", "t_1", insert_value_expr="other > 9"),),
        column_mappings=(ColumnMappingRule("s_*", "id", "partition id", "t_*", "id", ("1", "s_", "t_")),),
        block_allow_list=BlockAllowList(("s_1",), ignore_tables=(TableName("s_1", "log"),)),
    )


def index(*columns: str, name: str = "PRIMARY") -> Index:
    return Index(name, tuple(map(IndexPart, columns)), unique=True)


def plan(upstream: TableInfo, target: TableInfo, **how: Any) -> TablePlan:
    return build(1, 0, b"", upstream, target, OPTIONS, **how)


def table(*columns: Column, keys: tuple[Index, ...] = (), name: str = "t") -> TableInfo:
    return TableInfo("d", name, columns, keys)


def plain() -> TablePlan:
    both = table(ID, V, OTHER, keys=(index("id"),))
    return plan(both, both)


def further_keys() -> TablePlan:
    both = table(ID, V, LATIN, OTHER, keys=(index("id"), index("v", "other", name="v"), index("l", name="l")))
    return plan(both, both)


def all_kinds() -> TablePlan:
    key = (index("id", *(column.name for column in KINDS)),)
    return plan(table(ID, *KINDS, keys=key), table(ID, *WIDER, keys=key))


def child() -> TablePlan:
    both = table(ID, OTHER, keys=(index("id"),), name="child")
    key = ForeignKey(("d", "child"), ("other",), ("d", "t"), ("id",))
    return plan(both, both, family=families([key])["d", "child"])


def ruled(cfg: SubTaskConfig | None = None) -> TablePlan:
    upstream = TableInfo("s_1", "t_1", (ID, OTHER, V), (index("id"),))
    shard = Column("shard", "varchar", "varchar(9)", False, False, "utf8mb4", "utf8mb4_bin")
    target = table(ID, OTHER, V, shard, keys=(index("id", "shard"),))
    return plan(upstream, target, rules=TaskRules(cfg or task()).of_table(upstream))


def affixed() -> TablePlan:
    rule = ColumnMappingRule("s_*", "v", "add prefix", "t_*", "v", ("x-",))
    return ruled(replace(task(), column_mappings=(rule,)))


def keyless() -> TablePlan:
    return plan(table(V, OTHER), table(V, OTHER))


@pytest.mark.parametrize(
    ("make", "whole", "placement"),
    [
        (plain, "3638237e4393234a3f0a66fe61fe1dce", "c33cedce35493fc82dfad8ee5206e23e"),
        (further_keys, "95fcc91319c9c2fe6c1e6ac185f4977f", "c33cedce35493fc82dfad8ee5206e23e"),
        (all_kinds, "eaedb5bbfcdc452f1cd21be30b079827", "c33cedce35493fc82dfad8ee5206e23e"),
        (child, "99e98f5d40e83349c791007df2b75dab", "c33cedce35493fc82dfad8ee5206e23e"),
        (ruled, "eb5c91775f2ce7251a93992f66ebd9dd", "c33cedce35493fc82dfad8ee5206e23e"),
        (affixed, "1baf5b5f35428b5bf63b445c6d53ed93", "c33cedce35493fc82dfad8ee5206e23e"),
        (keyless, "bb125df09cbc9833356bd83e3045061f", "e87539b792443db9eec59fccec5b5596"),
    ],
)
def test_the_plan_of_a_batch_under_way_is_the_same_after_an_upgrade(
    make: Callable[[], TablePlan], whole: str, placement: str
) -> None:
    batch = Batch(HERE, HERE, [], {1: make()}, 0, 0, 0)
    assert (batch.fingerprint(4, b"s"), batch.keyless_fingerprint(4)) == (whole, placement)


def test_neighbours_in_one_bucket_are_so_after_an_upgrade() -> None:
    by_block = plain().by_block()
    assert by_block is not None
    assert blake2b(by_block.fingerprint(), digest_size=16).hexdigest() == "fafb72c067c39030c04cde8d8827a71b"


def test_the_rules_of_a_batch_under_way_are_the_same_after_an_upgrade() -> None:
    assert (
        blake2b(stored_text(TaskRules(task()).settings).encode(), digest_size=16).hexdigest()
        == "b2c864ecd0a29fd1e513feb6cfa81729"
    )


def test_a_finished_dump_is_taken_after_an_upgrade() -> None:
    assert fingerprint(task()) == "dc48b1bc0b3879640779ed3600222fd6"
