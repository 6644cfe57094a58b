"""Hazards: an order hits a neighbour's statement; a changed order repeats what was done or loses what is due."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dm_worker.syncer.checkpoint.ddl_table import DDLRecord, ShownTables
from dm_worker.syncer.checkpoint.protocol import DDL, BatchProgress
from dm_worker.syncer.ddl.barrier import DDLBarrier
from dm_worker.syncer.ddl.executor import DDLExecutor
from dm_worker.syncer.ddl.operator_orders import (
    STRIDE,
    OrderDecision,
    checked,
    in_order,
    listing,
    meeting,
    outdated,
    parse_place,
)
from dm_worker.syncer.ddl.ordered_statements import DECISION
from dm_worker.syncer.ddl.session import StatementFailed
from dm_worker.syncer.ddl.variables import TargetSession, UpstreamSession
from dm_worker.syncer.online_ddl.ghost_records import GhostRecord
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.syncer.shard_ddl.initial_groups import new_groups
from dm_worker.syncer.shard_ddl.lock_client import LockClient, LockService
from dm_worker.syncer.shard_ddl.sharding import Sharding
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg import ddl, errors
from pkg.binlog import constants as c
from pkg.binlog.events import Query
from pkg.binlog.position import Location, Position
from pkg.binlog.table_map import TableMap
from pkg.config.model import SubTaskConfig
from pkg.ddl import DDLKind
from pkg.errors import Code, DMError
from pkg.ha.binlog_operator import BinlogOperator
from pkg.mysql.schema import Column, TableInfo
from pkg.rules.model import BinlogFilterRule, RouteRule
from pkg.rules.online_tables import OnlineTables
from pkg.schema_tracker import ServerDefaults
from pkg.settings.connections import DBConfig
from tests.unit.dm_worker.syncer.planning.support import Log, feed

NOWHERE = Location(Position("bin.000001", 4))


def order(kind: str, pos: int, *statements: str, file: str = "bin.000001") -> BinlogOperator:
    return BinlogOperator(kind, "t", "s", f"{file}:{pos}", statements)  # type: ignore[arg-type]


def planned(log: Log) -> list[BinlogStatement]:
    planner = Planner(NOWHERE)
    taken = 0
    while taken < len(log.events):
        taken += feed(planner, log.events[taken:])
    return [item for item in planner.out if isinstance(item, BinlogStatement)]


# -- which statement an order is for ---------------------------------------------------------------------------------


def log_with_statements() -> Log:
    """Three statements with their GTID events and a transaction around them, then two inside one transaction."""
    log = Log()
    for sql in (b"CREATE TABLE a (id INT)", b"DROP TABLE b", b"DROP TABLE c"):
        log.transaction([1])
        log.add(c.ANONYMOUS_GTID_EVENT, bytes(25))
        log.query(sql)
    log.query(b"BEGIN")
    log.query(b"INSERT INTO a VALUES (1)")
    log.query(b"INSERT INTO a VALUES (2)")
    log.query(b"COMMIT")
    return log


def test_every_position_means_at_most_one_statement() -> None:
    log = log_with_statements()
    statements = planned(log)
    assert len(statements) == 5
    meant = {
        pos: [n for n, one in enumerate(statements) if meeting(one, [order("skip", pos)])]
        for pos in range(4, log.offset + 50)
    }
    assert all(len(found) <= 1 for found in meant.values())
    starts = {event.log_pos - event.size: event for event in log.events}
    for number, statement in enumerate(statements):
        # The event's own start, and where its GTID stands, as SHOW BINLOG EVENTS and the error tell them.
        assert meant[statement.at.pos] == [number]
        assert starts[statement.at.pos] is statement.event
        assert meant[statement.place.pos] != [number], "where it ends the next one begins"
        if number < 3:
            assert statement.first == statement.start.position
            assert meant[statement.first.pos] == [number]


def test_of_two_orders_the_nearest_to_the_event_counts_and_another_file_does_not() -> None:
    statement = planned(log_with_statements())[0]
    near, far = order("skip", statement.at.pos), order("replace", statement.first.pos, "DROP TABLE d.x")
    assert meeting(statement, [far, near]) == near
    assert meeting(statement, [near, far]) == near
    assert meeting(statement, [order("skip", statement.at.pos, file="bin.000002")]) is None


def test_what_a_damaged_order_asked_for_is_not_guessed() -> None:
    statement = planned(log_with_statements())[0]
    damaged = order("damaged", statement.at.pos, "etcd holds ''")
    with pytest.raises(DMError, match="can't be read: etcd holds") as caught:
        meeting(statement, [damaged])
    assert caught.value.kind is Code.HAInvalidItem
    assert meeting(statement, [order("damaged", statement.at.pos, "x", file="bin.000002")]) is None
    assert listing([damaged]) == f'[{{"task":"t","binlogPos":"{damaged.position}","error":"etcd holds \'\'"}}]'


def test_orders_are_listed_by_position_and_go_when_the_checkpoint_is_behind() -> None:
    late, early, other = order("skip", 900), order("inject", 80, "DROP TABLE d.x"), order("skip", 5, file="bin.000002")
    known = [other, late, early]
    assert in_order(known) == [early, late, other]
    assert in_order(known, Position("bin.000001", 900)) == [late, other]
    assert outdated(known, Position("bin.000001", 900)) == [early]
    assert listing([early, late]) == (
        '[{"op":4,"task":"t","binlogPos":"bin.000001:80","sqls":["DROP TABLE d.x"]},'
        '{"op":1,"task":"t","binlogPos":"bin.000001:900"}]'
    )
    assert BinlogOperator.from_json(early.to_json()) == early


@pytest.mark.parametrize("text", ["mysql-bin|000001.000003:3270", "mysql-bin.000003:3270", "(mysql-bin.000003, 3270)"])
def test_positions_are_taken_in_every_form(text: str) -> None:
    assert parse_place(text) == Position("mysql-bin.000003", 3270)


@pytest.mark.parametrize("text", ["mysql-bin.000003", ":4", "x"])
def test_another_text_is_no_position(text: str) -> None:
    with pytest.raises(DMError, match="is not valid") as caught:
        parse_place(text)
    assert caught.value.kind is Code.VerifyHandleErrorArgs


@pytest.mark.parametrize(
    ("text", "problem", "code"),
    [
        ("ALTER TABLE d.t ADD COLUMN", "statement 2 of 2: .*at its end", 11118),
        ("ALTER TABLE t ADD COLUMN", "statement 2 of 2: .*offset 12.* has no schema", 11118),
        ("ALTER TABLE t ADD COLUMN c INT", "statement 2 of 2: .*offset 12.* has no schema", 36024),
        ("ALTER DATABASE COLLATE latin1_bin", "statement 2 of 2: .*no schema is named", 36024),
        ("INSERT INTO d.t VALUES (1)", "statement 2 of 2: only ROW format", 36023),
        ("CREATE VIEW d.v AS SELECT 1", "statement 2 of 2 is not a DDL", 36023),
        ("DROP TABLE d.a; DROP TABLE d.b", "unexpected text", 11118),
    ],
)
def test_a_wrong_statement_is_refused_with_its_place(text: str, problem: str, code: int) -> None:
    with pytest.raises(DMError, match=problem) as caught:
        checked(["DROP TABLE d.x", text])
    assert caught.value.code == code
    assert caught.value.workaround


# -- what a statement comes to ---------------------------------------------------------------------------------------


class Crash(Exception):
    """The process ends."""


class Chance:
    """Ends the process at a durable step: before it, or right behind it."""

    def __init__(self) -> None:
        self.left, self.behind = 1000, False

    def step(self, effect: Callable[[], None]) -> None:
        if not self.left and not self.behind:
            raise Crash
        effect()
        if not self.left:
            raise Crash
        self.left -= 1


class Store:
    """The records as the target keeps them."""

    def __init__(self, chance: Chance) -> None:
        self.records: dict[int, DDLRecord] = {}
        self._chance = chance

    def read_ddl(self, place: Position, index: int) -> DDLRecord | None:
        return self.records.get(index)

    def read_ddls(self, place: Position) -> list[DDLRecord]:
        return list(self.records.values())

    def write(self, intent: BatchProgress, *, ddl: DDLRecord, through: object = None) -> None:
        self._chance.step(lambda: self.records.update({ddl.index: ddl}))

    @staticmethod
    def remember(ghosts: dict[tuple[str, str], GhostRecord | None]) -> None:
        """No test here restarts in the middle of an online change."""


class Session:
    """A target whose tables show what was executed on them, and what was done by hand to all of them."""

    def __init__(self, chance: Chance) -> None:
        self.executed: list[str] = []
        self.refused = ""
        #: What there is already, and what a connection is lost at, once.
        self.known = self.lost = ""
        #: What a server says that takes only one part of an ALTER TABLE at a time; '' for one that takes all.
        self.one_part = ""
        self.sessions: list[Query] = []
        self.changes = 0
        self._chance = chance

    def execute(self, sql: str, kind: DDLKind, query: Query, timestamp: int, upstream: UpstreamSession) -> None:
        if self.refused and self.refused in sql:
            raise StatementFailed(1062, errors.new(Code.DBExecuteFailed, "Error 1062: told to refuse"))
        if self.one_part and ", " in sql:
            raise StatementFailed(8200, errors.new(Code.DBExecuteFailed, "refused", raw=f"Error 8200: {self.one_part}"))
        if self.known and self.known in sql:
            raise StatementFailed(1060, errors.new(Code.DBExecuteFailed, "Error 1060: told to know it"))
        if self.lost and self.lost in sql and self.known not in sql:
            self.lost = ""
            raise errors.new(Code.DBBadConn, "told to lose the connection", retryable=True)
        self._chance.step(lambda: self._effect(sql.replace("`", ""), query))

    def _effect(self, sql: str, query: Query) -> None:
        self.executed.append(sql)
        self.sessions.append(query)

    def shown(self, names: Iterable[tuple[str, str]], *, ids: bool) -> ShownTables:
        return ShownTables(tuple(self._text(f"{schema}.{table}") for schema, table in names))

    def _text(self, name: str) -> str:
        about = [sql for sql in self.executed if name in sql.split()]
        return "" if about and about[-1].startswith("DROP") else f"{self.changes} changes by hand; {'; '.join(about)}"

    def transaction(self, work: Callable[[Any], None]) -> None:
        """Nothing is read back."""

    @staticmethod
    def leads_to(
        statement: ddl.DDLStatement, targets: object, before: Iterable[str], after: Iterable[str], execute: object
    ) -> bool:
        """What trying the statement tells."""
        sql = statement.sql.replace("`", "")
        return [f"{text}{sql if text.endswith(' ') else f'; {sql}'}" for text in before] == list(after)

    @staticmethod
    def target() -> TargetSession:
        return TargetSession("mysql", (8, 0, 12))

    @staticmethod
    def table(schema: str, table: str) -> TableInfo | None:
        return None

    @staticmethod
    def has_rows(schema: str, table: str, condition: str = "TRUE") -> bool:
        return True


class World:
    """One statement, handled by runs that end anywhere, under orders that come and go."""

    def __init__(self, sql: str, *filters: BinlogFilterRule, shards: str = "", **task: Any) -> None:
        """``shards``: the tables that merge, a letter each; ``task``: more of the subtask's configuration."""
        self._log = Log()
        server = DBConfig("h", 1)
        cfg = SubTaskConfig("t", "s", "all", server, server, filters=filters, online_ddl=False)
        cfg = replace(cfg, **task)
        missing: Path | None = None
        source = SchemaSource(
            server=ServerDefaults(),
            dump_files=lambda *_: missing,
            upstream=lambda *_: None,
            target=lambda *_: None,
            schema_charset=self._schema_charset,
        )
        source.restore([TableInfo("d", name, (Column("id", "int", "int(11)"),)) for name in "abc"])
        self.tracker = source.tracker
        self.chance = Chance()
        self.store = Store(self.chance)
        self.session = Session(self.chance)
        self.order: BinlogOperator | None = None
        self.meet(sql)
        rules = TaskRules(cfg)
        self.groups = new_groups([("d", name) for name in shards], rules.route)
        self.link = LockClient(cast(LockService, None), "t", "s")
        self.sharding = Sharding(
            self.groups,
            self.link,
            source,
            takes_rows=rules.takes_rows,
            task="t",
            source_id="s",
            changed=self.groups.groups,
        )
        self.upstream_lost = False
        self._on_statement = DDLBarrier(
            cfg,
            rules=rules,
            source=source,
            online=OnlineDDL(OnlineTables.of(cfg)),
            store=self.store,  # type: ignore[arg-type]
            executor=DDLExecutor(
                store=self.store,  # type: ignore[arg-type]
                session=self.session,  # type: ignore[arg-type]
                trial=self.session,  # type: ignore[arg-type]
                target_flavor="mysql",
                upstream=UpstreamSession("mysql"),
                should_stop=lambda: False,
            ),
            system_zone=lambda _: "+00:00",
            orders=lambda: [self.order] if self.order else [],
            sharding=self.sharding if shards else None,
        )

    def meet(self, sql: str) -> None:
        """The statement that is handled from now on."""
        self._log.query(sql.encode())
        self.statement = planned(self._log)[-1]
        self.store.records.clear()
        self.order = None

    def _schema_charset(self, _: str) -> tuple[str, str]:
        """What the upstream answers, or that it is not there, once."""
        if self.upstream_lost:
            self.upstream_lost = False
            raise errors.new(Code.DBBadConn, "told to lose the connection", retryable=True)
        return "latin2", "latin2_bin"

    @property
    def executed(self) -> list[str]:
        return self.session.executed

    def given(self) -> list[str]:
        """What was executed of orders."""
        return [sql for sql in self.executed if sql not in OWN]

    def give(self, kind: str, *statements: str) -> None:
        self.order = order(kind, self.statement.at.pos, *statements) if kind else None

    def run(self, steps: int = 1000, *, behind: bool = False) -> None:
        """Ends at this durable step, or behind it."""
        self.chance.left, self.chance.behind = steps, behind
        self._on_statement.execute(self.statement, BatchProgress(1, 1, DDL, NOWHERE, NOWHERE))

    def stopped(self) -> DMError:
        with pytest.raises(DMError) as caught:
            self.run()
        return caught.value


