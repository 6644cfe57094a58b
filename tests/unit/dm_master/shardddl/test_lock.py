"""Locks of shard DDL under every interleaving: nothing executed twice, nothing skipped unexecuted, no dead end.

Two target tables and three sources (:mod:`tests.unit.dm_master.shardddl.support`): workers stop at any point between
report, execution and confirmation, the master forgets everything, lags behind etcd or acts on old knowledge, the whole
task stops, sources leave and return, an operator gives any order in any state.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dm_master.shardddl.locks import UnlockOrder
from dm_master.shardddl.pessimistic.lock import Lock
from pkg.errors import Code, DMError
from pkg.ha.shard_ddl import DDLTexts
from tests.sweeps import examples
from tests.unit.dm_master.shardddl.support import TASK, LockParticipant, LockWorld, offered_unlocks, rebuilt

SOURCES = ("s1", "s2", "s3")
TABLES = ("t1", "t2")
#: The same statement may come back: an index that is added, dropped and added again.
DDLS: tuple[DDLTexts, ...] = (("ADD a",), ("DROP a",), ("ADD a",), ("ADD b", "ADD c"))

agreed = st.lists(st.sampled_from(DDLS), max_size=3).map(lambda one: dict.fromkeys(SOURCES, one))
differing = st.fixed_dictionaries({source: st.lists(st.sampled_from(DDLS), max_size=2) for source in SOURCES})


class LockMachine(RuleBasedStateMachine):
    """``forced``: somebody took a decision that only a person may take, which may execute a DDL again or never."""

    world: LockWorld
    forced: bool
    same: bool
    #: Nobody takes such a decision in this run.
    careful: bool

    @initialize(data=st.data(), same=st.booleans(), careful=st.booleans())
    def shards_begin(self, data: st.DataObject, same: bool, careful: bool) -> None:
        each = agreed if same else differing
        tables = data.draw(st.sampled_from((TABLES[:1], TABLES)))
        self.world = LockWorld(data.draw(st.fixed_dictionaries(dict.fromkeys(tables, each))))
        self.forced, self.same, self.careful = False, same, careful

    def shard(self, source: str, table: str) -> LockParticipant:
        return self.world.shards.get((source, table)) or self.world.shards[source, TABLES[0]]

    def sources_running(self) -> bool:
        return bool(self.world.members)

    # --- workers: each rule is one atomic step, and a worker may die after any of them ---

    @rule(source=st.sampled_from(SOURCES), table=st.sampled_from(TABLES))
    def reports(self, source: str, table: str) -> None:
        if source in self.world.members:
            self.world.report(self.shard(source, table))

    @rule(source=st.sampled_from(SOURCES), table=st.sampled_from(TABLES))
    def obeys(self, source: str, table: str) -> None:
        if source in self.world.members:
            shard = self.shard(source, table)
            self.world.obey(shard)

    @rule(source=st.sampled_from(SOURCES), table=st.sampled_from(TABLES), error=st.sampled_from(("refused", "")))
    def fails(self, source: str, table: str, error: str) -> None:
        self.world.fail(self.shard(source, table), error)

    @rule(source=st.sampled_from(SOURCES), table=st.sampled_from(TABLES))
    def confirms(self, source: str, table: str) -> None:
        if source in self.world.members:
            self.world.confirm(self.shard(source, table))

    @rule(sources=st.sets(st.sampled_from(SOURCES), min_size=1), steps=st.integers(1, 3))
    def work(self, sources: set[str], steps: int) -> None:
        for shard in self.world.shards.values():
            for _ in range(steps if shard.source in sources else 0):
                self.world.work(shard)

    @rule(source=st.sampled_from(SOURCES), table=st.sampled_from(TABLES), passes=st.booleans())
    def an_operator_skips_it_at_the_worker(self, source: str, table: str, passes: bool) -> None:
        shard = self.shard(source, table)
        if source in self.world.members and shard.next and self.world.withdraw(shard) and passes and not self.careful:
            shard.passed += 1
            self.forced = True

    # --- the master ---

    @rule(count=st.integers(1, 5))
    def reads_some_events(self, count: int) -> None:
        self.world.hear(count)

    @rule()
    def acts_on_what_it_knows(self) -> None:
        self.world.lead()

    @rule()
    def reads_and_acts(self) -> None:
        self.world.hear()
        self.world.lead()

    @rule(data=st.data())
    def another_master_leads(self, data: st.DataObject) -> None:
        self.world.restart_master(data.draw(st.permutations(self.world.etcd.all())))

    @rule()
    def all_settle(self) -> None:
        self.world.settle()

    # --- the task ---

    @rule()
    def task_stops(self) -> None:
        self.world.set_members(())

    @rule()
    def task_starts(self) -> None:
        self.world.set_members(SOURCES)

    @precondition(lambda self: len(self.world.members) > 1 and not self.careful)
    @rule(source=st.sampled_from(SOURCES))
    def source_leaves(self, source: str) -> None:
        """The others may go on without it: when it returns it is behind, or ahead."""
        self.world.set_members(self.world.members - {source})
        self.forced = True

    # --- the operator ---

    @rule(
        table=st.sampled_from(TABLES),
        owner=st.sampled_from(("", *SOURCES)),
        force=st.booleans(),
        action=st.sampled_from(("skip", "exec")),
    )
    def unlocks(self, table: str, owner: str, force: bool, action: str) -> None:
        lock_id = str(self.shard(SOURCES[0], table).lock)
        if self.careful and (force or not self.same):
            return
        left = any(self.world.locks.decide(lock).phase == "owner left" for lock in self.world.locks.all())
        if self.careful and left:
            return
        try:
            given = self.world.unlock(lock_id, UnlockOrder(owner, force, action))
        except DMError as exc:
            self.refused(exc)
            return
        self.forced = self.forced or (given and (force or left or not self.same))

    def refused(self, error: DMError) -> None:
        assert error.kind in {Code.MasterLockNotFound, Code.MasterLockIsResolving, Code.MasterWorkerNotWaitLock}
        assert error.kind is Code.MasterLockNotFound or "--force-remove" in error.workaround

    # --- the promises ---

    @invariant()
    def nothing_twice_and_nothing_passed_unexecuted(self) -> None:
        if self.forced:
            return
        for (_, table), shard in self.world.shards.items():
            executed = [ddls for _, ddls in self.world.targets[table].executed]
            both = min(len(executed), len(shard.ddls))
            assert executed[:both] == list(shard.ddls[:both])
            assert shard.passed <= len(executed)

    @invariant()
    def etcd_tells_everything(self) -> None:
        world = self.world
        if world.read == len(world.etcd.log):
            again = rebuilt(reversed(world.etcd.all()), {TASK: world.members})
            assert again == world.locks
            assert again.steps() == world.locks.steps()

    @invariant()
    def who_waits_is_told(self) -> None:
        """A lock that makes no step names who must act, or has a problem with what to do."""
        for lock in self.world.locks.all():
            decision = self.world.locks.decide(lock)
            if decision.step is None and self.sources_running():
                assert decision.waits_for or decision.problem
            assert decision.problem is None or decision.problem.kind in {
                Code.MasterShardingDDLDiff,
                Code.MasterOwnerExecDDL,
            }

    @invariant()
    def the_console_offers_an_unlock_exactly_when_the_lock_accepts_one(self) -> None:
        for lock in self.world.locks.all():
            offered = offered_unlocks(self.world.locks, lock)
            assert all(self.accepts(lock, order) for order in offered), offered
            possible = [UnlockOrder(owner, action=action) for owner in ("", *SOURCES) for action in ("skip", "exec")]
            assert bool(offered) == any(self.accepts(lock, order) for order in possible)

    def accepts(self, lock: Lock, order: UnlockOrder) -> bool:
        try:
            self.world.locks.unlock(str(lock.id), order)
        except DMError:
            return False
        return True

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.set_members(SOURCES)
        world.restart_master()
        world.settle()
        if self.same and not self.forced:
            assert all(not shard.next for shard in world.shards.values()), "the locks need an operator for no reason"
            for table, target in world.targets.items():
                assert [ddls for _, ddls in target.executed] == list(self.shard("s1", table).ddls)
            assert not world.locks.all()
        for _ in range(30):
            if not world.locks.all():
                break
            self._operator_resolves()
            world.settle()
        assert not world.locks.all(), "a dead end"
        assert all(not shard.next for shard in world.shards.values())

    def _operator_resolves(self) -> None:
        """As the messages say: unlock with one that waits, otherwise remove."""
        for lock in self.world.locks.all():
            waiting = lock.waiting(self.world.locks.members(lock))
            order = UnlockOrder(owner=waiting[0]) if waiting else UnlockOrder(force_remove=True)
            try:
                assert self.world.unlock(str(lock.id), order)
            except DMError:
                assert self.world.unlock(str(lock.id), UnlockOrder(force_remove=True))


LockMachine.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40)
TestLocks = LockMachine.TestCase
