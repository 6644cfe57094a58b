"""A world for the shard groups: an upstream's binlog, the lock service, a target, and a worker that may crash
anywhere.

The target knows nothing of groups. It has a version per merged table, the number of DDLs executed there, and takes a
row only at the version that the row was written with, as the next one of its table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dm_worker.syncer.shard_ddl.groups_snapshot import GroupsSnapshot, decode, encode, encode_progress
from dm_worker.syncer.shard_ddl.source_groups import (
    AcknowledgeDDL,
    EndReread,
    GroupInstruction,
    ReportDDL,
    SettleDDL,
    SourceGroups,
    StartReread,
)
from pkg.binlog.position import Location, Position
from pkg.ha.shard_ddl import DDLTexts
from pkg.mysql.names import TableId

BUCKETS = 2


def at(offset: int) -> Location:
    return Location(Position("bin.000001", offset))


def route(schema: str, table: str) -> TableId:
    """``A.t1`` and ``A.t2`` merge into ``merged.A``."""
    return "merged", schema


def statements_of(number: int) -> DDLTexts:
    """A group's DDLs: some follow each other with the same text."""
    return (f"ALTER TABLE t /* {number // 2} */",)


def structure_of(version: int, shape: int) -> str:
    return f"columns of version {version}, and {shape} changes that the target did not get"


@dataclass(frozen=True, slots=True)
class Event:
    """``entity`` and ``sequence`` name a row whatever its table is called then."""

    kind: str
    table: TableId
    version: int = 0
    entity: int = 0
    sequence: int = 0
    new: TableId = ("", "")
    shape: int = 0


@dataclass(slots=True)
class Shard:
    entity: int
    version: int
    rows: int = 0
    shape: int = 0


class Upstream:
    """Its tables now, and all that its binlog says."""

    def __init__(self) -> None:
        self.binlog: list[Event] = []
        self.tables: dict[TableId, Shard] = {}
        self.head: Counter[TableId] = Counter()
        self._entities = 0

    def exist(self, table: TableId) -> None:
        """A table is created without a trace in the binlog, or with one."""
        self._entities += 1
        self.tables[table] = Shard(self._entities, self.head[route(*table)])

    def create(self, table: TableId) -> None:
        self.exist(table)
        self.binlog.append(Event("create", table, self.tables[table].version))

    def write(self, table: TableId, count: int) -> None:
        shard = self.tables[table]
        for _ in range(count):
            self.binlog.append(Event("row", table, shard.version, shard.entity, shard.rows, shape=shard.shape))
            shard.rows += 1

    def alter(self, table: TableId) -> None:
        shard = self.tables[table]
        shard.version += 1
        target = route(*table)
        self.head[target] = max(self.head[target], shard.version)
        self.binlog.append(Event("ddl", table, shard.version, shape=shard.shape))

    def alter_only_here(self, table: TableId) -> None:
        """By a statement that a filter keeps from the target."""
        shard = self.tables[table]
        shard.shape += 1
        self.binlog.append(Event("shape", table, shard.version, shape=shard.shape))

    def drop(self, table: TableId) -> None:
        del self.tables[table]
        self.binlog.append(Event("drop", table))

    def rename(self, table: TableId, new: TableId) -> None:
        shard = self.tables[new] = self.tables.pop(table)
        self.binlog.append(Event("rename", table, shard.version, new=new, shape=shard.shape))


class Target:
    """A serial applier that takes each row once, in order, at its own version."""

    def __init__(self) -> None:
        self.version: Counter[TableId] = Counter()
        self.rows: Counter[int] = Counter()

    def apply(self, row: Event) -> None:
        assert row.version == self.version[route(*row.table)], f"{row} at another version of the target"
        assert row.sequence == self.rows[row.entity], f"{row} is lost, doubled or out of its order"
        self.rows[row.entity] += 1


@dataclass(slots=True)
class Operation:
    statements: DDLTexts
    execute: bool
    revision: int
    #: The worker has begun to obey.
    begun: bool = False


class LockService:
    """The lock of each merged table, which knows DDLs by their text alone, as DM's records do."""

    def __init__(self) -> None:
        self.infos: dict[TableId, DDLTexts] = {}
        self.operations: dict[TableId, Operation] = {}
        self.revision = 0
        #: Where another source has executed what this one was ordered and has not done.
        self.executed: set[TableId] = set()

    def report(self, target: TableId, statements: DDLTexts) -> None:
        self.infos[target] = statements

    def acknowledge(self, target: TableId, statements: DDLTexts, revision: int) -> None:
        operation = self.operations.get(target)
        if operation is not None and operation.statements == statements:
            assert operation.revision == revision, "the decision on one DDL is taken for that on another one"
            del self.operations[target], self.infos[target]


@dataclass(frozen=True, slots=True)
class Intent:
    number: int
    start: int
    end: int
    rows: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class DDLIntent:
    target: TableId
    number: int
    fingerprint: int


@dataclass(frozen=True, slots=True)
class Durable:
    """What outlives a worker, changed in transactions. ``main`` is the checkpoint."""

    main: int = 0
    number: int = 0
    snapshot: GroupsSnapshot | None = None
    intent: Intent | None = None
    ddl: DDLIntent | None = None


