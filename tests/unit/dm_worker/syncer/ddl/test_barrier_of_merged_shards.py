"""An order makes a shard of the merged table, or rows after it get a structure that they do not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dm_worker.syncer.ddl.statement_effect import StatementEffect
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg.binlog import constants as c
from pkg.binlog.table_map import TableMap
from pkg.errors import DMError
from pkg.errors.workarounds import way_on
from pkg.ha.binlog_operator import BinlogOperator, position_name
from pkg.mysql.schema import Column, TableInfo
from pkg.rules.model import BinlogFilterRule, RouteRule
from tests.unit.dm_worker.syncer.ddl.barrier_world import (
    NOWHERE,
    World,
)


def merging(sql: str, **task: Any) -> World:
    """d.a and d.b merge into m.t."""
    routes = (RouteRule("d", "m", "[ab]*", "t"), RouteRule("d", "m"))
    return World(sql, shards="ab", shard_mode="pessimistic", routes=routes, **task)


@pytest.mark.parametrize("sql", ["ALTER TABLE a ADD n INT", "ALTER SEQUENCE s RESTART 5"])
@pytest.mark.parametrize("given", ["ALTER TABLE m.t ADD n INT", "CREATE INDEX n ON m.t (id)"])
def test_an_order_about_the_merged_table_does_not_make_it_a_shard(sql: str, given: str) -> None:
    """Nothing would ever change it upstream, so that its group would wait for it forever."""
    world = merging(sql)
    world.give("replace", given)
    error = world.stopped()
    assert (error.code, "binlog skip" in way_on(error, "t", "s")) == (11118, True)
    assert "`m`.`t` is not one of the upstream tables" in error.message
    assert world.groups.groups["m", "t"].members.keys() == {("d", "a"), ("d", "b")}
    # One that the statement itself makes is.
    world.meet("CREATE TABLE c (id INT DEFAULT NEXTVAL(s))")
    world.give("replace", "CREATE TABLE d.c (id INT)", "ALTER TABLE d.c ADD n INT")
    world.run()
    assert world.groups.groups["m", "c"].in_sync


@pytest.mark.parametrize("given", ["DROP TABLE d.a", "TRUNCATE d.a", "RENAME TABLE d.a TO d.a2", "DROP DATABASE d"])
@pytest.mark.parametrize("kind", ["replace", "inject"])
def test_an_order_of_which_nothing_would_come_is_refused(given: str, kind: str) -> None:
    """The target's table has the rows of other shards too. An operator must not take it for done."""
    world = merging("ALTER TABLE a ADD n INT")
    world.give(kind, "CREATE DATABASE x", given)
    error = world.stopped()
    assert (error.code, "binlog skip" in way_on(error, "t", "s"), world.executed) == (11118, True, [])
    assert f"the target does not get {given}" in error.message
    # In place of itself it is what a shard does: not for the target, but followed.
    world = merging(given)
    world.give("replace", given)
    world.run()
    assert (world.executed, world.sharding.knows(("d", "a"))) == ([], given == "TRUNCATE d.a")


def read_again(world: World, first: BinlogStatement) -> None:
    """All shards have run what d.a ran first; the rows that it has held back since are read again."""
    world.groups.hold(("d", "a"), 1)
    world.sharding.stored(world.sharding.take_changes())
    statements = world.groups.groups["m", "t"].ddls[0].statements
    (settle,) = world.groups.resolve(("m", "t"), statements, execute=True, revision=1)
    assert isinstance(settle, SettleDDL)
    world.groups.settled(("m", "t"), world.statement.end)
    world.sharding.met_again(first)


def rows_of_a(columns: int) -> TableMap:
    return TableMap(7, "d", "a", bytes([c.TYPE_LONG] * columns), (0,) * columns, (True,) * columns)


