"""The lock of one task and target table (pessimistic mode). Pure: :func:`decide` needs only its records and members.

Both follow from etcd. A new leader therefore has the same locks as the former one, at any moment and in any order of
reading. The members are the task's sources that have such tables (the scheduler's tasks, and the **tables**
records of sources). A lock itself has three kinds of records:

- **infos**: a source waits with DDLs. Workers write and delete them. The oldest one is the owner's.
- **operations**: what a source must do. The master writes them; the worker sets ``done`` when it has done it.
- **unlock**: an operator's order.

The rules for a worker, so that every DDL is executed exactly once:

1. It reports only when all rows before the DDL are durable in the target, and only while it has no operation here (one
   transaction).
2. It carries out an operation in the same transaction of the target in which it records the operation's *create
   revision* (a DDL cannot be rolled back: record the intent, check the schema, execute, record). After a crash, an
   operation with the recorded revision is only acknowledged; any other is carried out.
3. It sets ``done`` in a transaction that compares the operation's mod revision. If its operation is gone and it has not
   carried it out, it reports again. If it has, it deletes its report, and only acknowledges another operation on these
   DDLs.
4. If it cannot execute, it may set ``error``, compared in the same way: operators of waiting sources then see why.

The master proceeds in this order: once all members have reported the same DDLs, the owner executes. After that, the
others skip. When all are done, the master deletes all records in one transaction, so that two DDLs of a table never
mix. Every step compares the revisions of the records that it is based on; a failed step changes nothing.

The phases of a lock::

    waiting --- all reported the same DDLs, or unlock ---> executing --- executed ---> skipping --- all done ---> done
     |   ^                                                  ^  |  ^                     |   ^
     |   | the reports agree again                          |  |  | it is a member      |   | the reports agree again
     v   |                                                  |  |  | again, or unlock    v   |
    conflict: reports differ --- unlock --------------------+  |  |                    conflict
                                                               v  |
                                            owner left: it is not a member, or no source can execute an order

After ``unlock --action exec`` each different sequence is executed before others skip. A record that can't be read makes
any phase ``damaged``, in which the master does nothing. ``done`` and a forced removal delete all records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dm_master.shardddl import lock_errors
from dm_master.shardddl.locks import LockDecision, UnlockOrder, UnlockProgress
from dm_master.shardddl.pessimistic import problems
from pkg.errors import DMError
from pkg.etcd.types import Compare, Delete, EtcdOperation, Put, missing, mod_revision_is
from pkg.ha.shard_ddl import DDLTexts, ShardInfo, ShardOperation, ShardUnlock
from pkg.ha.shard_ddl_steps import LockId, LockStep, StoredRecord


@dataclass(frozen=True, slots=True)
class Lock:
    """The records of one lock, by source. ``damaged`` are those that can't be read: key → what is wrong."""

    id: LockId
    infos: Mapping[str, StoredRecord[ShardInfo]] = field(default_factory=dict)
    operations: Mapping[str, StoredRecord[ShardOperation]] = field(default_factory=dict)
    unlock: StoredRecord[ShardUnlock] | None = None
    damaged: Mapping[str, StoredRecord[str]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.infos or self.operations or self.unlock or self.damaged)

    def ddls_of(self, source: str) -> DDLTexts:
        """The DDLs that ``source`` reported; () if it did not report."""
        operation, info = self.operations.get(source), self.infos.get(source)
        return operation.record.ddls if operation else info.record.ddls if info else ()

    def reported(self) -> list[str]:
        """The sources that reported their DDLs, in the order of their reports."""
        order = {source: info.create_revision for source, info in self.infos.items()}
        order |= {source: min(order.get(source, op.create_revision), op.create_revision) for source, op in self._ops()}
        return sorted(order, key=lambda source: (order[source], source))

    def executions(self, *, done: bool) -> list[str]:
        """The sources with an operation to execute that is done, or not done yet."""
        return sorted(source for source, op in self._ops() if op.record.execute and op.record.done == done)

    def executed(self) -> set[DDLTexts]:
        """The DDLs that the target has certainly executed. Without an order, an operation to skip also proves
        it."""
        proofs = [op.record for _, op in self._ops() if op.record.done or not op.record.execute]
        return {record.ddls for record in proofs if record.execute or self.unlock is None}

    def sequences(self) -> tuple[DDLTexts, ...]:
        """All DDLs to execute, in this order; () while no operation exists."""
        if self.unlock is not None:
            return self.unlock.record.sequences
        return tuple(dict.fromkeys(op.record.ddls for _, op in self._ops()))

    def unexecuted(self) -> list[DDLTexts]:
        executed = self.executed()
        return [ddls for ddls in self.sequences() if ddls not in executed]

    def waiting(self, sources: Iterable[str]) -> list[str]:
        """Those of ``sources`` that reported and have no operation, in the order of their reports."""
        chosen = set(sources)
        free = [source for source in self.infos if source in chosen and source not in self.operations]
        return sorted(free, key=lambda source: (self.infos[source].create_revision, source))

    def owner(self, members: Iterable[str]) -> str:
        """The source that executes, or would if all had reported now; "" if there is none."""
        granted = self.executions(done=False) or self.executions(done=True)
        if granted:
            return granted[0]
        waiting = self.waiting(members)
        ordered = self.unlock.record.owner if self.unlock else ""
        return ordered if ordered in waiting else next(iter(waiting), "")

    def _ops(self) -> Iterable[tuple[str, StoredRecord[ShardOperation]]]:
        return self.operations.items()