@dataclass(slots=True)
class World:
    upstream: Upstream = field(default_factory=Upstream)
    target: Target = field(default_factory=Target)
    lock_service: LockService = field(default_factory=LockService)
    durable: Durable = field(default_factory=Durable)
    markers: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    #: What a worker finds when it lists the upstream's tables at its first start.
    listed: list[TableId] = field(default_factory=list)

    def decide(self, target: TableId, *, execute: bool) -> None:
        """The lock service makes up its mind; a DDL that is to be skipped here was executed by another source."""
        if target in self.lock_service.infos and target not in self.lock_service.operations:
            self.lock_service.revision += 1
            if target in self.lock_service.executed:
                self.lock_service.executed.remove(target)
                execute = False
            elif not execute:
                self.target.version[target] += 1
            self.lock_service.operations[target] = Operation(
                self.lock_service.infos[target], execute, self.lock_service.revision
            )

    def revoke(self, target: TableId, *, elsewhere: bool) -> None:
        """An operator takes back a decision that nobody has begun to obey; ``elsewhere``: another source executes."""
        operation = self.lock_service.operations.get(target)
        if operation is None or operation.begun:
            return
        del self.lock_service.operations[target], self.lock_service.infos[target]
        if operation.execute and elsewhere:
            self.target.version[target] += 1
        if elsewhere or not operation.execute:
            self.lock_service.executed.add(target)

    def missing(self) -> list[Event]:
        """The rows up to the checkpoint that are not applied."""
        rows = (event for event in self.upstream.binlog[: self.durable.main] if event.kind == "row")
        return [row for row in rows if row.sequence >= self.target.rows[row.entity]]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The lock service has answered; the worker has not made it durable yet."""

    target: TableId


class Worker:
    """A run of the syncer. :meth:`run` stops wherever something has become durable or visible: it may die there."""

    def __init__(self, world: World) -> None:
        self.world = world
        durable = world.durable
        if durable.snapshot is None:
            self.groups = SourceGroups(route)
            for table in world.listed:
                self.groups.join(table)
            self._save()
        else:
            self.groups = decode(durable.snapshot, route)
        self.todo: list[GroupInstruction | Acknowledged] = []
        self._heard: dict[TableId, Operation] = {}
        self._reported: dict[TableId, DDLTexts] = {}
        self.main = durable.main
        #: How many rows events a batch may have; which of several instructions is carried out first; whether they
        #: wait while the main pass goes on.
        self.batch = 3
        self.order = 0
        self.lazy = False
        #: Between two things to do.
        self._resting = False
        self.steps = self._run()

    @property
    def is_idle(self) -> bool:
        """Whether all that the upstream wrote is applied, as far as it can be, and nothing is to be done."""
        done = self.main == len(self.world.upstream.binlog) and not self.todo and not self.world.lock_service.operations
        return done and self._resting and self.groups.reread is None and self.world.durable.intent is None

    def _run(self) -> Iterator[None]:
        intent = self.world.durable.intent
        if intent is not None:
            assert self._plan(intent.start, intent.end) == list(intent.rows), "the batch is another one now"
            yield from self._apply(intent)
        self.todo += self.groups.resume()
        while True:
            reread = self.groups.reread
            # Up to here an operator may have taken back what was heard.
            self._hear()
            if self.todo and not (self.lazy and reread is None):
                yield from self._carry_out(self._next())
            elif reread is not None:
                yield from self._pass(reread.at.position.pos, reread.end.position.pos)
            else:
                yield from self._pass(self.main, len(self.world.upstream.binlog))
            self._hear()
            self._resting = True
            yield
            self._resting = False

    # -- batches and statements ---------------------------------------------------------------------------------

    def _pass(self, start: int, limit: int) -> Iterator[None]:
        binlog = self.world.upstream.binlog
        if start == limit:
            return
        if binlog[start].kind != "row":
            yield from self._statement(start, binlog[start])
            return
        end = start
        while end < limit and end - start < self.batch and binlog[end].kind == "row":
            end += 1
        number = self.world.durable.number + 1
        intent = Intent(number, start, end, tuple(self._plan(start, end)))
        self.world.durable = replace(self.world.durable, number=number, intent=intent)
        yield
        yield from self._apply(intent)

    def _plan(self, start: int, end: int) -> list[Event]:
        rows = []
        for row in self.world.upstream.binlog[start:end]:
            if self.groups.takes(row.table):
                rows.append(row)
                if self.groups.reread is not None:
                    assert self.groups.structure(row.table) == structure_of(row.version, row.shape)
        return rows

    def _apply(self, intent: Intent) -> Iterator[None]:
        for bucket in range(BUCKETS):
            if self.world.markers[bucket] < intent.number:
                self.world.markers[bucket] = intent.number
                for row in intent.rows:
                    if row.entity % BUCKETS == bucket:
                        self.world.target.apply(row)
            yield
        out: list[GroupInstruction] = []
        if self.groups.reread is not None:
            out = self.groups.reached(at(intent.end))
        else:
            self.main = intent.end
            passed_over = set(self.world.upstream.binlog[intent.start : intent.end]) - set(intent.rows)
            for table, count in Counter(row.table for row in passed_over).items():
                self.groups.hold(table, count)
        if out:
            self._save()
        else:
            self._save_progress()
        yield
        self._then(out)

    def _statement(self, place: int, event: Event) -> Iterator[None]:
        key = str(at(place + 1))
        if self.groups.reread is not None:
            out = self.groups.met(key, at(place + 1))
        else:
            out = self._main_statement(place, key, event)
            self.main = place + 1
        self._save()
        yield
        self._then(out)

    def _main_statement(self, place: int, key: str, event: Event) -> list[GroupInstruction]:
        structure = structure_of(event.version, event.shape)
        if event.kind == "shape":
            self.groups.restructure(event.table, key=key, structure=structure)
            return []
        if event.kind == "ddl":
            statements = statements_of(event.version - 1)
            return self.groups.ddl(event.table, statements, key=key, start=at(place), structure=structure)
        if event.kind == "create":
            return self.groups.create(event.table, key=key, structure=structure)
        if event.kind == "drop":
            return self.groups.drop(event.table, key=key)
        return self.groups.rename(event.table, event.new, key=key, structure=structure)

    # -- the lock service ----------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        """A decision of the lock service arrives once, and again after a report; a revoked one is reported again."""
        for target in [one for one, op in self._heard.items() if self.world.lock_service.operations.get(one) is not op]:
            news = self._heard.pop(target)
            if not news.begun:
                self.todo = [one for one in self.todo if not (isinstance(one, SettleDDL) and one.target == target)]
                self._then(self.groups.revoke(target))
        for target in self._reported.keys() - self.world.lock_service.infos.keys():
            self.world.lock_service.report(target, self._reported[target])
        for target, operation in self.world.lock_service.operations.items():
            if self._heard.get(target) is not operation:
                self._heard[target] = operation
                statements, execute, revision = operation.statements, operation.execute, operation.revision
                self._then(self.groups.resolve(target, statements, execute=execute, revision=revision))

    # -- instructions -------------------------------------------------------------------------------------------

    def _next(self) -> GroupInstruction | Acknowledged:
        """What the lock service is told about one group keeps its order, nothing else must."""
        chosen = self.todo[self.order % len(self.todo)]
        if isinstance(chosen, ReportDDL | AcknowledgeDDL):
            told = (one for one in self.todo if isinstance(one, ReportDDL | AcknowledgeDDL))
            chosen = next(one for one in told if one.target == chosen.target)
        self.todo.remove(chosen)
        return chosen

    def _carry_out(self, instruction: GroupInstruction | Acknowledged) -> Iterator[None]:
        lock_service = self.world.lock_service
        if isinstance(instruction, ReportDDL):
            lock_service.report(instruction.target, instruction.statements)
            self._reported[instruction.target] = instruction.statements
            self._heard.pop(instruction.target, None)
        elif isinstance(instruction, AcknowledgeDDL):
            self._reported.pop(instruction.target, None)
            lock_service.acknowledge(instruction.target, instruction.statements, instruction.revision)
            self.todo.append(Acknowledged(instruction.target))
        elif isinstance(instruction, Acknowledged):
            out = self.groups.acknowledged(instruction.target)
            self._save()
            yield
            self._then(out)
        elif isinstance(instruction, SettleDDL):
            yield from self._settle(instruction)
        elif isinstance(instruction, StartReread):
            reread = self.groups.reread
            assert reread is not None
            assert (reread.at, reread.end) == (instruction.start, instruction.end)
        else:
            assert isinstance(instruction, EndReread)

    def _settle(self, settle: SettleDDL) -> Iterator[None]:
        world, target = self.world, settle.target
        operation = world.lock_service.operations.get(target)
        assert operation is not None, "that decision was taken back"
        assert operation.revision == settle.revision, "that decision is another one now"
        operation.begun = True
        if settle.execute:
            known = world.durable.ddl
            if known is None or (known.target, known.number) != (target, settle.number):
                known = DDLIntent(target, settle.number, world.target.version[target])
                world.durable = replace(world.durable, ddl=known)
                yield
            if world.target.version[target] == known.fingerprint:
                world.target.version[target] += 1
                yield
        out = self.groups.settled(target, at(self.main))
        self._save()
        yield
        self._then(out)

    def _then(self, instructions: list[GroupInstruction]) -> None:
        self.todo.extend(instructions)

    def _save_progress(self) -> None:
        """After a batch that led to nothing, the groups themselves are as they were."""
        snapshot = self.world.durable.snapshot
        assert snapshot is not None
        snapshot = GroupsSnapshot(snapshot.groups, encode_progress(self.groups))
        self.world.durable = replace(self.world.durable, main=self.main, snapshot=snapshot, intent=None)

    def _save(self) -> None:
        """The state and the checkpoint in one transaction; no batch is open then."""
        main = getattr(self, "main", 0)
        self.world.durable = replace(self.world.durable, main=main, snapshot=encode(self.groups), intent=None)