def test_rows_after_a_statement_that_was_not_followed_are_read_again_as_an_operator_orders() -> None:
    """Their structure as the groups know it is older than the statement: nothing else could change it."""
    world = merging("ALTER TABLE a ADD n INT")
    world.run()
    first = world.statement
    world.meet("ALTER SEQUENCE s RESTART 5")
    world.give("skip")
    world.run()
    world.meet("ALTER TABLE b ADD n INT")
    world.run()
    read_again(world, first)
    assert len(world.sharding.structure(rows_of_a(2)).columns) == 2
    with pytest.raises(DMError) as caught:
        world.sharding.structure(rows_of_a(3))
    assert (caught.value.code, "binlog-schema" in way_on(caught.value, "t", "s")) == (36027, True)
    told = TableInfo("d", "a", tuple(Column(name, "int", "int(11)") for name in ("id", "n", "k")))
    world.tracker.set_table(told)
    assert world.sharding.structure(rows_of_a(3)) == told
    assert len(world.sharding.structure(rows_of_a(2)).columns) == 2
    # Nor was any known when the groups received it.
    assert world.sharding.reread is not None
    world.sharding.reread.open["d", "a"] = ""
    assert world.sharding.structure(rows_of_a(3)) == told


@pytest.mark.parametrize("filtered", [True, False])
def test_rows_after_a_swap_that_is_left_out_have_the_ghost_tables_structure(filtered: bool) -> None:
    world = merging(
        "ALTER TABLE a ADD n INT",
        online_ddl=True,
        filters=(BinlogFilterRule("d", "*", (), ("ADD k INT",), "Ignore"),) if filtered else (),
    )
    world.run()
    first = world.statement
    for sql in (
        "CREATE TABLE _a_gho LIKE a",
        "ALTER TABLE _a_gho ADD k INT",
        "RENAME TABLE a TO _a_del, _a_gho TO a",
        "ALTER TABLE b ADD n INT",
    ):
        world.meet(sql)
        if "RENAME" in sql and not filtered:
            world.give("skip")
        world.run()
    read_again(world, first)
    assert len(world.sharding.structure(rows_of_a(2)).columns) == 2
    swap = world.groups.groups["m", "t"].members["d", "a"].steps[0].changes
    assert len(swap) == 1
    world.groups.met(swap[0][0].key, NOWHERE)
    assert [column.name for column in world.sharding.structure(rows_of_a(3)).columns] == ["id", "n", "k"]


ADD_A, ADD_B = (("ALTER TABLE `m`.`t` ADD COLUMN `n` INT",), ("ALTER TABLE `m`.`t` ADD COLUMN `k` INT",))


@pytest.mark.parametrize(
    ("sql", "kind", "given"),
    [
        # d.b has run the first one unlogged, or in other words, or both at once.
        ("ALTER TABLE b ADD k INT", "inject", ["ALTER TABLE d.b ADD n INT"]),
        ("ALTER TABLE b ADD k INT", "replace", ["ALTER TABLE d.b ADD n INT", "ALTER TABLE d.b ADD k INT"]),
        ("ALTER TABLE b ADD n INT, ADD k INT", "replace", ["ALTER TABLE d.b ADD n INT", "ALTER TABLE d.b ADD k INT"]),
        ("ALTER SEQUENCE s RESTART 5", "replace", ["ALTER TABLE d.b ADD n INT", "ALTER TABLE d.b ADD k INT"]),
        ("CREATE TABLE other.x (id INT)", "inject", ["ALTER TABLE d.b ADD n INT", "ALTER TABLE d.b ADD k INT"]),
    ],
)
def test_each_statement_of_an_order_is_a_ddl_of_its_own(sql: str, kind: str, given: list[str]) -> None:
    """So that a shard can be brought up to what another one ran one after the other."""
    world = merging("ALTER TABLE a ADD n INT")
    world.run()
    world.meet("ALTER TABLE a ADD k INT")
    world.run()
    world.meet(sql)
    world.give(kind, *given)
    world.run()
    group = world.groups.groups["m", "t"]
    assert [ddl.statements for ddl in group.ddls] == [ADD_A, ADD_B]
    assert {name: len(life.steps) for name, life in group.members.items()} == {("d", "a"): 2, ("d", "b"): 2}
    if "b ADD" in sql:
        behind = world.tracker.table("d", "b")
        assert behind is not None
        assert group.members["d", "b"].steps[-1].structure == behind.renamed("", "").to_json()


def test_what_is_injected_before_a_table_that_its_statement_fills_is_reported_to_the_groups() -> None:
    world = merging("CREATE TABLE a2 (id INT)")
    world.statement = replace(world.statement, end=world.statement.start)
    assert world.statement.inside
    world.give("inject", "ALTER TABLE d.a ADD n INT", "ALTER TABLE d.b ADD n INT")
    group = world.groups.group_of(("d", "a"))
    # Its transaction is broken off after it, and starts over.
    for _ in range(2):
        world.run()
        assert [len(group.members["d", name].steps) for name in ("a", "b")] == [1, 1]
        assert [ddl.statements for ddl in group.ddls] == [ADD_A]


