"""The input of the cutover checks: plain data that ``reading.py`` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dm_master.cutover.verdict import Unreadable
from pkg.binlog.position import Location
from pkg.ddl.shown_table import ShownTable
from pkg.mysql.grants import Grants
from pkg.mysql.introspect import ServerInfo
from pkg.mysql.names import TableId, quote, quote_string
from pkg.mysql.schema import ForeignKey, TableInfo

#: Kind (trigger, view, procedure, …) → the (schema, name) of each, with the parts of its definition.
Objects = Mapping[str, Mapping[TableId, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How a table is partitioned: method and expression, perhaps also those of subpartitions. ``parts``: each
    partition with its values, '' where they are not listed, and how many subpartitions it has."""

    method: str
    expression: str
    below: tuple[str, str]
    parts: tuple[tuple[str, str, int], ...]

    def __str__(self) -> str:
        method, expression = self.below
        below = f", then by {method} ({expression})" if method else ""
        return f"by {self.method} ({self.expression}){below}"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The migrated tables of one server; the keys are the names on that server. ``shown``: what SHOW CREATE TABLE
    says of them."""

    structures: Mapping[TableId, TableInfo]
    #: The next number that the server would give; only tables with an AUTO_INCREMENT column.
    counters: Mapping[TableId, int]
    foreign_keys: tuple[ForeignKey, ...]
    shown: Mapping[TableId, ShownTable]
    partitions: Mapping[TableId, Partitioning]

    def definition(self, table: TableId) -> ShownTable:
        """Empty for a table that was dropped meanwhile."""
        return self.shown.get(table, ShownTable())


class Account(NamedTuple):
    """A user or a role. MariaDB's roles have no host: here it is ``%``, as MySQL's."""

    user: str
    host: str

    @classmethod
    def of(cls, user: object, host: object) -> Account:
        return cls(str(user), str(host).lower() or "%")

    def __str__(self) -> str:
        return f"{quote_string(self.user)}@{quote_string(self.host)}"

    def as_role(self, flavor: str) -> str:
        """The name of a role in statements for a server of that kind."""
        return quote(self.user) if flavor == "mariadb" else str(self)


NO_ACCOUNT = Account("", "%")


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """``grants``: its own, without those of its roles. ``roles``: each with whether it may grant the role to others.
    ``defaults``: the roles that are active in each new session. ``is_role``: others may have it."""

    grants: Grants
    roles: Mapping[Account, bool] = field(default_factory=dict)
    defaults: frozenset[Account] = frozenset()
    is_role: bool = False
    locked: bool = False


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """``label``: the source's name, or ``target``. ``users``: without the server's own accounts. ``hidden``: the kinds
    of objects that the user may not see as a whole, with the privilege that it needs."""

    label: str
    info: ServerInfo
    variables: Mapping[str, str]
    tables: TableFacts
    objects: Objects
    users: Mapping[Account, AccountFacts] | Unreadable
    hidden: Mapping[str, str] = field(default_factory=dict)
    #: The user's own account.
    account: Account = NO_ACCOUNT


@dataclass(frozen=True, slots=True)
class WriterFacts:
    """Signs of writers at an upstream.

    ``before``, ``after``: where its binlog ended, ``seconds`` apart. ``transactions``: open ones that changed rows;
    ``prepared``: XA transactions that wait for their end.
    """

    before: Location | None
    after: Location | None
    seconds: float
    transactions: tuple[str, ...] | Unreadable
    prepared: tuple[str, ...] | Unreadable


@dataclass(frozen=True, slots=True)
class CutoverUpstream:
    """``routed``: migrated table → its target table. ``mapped``: columns of migrated tables that a mapping changes."""

    server: ServerFacts
    writers: WriterFacts
    routed: Mapping[TableId, TableId]
    mapped: frozenset[tuple[TableId, str]]
    may_write: bool

    def schemas(self) -> dict[str, tuple[str, ...]]:
        """Migrated schema → the schemas of the target that its tables are in."""
        found: dict[str, dict[str, None]] = {}
        for source, target in sorted(self.routed.items()):
            found.setdefault(source[0], {})[target[0]] = None
        return {schema: tuple(targets) for schema, targets in found.items()}


@dataclass(frozen=True, slots=True)
class CutoverTarget:
    """``highest``: the highest value of the AUTO_INCREMENT column. ``may_read_binlog``: rights for a way back."""

    server: ServerFacts
    highest: Mapping[TableId, int]
    may_read_binlog: bool


@dataclass(frozen=True, slots=True)
class ValidatorFacts:
    """The validator's own state of one subtask; counts are rows."""

    stage: str
    location: Location
    pending: int
    new_errors: int


@dataclass(frozen=True, slots=True)
class DiffTableFacts:
    """One target table of the task's last comparison; ``positions``: by source, where both sides were read."""

    target: str
    state: str
    reason: str
    positions: Mapping[str, Location]


@dataclass(frozen=True, slots=True)
class DiffFacts:
    """The task's last comparison: ``verdict`` is ``equal``, ``different``, ``running`` or ``not compared``.
    ``started``: its time, '' if that is not known."""

    verdict: str
    tables: tuple[DiffTableFacts, ...]
    started: str = ""


@dataclass(frozen=True, slots=True)
class SubTaskFacts:
    """One subtask as its worker reports it; ``problem``: why its state is unknown, '' if it is known."""

    source: str
    problem: str = ""
    unit: str = ""
    stage: str = ""
    errors: tuple[str, ...] = ()
    applied: Location | None = None
    blocking: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    validator: ValidatorFacts | None = None


@dataclass(frozen=True, slots=True)
class CollisionFacts:
    """Keys that shards of one target table have in common. ``merges``: whether there are such shards; ``compared``:
    pairs of shards and keys; ``undecided``: what was not compared, and why."""

    merges: bool = False
    compared: int = 0
    found: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CutoverFacts:
    task: str
    upstreams: tuple[CutoverUpstream, ...]
    target: CutoverTarget
    subtasks: tuple[SubTaskFacts, ...]
    #: DDL locks of the task, or why they could not be read.
    locks: tuple[str, ...] | Unreadable
    diff: DiffFacts | Unreadable
    collisions: CollisionFacts = CollisionFacts()

    def upstream(self, source: str) -> CutoverUpstream | None:
        return next((one for one in self.upstreams if one.server.label == source), None)