OWN = [f"DROP TABLE IF EXISTS d.{name}" for name in "abc"]
#: A second time they would have another effect, which only the tables tell.
_STATEMENTS = st.lists(
    st.sampled_from([f"ALTER TABLE d.x{n} ADD INDEX (id)" for n in range(6)]), min_size=1, max_size=3
)
_ORDERS = st.one_of(
    st.just(("",)),
    st.just(("skip",)),
    _STATEMENTS.map(lambda found: ("replace", *found)),
    _STATEMENTS.map(lambda found: ("inject", *found)),
)


# Begun, perhaps executed or not, when another order comes.
@example([(("",), 0, True)], ("inject", "ALTER TABLE d.x1 ADD INDEX (id)"))
@example([(("",), 1, True)], ("inject", "ALTER TABLE d.x1 ADD INDEX (id)"))
@given(st.lists(st.tuples(_ORDERS, st.integers(0, 12), st.booleans()), max_size=5), _ORDERS)
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
ADDED = [f"ALTER TABLE d.a {part}" for part in ADDS[1:]]


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
    assert world.executed == ADDED[:2]
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
    assert world.executed == [f"ALTER TABLE d.a {part}" for part in ADDS]


def test_an_alter_with_a_part_that_the_target_never_takes_is_not_begun() -> None:
    world = World(f"ALTER TABLE a {', '.join(ADDS)}")
    world.session.one_part = "Unsupported modify column: can't set auto_increment"
    assert world.stopped().kind is Code.SyncerUnitHandleDDLFailed
    assert world.executed == []


