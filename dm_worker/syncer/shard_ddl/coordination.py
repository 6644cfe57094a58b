"""The interface between a run and its shards: one class per way to coordinate their DDL.

The planning thread asks whose rows to apply, the main loop reports its progress, and each checkpoint stores the state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement
from dm_worker.syncer.rows.table_registry import StructureSource
from dm_worker.syncer.shard_ddl.group_status import NO_GROUPS, ShardingStatus
from dm_worker.syncer.shard_ddl.groups_table import GroupsChanges
from dm_worker.syncer.shard_ddl.reread import RereadPass
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg.binlog.position import Location
from pkg.binlog.table_map import TableMap
from pkg.errors import DMError
from pkg.mysql.schema import TableInfo

#: Whether the task uses the row changes of an upstream table.
TakesRows = Callable[[str, str], bool]


class ShardCoordination(ABC):
    """One run's shards. Each run has one: :class:`NoSharding` where no tables merge."""

    #: Whether each checkpoint includes a state of the shards, which belongs to its location.
    keeps_state: ClassVar[bool]

    # -- start and end of a run ---------------------------------------------------------------------------------

    @abstractmethod
    def start(self, wake: Callable[[], None]) -> None:
        """Starts the communication with the other sources. ``wake`` is called, from any thread, when
        :meth:`follow_decisions` has something to follow."""

    @abstractmethod
    def stop(self) -> None:
        """Stops the communication; also if it has not started."""

    # -- queries of the planning thread -------------------------------------------------------------------------

    @abstractmethod
    def allows(self, schema: str, table: str) -> bool:
        """Whether the rows of a table are applied, or held back and counted."""

    @abstractmethod
    def holds_back(self, schema: str, table: str) -> bool:
        """Whether the rows of a table that :meth:`allows` accepted are held back. Raises 36005."""

    @abstractmethod
    def structure(self, table_map: TableMap) -> TableInfo:
        """The structure of the rows after ``table_map``. Raises DMError when no known one matches it."""

    # -- reports of the main loop -------------------------------------------------------------------------------

    @abstractmethod
    def passed(self, item: Batch | Advance) -> None:
        """All due rows up to the end of ``item`` are applied."""

    @abstractmethod
    def executed(self, statement: BinlogStatement) -> None:
        """The main pass has executed a statement, and reported all its parts."""

    @abstractmethod
    def met_again(self, statement: BinlogStatement) -> None:
        """The re-read has reached a statement."""

    @abstractmethod
    def follow_decisions(self) -> bool:
        """Takes the decisions of the other sources; True when they are to be made durable. Raises DMError.

        Call it once no range is left to apply again.
        """

    @abstractmethod
    def due(self, applied: Location) -> SettleDDL | None:
        """The DDL to settle now that all up to ``applied`` is applied; None if there is none."""

    @abstractmethod
    def settling(self, settle: SettleDDL, error: DMError | None = None) -> None:
        """Reports to waiting sources that this one executes the DDL now, or why it could not."""

    @abstractmethod
    def settled(self, main: Location) -> None:
        """The DDL is settled; the main pass is at ``main``."""

    # -- passes over the binlog ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def needs_new_pass(self) -> bool:
        """Whether the set of rows to apply has changed, so that planned batches must be discarded."""

    @abstractmethod
    def pass_ended(self) -> None:
        """The planned batches are discarded."""

    @property
    @abstractmethod
    def reread(self) -> RereadPass | None:
        """The current re-read; None in the main pass."""

    @property
    @abstractmethod
    def checkpoint(self) -> Location | None:
        """The location of the main pass while rows are read again; None in the main pass."""

    # -- durable state ------------------------------------------------------------------------------------------

    @abstractmethod
    def take_changes(self) -> GroupsChanges:
        """The changes that the next checkpoint must store; each is returned once."""

    @abstractmethod
    def put_back(self, changes: GroupsChanges) -> None:
        """The changes could not be stored."""

    @abstractmethod
    def stored(self, changes: GroupsChanges) -> None:
        """The changes are durable: their consequences may be executed."""

    @property
    @abstractmethod
    def has_news(self) -> bool:
        """Whether an action waits for a change to become durable."""

    @property
    @abstractmethod
    def oldest_needed(self) -> Location | None:
        """The location of the first DDL that is not durably settled: until then, it is read again after a crash."""

    # -- queries of other threads -------------------------------------------------------------------------------

    @abstractmethod
    def is_settled(self, settle: SettleDDL) -> bool:
        """Whether this run knows that the DDL is settled."""

    @abstractmethod
    def status(self) -> ShardingStatus:
        """The shards' state for query-status."""


class NoSharding(ShardCoordination):
    """No tables merge: all rows are due where they are read, and every statement is executed at its own location."""

    keeps_state = False
    needs_new_pass = False
    reread = None
    checkpoint = None
    has_news = False
    oldest_needed = None

    def __init__(self, structures: StructureSource, takes_rows: TakesRows) -> None:
        self._structures = structures
        self._takes_rows = takes_rows

    def start(self, wake: Callable[[], None]) -> None:
        """Does nothing: there are no other sources."""

    def stop(self) -> None:
        """Does nothing, like :meth:`start`."""

    def allows(self, schema: str, table: str) -> bool:
        return self._takes_rows(schema, table)

    def holds_back(self, schema: str, table: str) -> bool:
        return False

    def structure(self, table_map: TableMap) -> TableInfo:
        return self._structures.structure(table_map)

    def passed(self, item: Batch | Advance) -> None:
        """Does nothing: there is no state."""

    def executed(self, statement: BinlogStatement) -> None:
        """Does nothing: there is no state."""

    def met_again(self, statement: BinlogStatement) -> None:
        raise _impossible()

    def follow_decisions(self) -> bool:
        return False

    def due(self, applied: Location) -> SettleDDL | None:
        return None

    def settling(self, settle: SettleDDL, error: DMError | None = None) -> None:
        raise _impossible()

    def settled(self, main: Location) -> None:
        raise _impossible()

    def pass_ended(self) -> None:
        """Does nothing: each pass applies the same rows."""

    def take_changes(self) -> GroupsChanges:
        return GroupsChanges()

    def put_back(self, changes: GroupsChanges) -> None:
        """Does nothing: there are no changes."""

    def stored(self, changes: GroupsChanges) -> None:
        """Does nothing: there are no changes."""

    def is_settled(self, settle: SettleDDL) -> bool:
        return False

    def status(self) -> ShardingStatus:
        return NO_GROUPS


def _impossible() -> AssertionError:
    return AssertionError("no tables merge: nothing is read again, and nothing settled")
