"""A target, a meta store and a run that may crash anywhere, around the barrier that executes statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import strategies as st

from dm_worker.syncer.checkpoint.ddl_table import DDLRecord, ShownTables
from dm_worker.syncer.checkpoint.protocol import DDL, BatchProgress
from dm_worker.syncer.checkpoint.temporary_names import TemporaryChanges
from dm_worker.syncer.ddl.barrier_assembly import ddl_barrier
from dm_worker.syncer.ddl.executor import DDLExecutor
from dm_worker.syncer.ddl.routed_steps import StepRouter
from dm_worker.syncer.ddl.session import StatementFailed
from dm_worker.syncer.ddl.statement_decisions import AtOnce, ByShardGroups
from dm_worker.syncer.ddl.statement_effect import StatementEffect
from dm_worker.syncer.ddl.target_jobs import TargetJob
from dm_worker.syncer.ddl.temporary_tables import TemporaryTables
from dm_worker.syncer.ddl.variables import TargetSession, UpstreamSession
from dm_worker.syncer.online_ddl.ghost_records import GhostRecord
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.syncer.shard_ddl.initial_groups import new_groups
from dm_worker.syncer.shard_ddl.lock_client import LockClient, LockService
from dm_worker.syncer.shard_ddl.pessimistic import Pessimistic
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg import ddl, errors
from pkg.binlog.events import QueryEvent
from pkg.binlog.position import Location, Position
from pkg.config.model import SubTaskConfig
from pkg.ddl import DDLKind
from pkg.errors import Code, DMError
from pkg.ha.binlog_operator import BinlogOperator
from pkg.mysql.schema import Column, TableInfo
from pkg.rules.model import BinlogFilterRule
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


class Crash(Exception):
    """The process ends."""


class Chance:
    """Ends the process at a durable step: before it, or right after it."""

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
    def remember(ghosts: dict[tuple[str, str], GhostRecord | None], temporary: TemporaryChanges) -> None:
        """No test here restarts in the middle of an online change, or of a session with temporary tables."""


class Session:
    """A target whose tables show what was executed on them, and what was done by hand to all of them."""

    def __init__(self, chance: Chance) -> None:
        self.executed: list[str] = []
        self.refused = ""
        #: What there is already, and what a connection is lost at, once.
        self.known = self.lost = ""
        #: What a server says that takes only one part of an ALTER TABLE at a time; '' for one that takes all.
        self.one_part = ""
        self.sessions: list[QueryEvent] = []
        #: Where a connection is lost once while the target goes on, and what it does then, sooner or later.
        self.goes_on_at = ""
        self.jobs: list[tuple[str, QueryEvent]] = []
        self.looks = 0
        self.changes = 0
        self._chance = chance

    def execute(self, sql: str, kind: DDLKind, query: QueryEvent, timestamp: int, upstream: UpstreamSession) -> None:
        if self.refused and self.refused in sql:
            raise StatementFailed(1062, errors.new(Code.DBExecuteFailed, "Error 1062: told to refuse"))
        if self.one_part and ", " in sql:
            raise StatementFailed(8200, errors.new(Code.DBExecuteFailed, "refused", raw=f"Error 8200: {self.one_part}"))
        if self.known and self.known in sql:
            raise StatementFailed(1060, errors.new(Code.DBExecuteFailed, "Error 1060: told to know it"))
        if self.lost and self.lost in sql and self.known not in sql:
            self.lost = ""
            raise errors.new(Code.DBBadConn, "told to lose the connection", retryable=True)
        if self.goes_on_at and self.goes_on_at in sql:
            self.goes_on_at, self.looks = "", 0
            self.jobs.append((sql.replace("`", ""), query))
            raise errors.new(Code.DBBadConn, "told to lose the connection of a job", retryable=True)
        self._chance.step(lambda: self._effect(sql.replace("`", ""), query))

    def unfinished_jobs(self, names: Iterable[tuple[str, str]]) -> list[TargetJob]:
        """Each job ends after it was seen once."""
        self.looks += 1
        if self.looks > 1:
            for sql, query in self.jobs:
                self._effect(sql, query)
            self.jobs.clear()
        return [TargetJob(1, "running", 0, sql) for sql, _ in self.jobs]

    def _effect(self, sql: str, query: QueryEvent) -> None:
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
        """The result of trying the statement."""
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
        source = self._source()
        self.tracker = source.tracker
        self.chance = Chance()
        self.store = Store(self.chance)
        self.session = Session(self.chance)
        self.order: BinlogOperator | None = None
        self.meet(sql)
        rules = TaskRules(cfg)
        self.groups = new_groups([("d", name) for name in shards], rules.route)
        self.link = LockClient(cast(LockService, None), "t", "s")
        self.sharding = Pessimistic(
            self.groups,
            self.link,
            source,
            takes_rows=rules.takes_rows,
            task="t",
            source_id="s",
            changed=self.groups.groups,
        )
        self.upstream_lost = False
        online = OnlineDDL(OnlineTables.of(cfg))
        router = StepRouter(cfg, rules, source, "mysql", dict, lambda *_: False)
        self._on_statement = ddl_barrier(
            cfg,
            rules=rules,
            source=source,
            online=online,
            temporary=TemporaryTables(cfg.flavor),
            store=self.store,  # type: ignore[arg-type]
            executor=DDLExecutor(
                store=self.store,  # type: ignore[arg-type]
                session=self.session,  # type: ignore[arg-type]
                trial=self.session,  # type: ignore[arg-type]
                target_flavor="mysql",
                upstream=UpstreamSession("mysql"),
                should_stop=lambda: False,
            ),
            router=router,
            decisions=ByShardGroups(self.sharding, router, online) if shards else AtOnce(),
            system_zone=lambda _: "+00:00",
            upstream_tables=dict,
            orders=lambda: [self.order] if self.order else [],
        )

    def _source(self) -> SchemaSource:
        missing: Path | None = None
        source = SchemaSource(
            server=ServerDefaults(),
            dump_files=lambda *_: missing,
            upstream=lambda *_: None,
            target=lambda *_: None,
            schema_charset=self._schema_charset,
        )
        source.restore([TableInfo("d", name, (Column("id", "int", "int(11)"),)) for name in "abc"])
        return source

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

    def run(self, steps: int = 1000, *, behind: bool = False) -> StatementEffect:
        """Ends at this durable step, or after it."""
        self.chance.left, self.chance.behind = steps, behind
        return self._on_statement.execute(self.statement, BatchProgress(1, 1, DDL, NOWHERE, NOWHERE))

    def settle(self, settle: SettleDDL) -> tuple[DDLRecord | None, StatementEffect]:
        """Executes what the lock service has decided on."""
        self.chance.left, self.chance.behind = 1000, False
        return self._on_statement.settle(settle, BatchProgress(1, 1, DDL, NOWHERE, NOWHERE))

    def stopped(self) -> DMError:
        with pytest.raises(DMError) as caught:
            self.run()
        return caught.value


OWN = [f"DROP TABLE IF EXISTS d.{name}" for name in "abc"]
#: A second time they would have another effect, which only the tables tell.
_STATEMENTS = st.lists(
    st.sampled_from([f"ALTER TABLE d.x{n} ADD INDEX (id)" for n in range(6)]), min_size=1, max_size=3
)
ORDERS = st.one_of(
    st.just(("",)),
    st.just(("skip",)),
    _STATEMENTS.map(lambda found: ("replace", *found)),
    _STATEMENTS.map(lambda found: ("inject", *found)),
)