def test_the_error_names_the_commands_and_the_place() -> None:
    world = World("DROP TABLE a, b")
    world.session.refused = "`b`"
    error = world.stopped()
    assert f"dmctl binlog skip t -s s -b bin.000001:{world.statement.at.pos}" in error.workaround
    assert "TASK" not in error.workaround
    assert "resume the task" in error.workaround
    assert "startLocation" in error.message


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
    # Nothing else tells what the upstream did.
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


def test_an_operators_text_is_read_without_the_sql_mode_of_the_event() -> None:
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


# -- merged shards ---------------------------------------------------------------------------------------------------


def merging(sql: str, **task: Any) -> World:
    """d.a and d.b merge into m.t."""
    routes = (RouteRule("d", "m", "[ab]*", "t"), RouteRule("d", "m"))
    return World(sql, shards="ab", shard_mode="pessimistic", routes=routes, **task)


@pytest.mark.parametrize("sql", ["ALTER TABLE a ADD n INT", "ALTER SEQUENCE s RESTART 5"])
@pytest.mark.parametrize("given", ["ALTER TABLE m.t ADD n INT", "CREATE INDEX n ON m.t (id)"])
def test_an_order_about_the_merged_table_does_not_make_it_a_shard(sql: str, given: str) -> None:
    """Nothing would ever change it upstream, so that its group would wait for it for ever."""
    world = merging(sql)
    world.give("replace", given)
    error = world.stopped()
    assert (error.code, "binlog skip" in error.workaround) == (11118, True)
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
    assert (error.code, "binlog skip" in error.workaround, world.executed) == (11118, True, [])
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


