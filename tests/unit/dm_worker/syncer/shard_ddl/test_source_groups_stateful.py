"""Hazards: a row of a merged table is lost, doubled, or applied at another structure; a DDL runs twice or never."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dm_worker.syncer.shard_ddl.group_status import status_of
from pkg.mysql.names import TableId
from tests.sweeps import examples
from tests.unit.dm_worker.syncer.shard_ddl.shard_world import Worker, World, route

SCHEMAS = ("A", "B", "C")
NAMES = ("t1", "t2", "t3", "t4")
TABLES = st.sampled_from([(schema, name) for schema in SCHEMAS for name in NAMES])
#: Of group C one table is there at first, of the others two.
INITIAL = [("A", "t1"), ("A", "t2"), ("B", "t1"), ("B", "t2"), ("C", "t1")]


class Sharding(RuleBasedStateMachine):
    """Three groups in one binlog, a lock service that decides late, in any order, and takes back; crashes anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.worker: Worker | None = None

    @initialize(early=st.booleans())
    def begin(self, early: bool) -> None:
        for table in INITIAL:
            self.world.upstream.exist(table)
        # Listed when replication begins, but created after the place where it begins.
        self.world.listed = [*INITIAL, ("B", "t3")] if early else INITIAL
        self.worker = Worker(self.world)

    # -- the upstream -------------------------------------------------------------------------------------------

    @rule(table=TABLES, count=st.integers(1, 4))
    def write(self, table: TableId, count: int) -> None:
        if table in self.world.upstream.tables:
            self.world.upstream.write(table, count)

    @rule(table=TABLES, rows=st.integers(0, 2))
    def alter(self, table: TableId, rows: int) -> None:
        if table in self.world.upstream.tables:
            self.world.upstream.alter(table)
            self.world.upstream.write(table, rows)

    @rule(table=TABLES, rows=st.integers(0, 2))
    def alter_only_here(self, table: TableId, rows: int) -> None:
        if table in self.world.upstream.tables:
            self.world.upstream.alter_only_here(table)
            self.world.upstream.write(table, rows)

    @rule(schema=st.sampled_from(SCHEMAS))
    def alter_those_behind(self, schema: str) -> None:
        self._catch_up(schema)

    @rule(table=TABLES, rows=st.integers(0, 2))
    def create(self, table: TableId, rows: int) -> None:
        if table not in self.world.upstream.tables:
            self.world.upstream.create(table)
            self.world.upstream.write(table, rows)

    @rule(table=TABLES)
    def drop(self, table: TableId) -> None:
        if table in self.world.upstream.tables:
            self.world.upstream.drop(table)

    @rule(table=TABLES, new=st.sampled_from(NAMES))
    def rename(self, table: TableId, new: str) -> None:
        tables = self.world.upstream.tables
        if table in tables and (table[0], new) not in tables:
            self.world.upstream.rename(table, (table[0], new))

    # -- the worker ---------------------------------------------------------------------------------------------

    @rule(steps=st.integers(1, 30), batch=st.integers(1, 6), order=st.integers(0, 3), lazy=st.booleans())
    def work(self, steps: int, batch: int, order: int, lazy: bool) -> None:
        assert self.worker is not None
        self.worker.batch, self.worker.order, self.worker.lazy = batch, order, lazy
        for _ in range(steps):
            next(self.worker.steps)

    @rule()
    def crash(self) -> None:
        self.worker = Worker(self.world)

    @rule(schema=st.sampled_from(SCHEMAS), execute=st.booleans())
    def decide(self, schema: str, execute: bool) -> None:
        self.world.decide(route(schema, ""), execute=execute)

    @rule(schema=st.sampled_from(SCHEMAS), elsewhere=st.booleans())
    def revoke(self, schema: str, elsewhere: bool) -> None:
        self.world.revoke(route(schema, ""), elsewhere=elsewhere)

    @rule(schema=st.sampled_from(SCHEMAS), steps=st.integers(1, 12), elsewhere=st.booleans())
    def decide_and_revoke(self, schema: str, steps: int, elsewhere: bool) -> None:
        """During a re-read, or while another decision is carried out."""
        for each in SCHEMAS:
            table = next((one for one in self.world.upstream.tables if one[0] == each), None)
            if table is not None:
                self.alter(table, 2)
            self._catch_up(each)
        self.work(60, 6, 0, lazy=False)
        for each in SCHEMAS:
            self.world.decide(route(each, ""), execute=True)
        self.work(steps, 2, 0, lazy=False)
        self.world.revoke(route(schema, ""), elsewhere=elsewhere)
        self.work(30, 6, 0, lazy=False)

    @rule(schema=st.sampled_from(SCHEMAS), steps=st.integers(1, 12))
    def decide_and_crash(self, schema: str, steps: int) -> None:
        self._catch_up(schema)
        self.work(30, 6, 0, lazy=False)
        for each in SCHEMAS:
            self.world.decide(route(each, ""), execute=each != schema)
        self.work(steps, 2, steps, lazy=False)
        self.crash()

    # -- what must hold -----------------------------------------------------------------------------------------

    @invariant()
    def what_is_held_back_is_told(self) -> None:
        worker = self.worker
        if worker is not None and worker.groups.reread is None and self.world.durable.intent is None:
            assert status_of(worker.groups).held_rows == len(self.world.missing())

    def teardown(self) -> None:
        """In the end all tables run all DDLs, the lock service decides all, and the target has everything."""
        upstream, target, worker = self.world.upstream, self.world.target, self.worker
        if worker is None:
            return
        early = set(self.world.listed) - set(INITIAL)
        for table in early - {name for event in upstream.binlog for name in (event.table, event.new)}:
            upstream.create(table)
        for schema in SCHEMAS:
            self._catch_up(schema)
        worker.lazy = False
        for _ in range(10_000):
            next(worker.steps)
            if worker.is_idle and not self.world.lock_service.infos:
                break
            for schema in SCHEMAS:
                self.world.decide(route(schema, ""), execute=schema == "A")
        assert worker.is_idle, "there is no end to it"
        assert self.world.missing() == []
        assert +target.version == +upstream.head
        assert not status_of(worker.groups).unresolved
        assert not any(group.gone for group in worker.groups.groups.values())

    def _catch_up(self, schema: str) -> None:
        upstream = self.world.upstream
        for table, shard in upstream.tables.items():
            while table[0] == schema and shard.version < upstream.head[route(*table)]:
                upstream.alter(table)
                upstream.write(table, 1)


TestSharding = Sharding.TestCase
TestSharding.settings = settings(max_examples=examples(150), stateful_step_count=60)