def decide(lock: Lock, members: frozenset[str]) -> LockDecision:
    """Decides the next step. ``members`` are the sources that the lock waits for."""
    if lock.damaged:
        # The source of the record may have executed the DDLs: no step is safe.
        return LockDecision("damaged", problem=_damage(lock))
    if lock.sequences():
        return _resolve(lock, members)
    stale = {lock.id.info_key(name): info.mod_revision for name, info in lock.infos.items() if name not in members}
    if stale:
        compare = tuple(mod_revision_is(key, revision) for key, revision in stale.items())
        return LockDecision("waiting", LockStep(compare, tuple(Delete(key) for key in stale)))
    return _gather(lock, members)


def _gather(lock: Lock, members: frozenset[str]) -> LockDecision:
    waiting = lock.waiting(members)
    missing_sources = tuple(sorted(members - set(waiting)))
    if len({lock.ddls_of(source) for source in waiting}) > 1:
        other = next(source for source in waiting if lock.ddls_of(source) != lock.ddls_of(waiting[0]))
        return LockDecision("conflict", waits_for=missing_sources, problem=_difference(lock, waiting[0], other))
    if missing_sources or not waiting:
        return LockDecision("waiting", waits_for=missing_sources)
    # No source may have deleted or changed its report since all agreed.
    agreed = [mod_revision_is(lock.id.info_key(source), lock.infos[source].mod_revision) for source in waiting]
    return LockDecision("executing", _grant(lock, waiting[:1], execute=True, compare=agreed), (waiting[0],))


def _resolve(lock: Lock, members: frozenset[str]) -> LockDecision:
    """Executions one after the other, then the others skip, then the records are deleted."""
    running = lock.executions(done=False)
    if running:
        if running[0] in members:
            error = lock.operations[running[0]].record.error
            problem = problems.not_executable(lock.id, running[0], error) if error else None
            return LockDecision("executing", waits_for=(running[0],), problem=problem)
        return LockDecision("owner left", waits_for=(running[0],), problem=problems.owner_left(lock.id, running[0]))
    pending = lock.unexecuted()
    if pending:
        return _execute_next(lock, members, pending[0])
    skippers = [source for source in lock.waiting(members) if _may_skip(lock, source)]
    if skippers:
        return LockDecision("skipping", _grant(lock, skippers, execute=False, compare=()), tuple(skippers))
    done = {source for source, operation in lock.operations.items() if operation.record.done}
    unfinished = tuple(sorted(members - done))
    differing = [source for source in lock.waiting(members) if not _may_skip(lock, source)]
    if differing:
        decided = lock.executions(done=True) or sorted(lock.operations)
        problem = _difference(lock, decided[0], differing[0])
        return LockDecision("conflict", waits_for=unfinished, problem=problem)
    # A stopped task keeps its records: its sources return with DDLs that are executed already.
    if unfinished or not members:
        return LockDecision("skipping", waits_for=unfinished)
    return LockDecision("done", LockStep(tuple(_settled(lock)), _delete_all(lock)))


