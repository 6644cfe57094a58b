"""What a run asks and reports about shards, whichever way their DDL is coordinated: one class per way.

The planning thread asks whose rows are taken, the main loop tells what was passed, and each checkpoint has the state.
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

#: Whether row changes of an upstream table are of interest.
TakesRows = Callable[[str, str], bool]


class ShardCoordination(ABC):
    """One run's shards. Each run has one: :class:`NoSharding` where no tables merge."""

    #: Whether each checkpoint has a state of the shards, which belongs to its location.
    keeps_state: ClassVar[bool]

    # -- a run's begin and end ----------------------------------------------------------------------------------

    @abstractmethod
    def start(self) -> None:
        """Begins to talk to the other sources."""

    @abstractmethod
    def stop(self) -> None:
        """Ends that; also when it has not begun."""

    # -- what the planning thread asks --------------------------------------------------------------------------

    @abstractmethod
    def allows(self, schema: str, table: str) -> bool:
        """Whether the rows of a table are applied, or held back and counted."""

    @abstractmethod
    def holds_back(self, schema: str, table: str) -> bool:
        """Whether the rows of a table that :meth:`allows` let through are held back. Raises 36005."""

    @abstractmethod
    def structure(self, table_map: TableMap) -> TableInfo:
        """The structure that the rows after ``table_map`` have. Raises DMError when none agrees with it."""

    # -- what the main loop tells -------------------------------------------------------------------------------

    @abstractmethod
    def passed(self, item: Batch | Advance) -> None:
        """All that is due up to the end of ``item`` is applied."""

    @abstractmethod
    def executed(self, statement: BinlogStatement) -> None:
        """The main pass has executed a statement, and told of all its parts."""

    @abstractmethod
    def met_again(self, statement: BinlogStatement) -> None:
        """The re-read has come to a statement."""

    @abstractmethod
    def follow_decisions(self) -> bool:
        """Takes what the other sources have agreed on; True when that is to be made durable. Raises DMError.

        To be asked once nothing is to be done again.
        """

    @abstractmethod
    def due(self, applied: Location) -> SettleDDL | None:
        """The DDL to settle now that all up to ``applied`` is applied, if there is one."""

    @abstractmethod
    def settling(self, settle: SettleDDL, error: DMError | None = None) -> None:
        """The sources that wait for this one shall know that it executes now, or why it could not."""

    @abstractmethod
    def settled(self, main: Location) -> None:
        """The DDL to settle is carried out; the main pass stands at ``main``."""

    # -- passes over the binlog ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def needs_new_pass(self) -> bool:
        """Whether the set of rows to apply has changed, so that what is planned must be discarded."""

    @abstractmethod
    def pass_ended(self) -> None:
        """What was planned is discarded."""

    @property
    @abstractmethod
    def reread(self) -> RereadPass | None:
        """The re-read that runs; None in the main pass."""

    @property
    @abstractmethod
    def checkpoint(self) -> Location | None:
        """Where the main pass stands while rows are read again; None in the main pass."""

    # -- what is durable ----------------------------------------------------------------------------------------

    @abstractmethod
    def take_changes(self) -> GroupsChanges:
        """What must be written with the next checkpoint; once each."""

    @abstractmethod
    def put_back(self, changes: GroupsChanges) -> None:
        """They could not be stored."""

    @abstractmethod
    def stored(self, changes: GroupsChanges) -> None:
        """They are durable: what follows from them may be done."""

    @property
    @abstractmethod
    def has_news(self) -> bool:
        """Whether something waits for a change to become durable."""

    @property
    @abstractmethod
    def oldest_needed(self) -> Location | None:
        """Where the first DDL was met that is not durably settled: until then a crash brings it back."""

    # -- what other threads ask ---------------------------------------------------------------------------------

    @abstractmethod
    def is_settled(self, settle: SettleDDL) -> bool:
        """Whether what was to be settled is, as far as this run knows."""

    @abstractmethod
    def status(self) -> ShardingStatus:
        """What query-status shows of the shards."""


class NoSharding(ShardCoordination):
    """No tables merge: all rows are due where they are read, and every statement is executed there."""

    keeps_state = False
    needs_new_pass = False
    reread = None
    checkpoint = None
    has_news = False
    oldest_needed = None

    def __init__(self, structures: StructureSource, takes_rows: TakesRows) -> None:
        self._structures = structures
        self._takes_rows = takes_rows

    def start(self) -> None:
        """There is nobody to talk to."""

    def stop(self) -> None:
        """As :meth:`start`."""

    def allows(self, schema: str, table: str) -> bool:
        return self._takes_rows(schema, table)

    def holds_back(self, schema: str, table: str) -> bool:
        return False

    def structure(self, table_map: TableMap) -> TableInfo:
        return self._structures.structure(table_map)

    def passed(self, item: Batch | Advance) -> None:
        """No state depends on it."""

    def executed(self, statement: BinlogStatement) -> None:
        """No state depends on it."""

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
        """Each pass takes the same rows."""

    def take_changes(self) -> GroupsChanges:
        return GroupsChanges()

    def put_back(self, changes: GroupsChanges) -> None:
        """There were none."""

    def stored(self, changes: GroupsChanges) -> None:
        """There were none."""

    def is_settled(self, settle: SettleDDL) -> bool:
        return False

    def status(self) -> ShardingStatus:
        return NO_GROUPS


def _impossible() -> AssertionError:
    return AssertionError("no tables merge: nothing is read again, and nothing settled")
