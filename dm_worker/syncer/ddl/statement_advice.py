"""The errors of statements, with their location in the binlog and advice for the operator. Pure."""

from __future__ import annotations

from dataclasses import replace

from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg.binlog.position import Location, location_range
from pkg.errors import DMError
from pkg.errors.workarounds import Advice
from pkg.ha.binlog_operator import position_name
from pkg.mysql.names import qualified


def explained(exc: DMError, statement: BinlogStatement) -> DMError:
    """The error with its location, and with the commands that skip or replace the statement."""
    # As in DM: the start of the event itself, not of its transaction.
    begin = replace(statement.start, position=statement.at)
    found = exc.at(location_range(begin, statement.after))
    if exc.retryable:
        return found
    own = exc.workaround.replace(Advice.SKIP_OR_REPLACE, "").replace(Advice.CONTINUE_AFTER_EVENT, "").strip()
    return found.with_workaround(f"{own} {Advice.SKIP_OR_REPLACE.about(position_name(statement.at))}".strip())


def unsettled(exc: DMError, settle: SettleDDL) -> DMError:
    """The error with its location, and the operator action for a DDL that all shards have run."""
    # The statement of the shard that ran it first; its key is its end position, or its GTID.
    end = f"position: {settle.key}, gtid-set: " if settle.key.startswith("(") else f"gtid-set: {settle.key}"
    where = f"startLocation: {Location(settle.at)}, endLocation: [{end}]"
    exc = exc.at(f"{where}, as the first shard of {qualified(*settle.target)} ran it")
    if exc.retryable:
        return exc
    own = exc.workaround.replace(Advice.SKIP_OR_REPLACE, "").strip()
    return exc.with_workaround(f"{own} {Advice.SKIP_OR_REPLACE_RESOLVED.about(position_name(settle.at))}".strip())