@pytest.mark.parametrize(
    ("sql", "code"),
    [("ALTER TABLE a ADD n INT, RENAME TO a2", 36068), ("ALTER TABLE _a_gho ADD n INT, RENAME TO a", 36043)],
)
def test_a_change_with_a_renaming_can_be_skipped(sql: str, code: int) -> None:
    world = merging("CREATE TABLE _a_gho (id INT)", online_ddl=True)
    world.run()
    world.meet(sql)
    assert world.stopped().code == code
    world.give("skip")
    world.run()
    assert not world.groups.groups["m", "t"].ddls


def test_a_ddl_that_is_settled_needs_its_order_until_that_is_stored() -> None:
    """The order may be that it is left out: without it, the next run would execute what this one has left out."""
    world = merging("ALTER TABLE a ADD n INT")
    sharding, target = world.sharding, ("m", "t")
    sharding.stored(sharding.take_changes())
    assert sharding.oldest_needed is None
    place = world.statement.start
    world.run()
    assert sharding.oldest_needed == place, "stored or not"
    sharding.stored(sharding.take_changes())
    world.meet("ALTER TABLE b ADD n INT")
    world.run()
    sharding.stored(sharding.take_changes())
    (sharding.settle,) = world.groups.resolve(target, ADD_A, execute=True, revision=1)  # type: ignore[assignment]
    sharding.settled(world.statement.end)
    assert not world.groups.groups[target].ddls
    changes = sharding.take_changes()
    assert sharding.oldest_needed == place
    sharding.put_back(changes)
    assert sharding.oldest_needed == place
    sharding.stored(sharding.take_changes())
    assert sharding.oldest_needed is None


def settled(world: World) -> SettleDDL:
    """The DDL that both shards have run."""
    world.run()
    world.meet("ALTER TABLE b ADD n INT")
    world.run()
    (settle,) = world.groups.resolve(("m", "t"), ADD_A, execute=True, revision=1)
    assert isinstance(settle, SettleDDL)
    return settle


def test_a_ddl_that_all_shards_have_run_can_be_replaced() -> None:
    world = merging("ALTER TABLE a ADD n INT")
    settle = settled(world)
    world.session.refused = "`n` INT"
    with pytest.raises(DMError) as caught:
        world.settle(settle)
    assert f"startLocation: [position: {settle.at}, " in caught.value.message
    assert f"endLocation: [position: {settle.key}, " in caught.value.message
    assert f"dmctl binlog replace t -s s -b {position_name(settle.at)}" in way_on(caught.value, "t", "s")
    world.order = BinlogOperator(
        "replace", "t", "s", position_name(settle.at), ("ALTER TABLE d.a ADD n BIGINT", "ALTER TABLE d.b ADD k INT")
    )
    for _ in range(2):
        # A run that crashed does not execute it again.
        record, effect = world.settle(settle)
        assert record is not None
        assert effect == StatementEffect(True, tables=frozenset({("m", "t")}))
        world.store.records[record.index] = record
    assert world.executed == ["ALTER TABLE m.t ADD n BIGINT", "ALTER TABLE m.t ADD k INT"]


def test_the_merged_table_of_a_ddl_that_is_left_out_may_have_been_changed_by_hand() -> None:
    world = merging("ALTER TABLE a ADD n INT")
    settle = settled(world)
    world.order = BinlogOperator("skip", "t", "s", position_name(settle.at))
    assert world.settle(settle) == (None, StatementEffect(tables=frozenset({("m", "t")}), about_keys=True))
    assert world.executed == []


def test_what_an_order_gave_to_the_shards_is_not_given_again_when_it_is_settled() -> None:
    world = merging("ALTER TABLE a ADD n INT")
    settle = settled(world)
    texts = ("ALTER TABLE d.a ADD n INT", "ALTER TABLE d.a ADD k INT")
    world.order = BinlogOperator("replace", "t", "s", position_name(settle.at), texts)
    world.settle(settle)
    assert world.executed == ["ALTER TABLE m.t ADD COLUMN n INT"]