def _damage(lock: Lock) -> DMError:
    return lock_errors.damaged(lock.id, {key: stored.record for key, stored in lock.damaged.items()})


def _difference(lock: Lock, first: str, other: str) -> DMError:
    executed = bool(lock.sequences())
    return problems.difference(lock.id, first, lock.ddls_of(first), other, lock.ddls_of(other), executed=executed)


def _execute_next(lock: Lock, members: frozenset[str], ddls: DDLTexts) -> LockDecision:
    able = [source for source in lock.waiting(members) if lock.ddls_of(source) == ddls]
    owner = lock.owner(members)
    if not able:
        asked = tuple(sorted(source for source, had in _ordered(lock).items() if had == ddls))
        return LockDecision("owner left", waits_for=asked, problem=problems.nobody_waits(lock.id, ddls))
    chosen = owner if owner in able else able[0]
    return LockDecision("executing", _grant(lock, [chosen], execute=True, compare=_settled(lock)), (chosen,))


def _may_skip(lock: Lock, source: str) -> bool:
    """Whether its DDLs are executed, or an operator's order covers exactly these DDLs."""
    ddls = lock.ddls_of(source)
    return ddls in lock.executed() or _ordered(lock).get(source) == ddls


def _ordered(lock: Lock) -> Mapping[str, DDLTexts]:
    return lock.unlock.record.waiting if lock.unlock else {}


def _grant(lock: Lock, sources: Iterable[str], *, execute: bool, compare: Iterable[Compare]) -> LockStep:
    conditions, ops = list(compare), []
    for source in sources:
        info, key = lock.infos[source], lock.id.operation_key(source)
        operation = ShardOperation(str(lock.id), lock.id.task, source, info.record.ddls, execute)
        conditions += [mod_revision_is(lock.id.info_key(source), info.mod_revision), missing(key)]
        ops.append(Put(key, operation.to_json()))
    return LockStep(tuple(dict.fromkeys(conditions)), tuple(ops))


def _settled(lock: Lock) -> list[Compare]:
    """The comparisons that the lock is still the one that the decision is based on, not the next one of its table."""
    stands = [mod_revision_is(lock.id.operation_key(source), op.mod_revision) for source, op in lock.operations.items()]
    return stands + ([mod_revision_is(lock.id.unlock_key, lock.unlock.mod_revision)] if lock.unlock else [])


def _revisions(lock: Lock) -> dict[str, int]:
    revisions = {lock.id.info_key(source): info.mod_revision for source, info in lock.infos.items()}
    revisions |= {lock.id.operation_key(source): op.mod_revision for source, op in lock.operations.items()}
    revisions |= {key: stored.mod_revision for key, stored in lock.damaged.items()}
    return revisions | ({lock.id.unlock_key: lock.unlock.mod_revision} if lock.unlock else {})


def _delete_all(lock: Lock) -> tuple[EtcdOperation, ...]:
    return tuple(Delete(key) for key in _revisions(lock))


# --- orders of an operator ---


def unlock(lock: Lock, members: frozenset[str], *, owner: str = "", every: bool = False) -> LockStep:
    """Resolves the lock with the sources that have reported: ``owner`` (or the first one) executes, the others skip.

    With ``every`` no DDL is lost where they differ: for each different sequence, one of its sources executes it, one
    after the other, the owner's first. Sources that report the same later skip. Raises 38022 for an owner that does not
    wait, 38020 while a source executes or when all is executed, 42502 if a record is damaged.
    """
    executing = _executing(lock, members)
    if executing:
        raise executing
    return _order(lock, members, owner, every, ())


def take_over(lock: Lock, members: frozenset[str], *, owner: str, every: bool = False) -> LockStep:
    """Like :func:`unlock`, but also takes the DDLs away from a source that should execute them and does not
    (``--force-remove`` with ``--owner``). If that source did execute them, ``owner`` executes them again. Raises 38022,
    38020 or 42502."""
    return _order(lock, members, owner, every, lock.executions(done=False))