def test_rows_behind_a_statement_that_was_not_followed_are_read_again_as_an_operator_tells() -> None:
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
    assert (caught.value.code, "binlog-schema" in caught.value.workaround) == (36027, True)
    told = TableInfo("d", "a", tuple(Column(name, "int", "int(11)") for name in ("id", "n", "k")))
    world.tracker.set_table(told)
    assert world.sharding.structure(rows_of_a(3)) == told
    assert len(world.sharding.structure(rows_of_a(2)).columns) == 2
    # Nor was any known when the groups were told.
    assert world.sharding.reread is not None
    world.sharding.reread.open["d", "a"] = ""
    assert world.sharding.structure(rows_of_a(3)) == told


@pytest.mark.parametrize("filtered", [True, False])
def test_rows_behind_a_swap_that_is_left_out_have_the_ghost_tables_structure(filtered: bool) -> None:
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


def test_what_is_injected_before_a_table_that_its_statement_fills_is_told_the_groups() -> None:
    world = merging("CREATE TABLE a2 (id INT)")
    world.statement = replace(world.statement, end=world.statement.start)
    assert world.statement.inside
    world.give("inject", "ALTER TABLE d.a ADD n INT", "ALTER TABLE d.b ADD n INT")
    group = world.groups.group_of(("d", "a"))
    # Its transaction is broken off behind it, and begins anew.
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
