"""The errors of statements, with their place in the binlog and the commands that get past them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg.binlog.position import Location, location_range
from pkg.errors import DMError
from pkg.errors.workarounds import (
    CONTINUE_AFTER_EVENT,
    CORRECT_STRUCTURE,
    SKIP_OR_REPLACE,
    correct_structure,
    skip_or_replace,
    skip_or_replace_resolved,
)  # fmt: skip
from pkg.ha.binlog_operator import position_name
from pkg.mysql.names import qualified


@dataclass(frozen=True, slots=True)
class StatementAdvice:
    """The commands name the ``task`` and the ``source``."""

    task: str
    source: str

    def explained(self, exc: DMError, statement: BinlogStatement) -> DMError:
        """The error with its place, and with the commands that get past it."""
        # As in DM: where the event itself begins, and not its transaction.
        begin = replace(statement.start, position=statement.at)
        found = exc.at(location_range(begin, statement.after))
        if exc.retryable:
            return found
        command = skip_or_replace(self.task, self.source, position_name(statement.at))
        own = exc.workaround.replace(SKIP_OR_REPLACE, "").replace(CONTINUE_AFTER_EVENT, "").strip()
        own = own.replace(CORRECT_STRUCTURE, correct_structure(self.task, self.source))
        return found.with_workaround(f"{own} {command}".strip())

    def unsettled(self, exc: DMError, settle: SettleDDL) -> DMError:
        """The error with its place, and with the way past a DDL that all shards have run."""
        # The statement of the shard that ran it first; its key is where that ends, or its GTID.
        end = f"position: {settle.key}, gtid-set: " if settle.key.startswith("(") else f"gtid-set: {settle.key}"
        where = f"startLocation: {Location(settle.at)}, endLocation: [{end}]"
        exc = exc.at(f"{where}, as the first shard of {qualified(*settle.target)} ran it")
        if exc.retryable:
            return exc
        own = exc.workaround.replace(SKIP_OR_REPLACE, "").strip()
        command = skip_or_replace_resolved(self.task, self.source, position_name(settle.at))
        return exc.with_workaround(f"{own} {command}".strip())