def progress(lock: Lock, members: frozenset[str]) -> UnlockProgress:
    """How far ``lock``'s order is."""
    executing, pending = lock.executions(done=False), lock.unexecuted()
    if not executing and pending:
        asked = sorted(source for source, ddls in _ordered(lock).items() if ddls in pending)
        executing = [lock.owner(members)] if lock.owner(members) in asked else asked
    done = {source for source, operation in lock.operations.items() if operation.record.done}
    skipping = sorted(set(_ordered(lock)) & members - done - set(executing))
    return UnlockProgress(
        executed=tuple(lock.executions(done=True)),
        executing=tuple(executing),
        skipping=tuple(skipping),
        unreported=tuple(sorted(members - set(lock.reported()))),
    )


def force_remove(lock: Lock) -> LockStep:
    """Deletes the lock in any state. Sources that still wait report again, which creates a new one."""
    return LockStep(_unchanged(lock), _delete_all(lock))


def unlocks(lock: Lock, members: frozenset[str]) -> list[UnlockOrder]:
    """The orders that :func:`unlock` accepts now, those that differ in what they do: the owner's first."""
    if _executing(lock, members) or _impossible(lock):
        return []
    waiting, owner = _free(lock, _taken(lock, members, ()), members), lock.owner(members)
    differ = len({lock.ddls_of(source) for source in waiting}) > 1
    orders = [UnlockOrder()] if owner in waiting else []
    if orders and differ:
        orders.append(UnlockOrder(action="exec"))
    if differ or not orders:
        orders += [UnlockOrder(source) for source in waiting if source != owner]
    return orders


def _executing(lock: Lock, members: frozenset[str]) -> DMError | None:
    """Why only force helps: a source executes."""
    running = lock.executions(done=False)
    if running and running[0] in members:
        return problems.resolving(lock.id, f"source {running[0]} executes its DDLs")
    return None


def _impossible(lock: Lock) -> DMError | None:
    """Why no order can name who executes."""
    if lock.damaged:
        return _damage(lock)
    if lock.sequences() and not lock.unexecuted():
        return problems.resolving(lock.id, "its DDLs are executed, other sources have yet to skip them")
    return None


def _taken(lock: Lock, members: frozenset[str], revoked: Sequence[str]) -> set[str]:
    """The sources that lose their DDLs by an order."""
    return {*revoked, *(source for source in lock.executions(done=False) if source not in members)}


def _free(lock: Lock, taken: set[str], members: frozenset[str]) -> list[str]:
    return [source for source in lock.waiting(members) if source not in taken]


def _order(lock: Lock, members: frozenset[str], owner: str, every: bool, revoked: Sequence[str]) -> LockStep:
    impossible = _impossible(lock)
    if impossible:
        raise impossible
    taken = _taken(lock, members, revoked)
    waiting = _free(lock, taken, members)
    chosen = owner or lock.owner(members)
    if chosen not in waiting:
        raise problems.not_waiting(lock.id, chosen, waiting)
    first = [chosen, *(source for source in waiting if source != chosen)] if every else [chosen]
    sequences = tuple(dict.fromkeys(lock.ddls_of(source) for source in first))
    order = ShardUnlock(
        str(lock.id), lock.id.task, chosen, sequences, {source: lock.ddls_of(source) for source in waiting}
    )
    gone = [key(source) for source in sorted(taken) for key in (lock.id.operation_key, lock.id.info_key)]
    ops: list[EtcdOperation] = [Put(lock.id.unlock_key, order.to_json()), *(Delete(key) for key in gone)]
    return LockStep(_unchanged(lock), tuple(ops))


def _unchanged(lock: Lock) -> tuple[Compare, ...]:
    """The comparisons that the lock has not changed since the operator's order was decided."""
    known = _revisions(lock)
    expected = [lock.id.unlock_key, *(lock.id.operation_key(source) for source in lock.infos)]
    absent = [missing(key) for key in expected if key not in known]
    return (*(mod_revision_is(key, revision) for key, revision in known.items()), *absent)
