"""A changed order repeats what was executed or loses what is due; a crash between two parts does."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dm_worker.syncer.checkpoint.ddl_table import DDLRecord
from dm_worker.syncer.ddl.known_keys import ANY_TABLE
from dm_worker.syncer.ddl.operator_orders import (
    STRIDE,
    OrderDecision,
)
from dm_worker.syncer.ddl.ordered_statements import DECISION
from dm_worker.syncer.ddl.statement_effect import StatementEffect
from pkg.binlog import constants as c
from pkg.binlog.position import Position
from pkg.errors import Code
from pkg.errors.workarounds import way_on
from pkg.rules.model import BinlogFilterRule
from tests.unit.dm_worker.syncer.ddl.barrier_world import (
    ORDERS,
    OWN,
    Crash,
    World,
    order,
    planned,
)
from tests.unit.dm_worker.syncer.planning.support import Log


# Begun, perhaps executed or not, when another order comes.
@example([(("",), 0, True)], ("inject", "ALTER TABLE d.x1 ADD INDEX (id)"))
@example([(("",), 1, True)], ("inject", "ALTER TABLE d.x1 ADD INDEX (id)"))
@given(st.lists(st.tuples(ORDERS, st.integers(0, 12), st.booleans()), max_size=5), ORDERS)
def test_changed_orders_and_crashes_run_each_statement_as_often_as_it_is_due(
    spells: list[tuple[tuple[str, ...], int, bool]], last: tuple[str, ...]
) -> None:
    world = World("DROP TABLE a, b, c")
    due: list[str] = []
    begun = 0
    for (kind, *statements), steps, behind in [*spells, (last, 1000, False)]:
        world.give(kind, *statements)
        decided, already = world.store.records.get(DECISION), len(world.given())
        with suppress(Crash):
            world.run(steps, behind=behind)
        if world.store.records.get(DECISION) != decided:
            # A new order, and all of its statements: nothing of an earlier one counts for it.
            begun, due = already, list(statements)
    assert world.given()[begun:] == due
    own = [sql for sql in world.executed if sql in OWN]
    assert own == OWN[: len(own)], "in order, once each"
    if last[0] in ("", "inject"):
        assert own == OWN
    assert world.tracker.tables() == [], "the structures follow the upstream, whatever the target does"


@pytest.mark.parametrize("kind", ["", "inject", "replace"])
def test_what_the_target_refused_runs_after_its_table_was_changed_by_hand(kind: str) -> None:
    world = World("DROP TABLE a, b")
    world.session.refused = "`b`"
    assert world.stopped().kind is Code.SyncerUnitHandleDDLFailed
    world.session.changes += 1  # by hand
    if kind:
        world.give(kind, "TRUNCATE TABLE d.x")
    world.session.refused = ""
    world.run()
    given, own = ["TRUNCATE TABLE d.x"] if kind else [], OWN[1:2] if kind != "replace" else []
    assert world.executed == [OWN[0], *given, *own]


ADDS = "ADD p INT", "ADD q INT", "ADD INDEX (id)", "ADD r INT"
#: One by one: the index comes when all columns are there.
ONE_BY_ONE = [f"ALTER TABLE d.a {part}" for part in ("ADD p INT", "ADD q INT", "ADD r INT", "ADD INDEX (id)")]
ADDED = ONE_BY_ONE[1:]


@pytest.mark.parametrize("order_after", ["", "inject"])
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("steps", range(10))
def test_parts_run_once_each_though_the_run_ended_between_them(steps: int, behind: bool, order_after: str) -> None:
    world = World(f"ALTER TABLE a {', '.join(ADDS)}")
    world.session.known = "ADD p "
    try:
        world.run(steps, behind=behind)
    except Crash:
        world.give(order_after, *(["TRUNCATE TABLE d.x"] if order_after else []))
        world.run()
    assert [sql for sql in world.executed if sql != "TRUNCATE TABLE d.x"] == ADDED


def test_a_part_is_tried_again_after_a_lost_connection_and_goes_on_after_it_was_refused() -> None:
    world = World(f"ALTER TABLE a {', '.join(ADDS)}")
    world.session.known, world.session.lost = "ADD p ", "ADD q"
    world.session.refused = "a` ADD r"
    assert world.stopped().kind is Code.SyncerUnitHandleDDLFailed
    assert world.executed == ADDED[:1]
    world.session.changes += 1  # by hand
    world.session.refused = ""
    world.run()
    assert world.executed == ADDED


@pytest.mark.parametrize("steps", range(12))
def test_an_alter_that_the_target_takes_only_part_by_part_runs_each_part_once(steps: int) -> None:
    world = World(f"ALTER TABLE a {', '.join(ADDS)}")
    world.session.one_part = "Unsupported multi schema change"
    try:
        world.run(steps)
    except Crash:
        world.run()
    assert world.executed == ONE_BY_ONE


@pytest.mark.parametrize("reason", ["", "Unsupported multi schema change"])
@pytest.mark.parametrize("crash", [False, True])
def test_what_the_target_goes_on_with_alone_is_waited_for_and_counts(crash: bool, reason: str) -> None:
    """Its tables are as they were when the connection is back, and change later: another run would be the second."""
    world = World("ALTER TABLE a ADD q INT, ADD INDEX (id)")
    world.session.one_part, world.session.goes_on_at = reason, "ADD INDEX"
    if crash:
        world.session.unfinished_jobs = Mock(side_effect=Crash)  # type: ignore[method-assign]
        with pytest.raises(Crash):
            world.run()
        del world.session.unfinished_jobs
    world.run()
    assert world.session.looks == 2
    assert world.executed == (
        ["ALTER TABLE d.a ADD q INT", "ALTER TABLE d.a ADD INDEX (id)"]
        if reason
        else ["ALTER TABLE d.a ADD q INT, ADD INDEX (id)"]
    )


def test_an_order_waits_for_what_the_target_goes_on_with() -> None:
    world = World("ALTER TABLE a ADD INDEX (id)")
    world.session.goes_on_at = "ADD INDEX"
    world.session.unfinished_jobs = Mock(side_effect=Crash)  # type: ignore[method-assign]
    with pytest.raises(Crash):
        world.run()
    del world.session.unfinished_jobs
    world.give("inject", "TRUNCATE TABLE d.x")
    world.run()
    assert world.executed == ["ALTER TABLE d.a ADD INDEX (id)", "TRUNCATE TABLE d.x"]


def test_parts_that_an_earlier_version_began_go_on_in_its_order() -> None:
    """It had run the renaming first: what is left of the text is left of the statement."""
    world = World("ALTER TABLE a ADD INDEX (id), ADD q INT")
    text = "ALTER TABLE `d`.`a` ADD INDEX (id), ADD q INT"
    world.store.records[0] = DDLRecord(world.statement.position, 0, text, "", part=1, in_text_order=True)
    world.run()
    assert world.executed == ["ALTER TABLE d.a ADD q INT"]


def test_an_alter_with_a_part_that_the_target_never_takes_is_not_begun() -> None:
    world = World(f"ALTER TABLE a {', '.join(ADDS)}")
    world.session.one_part = "Unsupported modify column: can't set auto_increment"
    assert world.stopped().kind is Code.SyncerUnitHandleDDLFailed
    assert world.executed == []


def test_the_error_names_the_commands_and_the_position() -> None:
    world = World("DROP TABLE a, b")
    world.session.refused = "`b`"
    shown = way_on(world.stopped(), "t", "s")
    assert f"dmctl binlog skip t -s s -b bin.000001:{world.statement.at.pos}" in shown
    assert "the statement can run, then `dmctl resume-task t -s s`" in shown


def test_the_place_is_the_event_and_not_the_gtid_before_it() -> None:
    world = World("DROP TABLE a")
    world.session.refused = "`a`"
    behind_gtid = replace(world.statement, position=Position("bin.000001", world.statement.event.size + 46))
    world.statement = behind_gtid
    assert world.statement.start.position.pos == 4
    assert "startLocation: [position: (bin.000001, 46)" in world.stopped().message


def test_what_is_injected_comes_first() -> None:
    world = World("DROP TABLE a")
    world.give("inject", "TRUNCATE d.x", "ALTER TABLE d.y DROP COLUMN p, DROP COLUMN q", "TRUNCATE d.z")
    world.run()
    own_statements = ["TRUNCATE d.x", "ALTER TABLE d.y DROP COLUMN p, DROP COLUMN q", "TRUNCATE d.z"]
    assert world.executed == [*own_statements, OWN[0]]
    assert sorted(world.store.records) == [DECISION, 0, STRIDE, STRIDE + 1, STRIDE + 3]


@pytest.mark.parametrize("kind", ["skip", "replace"])
def test_a_statement_that_is_not_understood_can_be_passed(kind: str) -> None:
    world = World("ALTER SEQUENCE s RESTART 5")
    assert world.stopped().kind is Code.SyncerParseDDL
    statements = ["ALTER TABLE d.a ADD COLUMN n INT"] if kind == "replace" else []
    world.give(kind, *statements)
    world.run()
    assert world.executed == statements
    table = world.tracker.table("d", "a")
    # Nothing else shows what the upstream did.
    assert table is not None
    assert len(table.columns) == 1 + len(statements)


@pytest.mark.parametrize("kind", ["skip", "replace"])
def test_a_statement_that_the_known_structure_does_not_fit_can_be_passed(kind: str) -> None:
    world = World("ALTER TABLE a DROP COLUMN nothing")
    world.give(kind, *(["TRUNCATE d.x"] if kind == "replace" else []))
    world.run()
    assert world.executed == (["TRUNCATE d.x"] if kind == "replace" else [])


@pytest.mark.parametrize("kind", ["", "skip"])
def test_the_structures_follow_after_a_lost_connection_to_the_upstream(kind: str) -> None:
    world = World("CREATE TABLE n (v CHAR(1))")
    world.give(kind)
    world.upstream_lost = True
    assert world.stopped().retryable
    world.run()
    table = world.tracker.table("d", "n")
    assert table is not None
    assert table.columns[0].charset == "latin2"


def test_event_filters_decide_on_the_statement_but_not_on_what_an_operator_gives() -> None:
    world = World("TRUNCATE a", BinlogFilterRule("*", "*", ("truncate table",), (), "Ignore"))
    world.give("inject", "TRUNCATE d.x")
    world.run()
    assert world.executed == ["TRUNCATE d.x"]


def test_an_operators_sql_is_read_without_the_sql_mode_of_the_event() -> None:
    log = Log()
    ansi_quotes = struct.pack("<BQ", 1, 4 | 1 << 22)
    head = struct.pack("<IIBHH", 7, 0, 1, 0, len(ansi_quotes))
    log.add(c.QUERY_EVENT, head + ansi_quotes + b"d\0" + b'DROP TABLE "a"')
    world = World("DROP TABLE a")
    (world.statement,) = planned(log)
    text = 'ALTER TABLE d.x COMMENT "quoted"'
    world.give("inject", text)
    world.run()
    assert world.executed == [text, OWN[0]]
    assert [session.sql_mode for session in world.session.sessions] == [1 << 22, 4 | 1 << 22]


def test_the_same_order_given_again_goes_on_where_it_was() -> None:
    first = OrderDecision().under(order("replace", 4, "DROP TABLE d.x"))
    assert first.under(order("replace", 4, "DROP TABLE d.x")) is first
    assert OrderDecision.from_json(first.to_json()) == first
    assert first.under(None).generation == 2


OF_A, OF_D = frozenset({("d", "a")}), frozenset({("d", "")})


def test_the_effect_is_that_of_what_ran_at_the_target() -> None:
    world = World("ALTER TABLE a ADD COLUMN n INT")
    assert world.run() == StatementEffect(True, OF_A, OF_A, about_keys=False)
    replaced = World("ALTER TABLE a ADD COLUMN n INT")
    replaced.give("replace", "ALTER TABLE d.x1 ADD FOREIGN KEY (id) REFERENCES d.y (id)")
    assert replaced.run() == StatementEffect(True, OF_A, frozenset({("d", "x1"), ("d", "y")}), about_keys=True)
    skipped = World("ALTER TABLE a ADD COLUMN n INT")
    skipped.give("skip")
    assert skipped.run() == StatementEffect(True, OF_A)
    assert World("DROP DATABASE d").run() == StatementEffect(True, OF_D, OF_D, about_keys=True)


def test_a_statement_that_the_target_does_not_get_changes_keys_upstream() -> None:
    world = World("RENAME TABLE a TO b", BinlogFilterRule("*", "*", ("rename table",), (), "Ignore"))
    assert world.run() == StatementEffect(True, frozenset({("d", "a"), ("d", "b")}), about_keys=True)


def test_a_statement_that_is_not_understood_may_name_any_table() -> None:
    world = World("FROBNICATE TABLE a DROP b")
    world.give("skip")
    assert world.run().named == {ANY_TABLE}
