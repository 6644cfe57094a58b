"""Rewrites the statements on a ghost table for the real one, and checks that they lead to the same table. Pure."""

from __future__ import annotations

import re

from dm_worker.syncer.ddl.variables import defaults_of
from dm_worker.syncer.online_ddl.ghost_records import NO_QUERY, GhostDDL, GhostSession
from dm_worker.syncer.online_ddl.online_ddl import Replay
from pkg import ddl, errors
from pkg.ddl import Dialect
from pkg.ddl.sql_modes import sql_mode_text
from pkg.errors import Code
from pkg.mysql.names import qualified
from pkg.mysql.schema import Column, TableInfo
from pkg.schema_tracker import ServerDefaults

#: Not all servers show the width of an integer.
_INT_WIDTH = re.compile(r"\b(tinyint|smallint|mediumint|int|bigint)\(\d+\)")


def on_real_table(remembered: GhostDDL, replay: Replay, renaming: Dialect, server: ServerDefaults) -> ddl.DDLStatement:
    """The statement with the real table's name for the ghost's; ``renaming`` is the current event's dialect.

    Raises DMError for a statement stored by DM that is not understood.
    """
    session = remembered.session
    dialect = renaming if session is None else _dialect(session, renaming, server)
    parsed = ddl.parse_dialect(remembered.sql, dialect, replay.ghost[0])
    text = ddl.rewrite(
        parsed, lambda schema, table: replay.real if (schema, table) == replay.ghost else (schema, table)
    )
    return ddl.parse_dialect(text, dialect, replay.ghost[0])


def _dialect(session: GhostSession, renaming: Dialect, server: ServerDefaults) -> Dialect:
    defaults = defaults_of(session.onto(NO_QUERY), server.collations)
    return renaming.under(sql_mode_text(session.sql_mode), defaults)


def check_agree(replay: Replay, before: TableInfo | None, after: TableInfo | None, ghost: TableInfo | None) -> None:
    """Checks that ``after``, the real table after the stored statements, has the ghost table's columns.

    Unknown structures (None) can't be compared. Raises 36043 when they differ, as after a change in the ghost's CREATE
    TABLE, and 36046 when no statement was stored and nothing can be compared.
    """
    if before is None or after is None or ghost is None:
        if replay.ddls:
            return
        raise errors.new(
            Code.SyncerUnitGhostOnlineDDLOnGhostTbl,
            f"the ghost table {qualified(*replay.ghost)} replaces {qualified(*replay.real)}; no statement changed "
            "it since its creation, and the structures are not known",
            workaround=_BY_HAND.format(qualified(*replay.real)),
        )
    got, wanted = [list(map(_shown, table.columns)) for table in (after, ghost)]
    if got == wanted:
        return
    statements = "; ".join(ddl_.sql for ddl_ in replay.ddls) or "(none)"
    raise errors.new(
        Code.SyncerUnitGhostRenameTableNotValid,
        f"the ghost table {qualified(*replay.ghost)} replaces {qualified(*replay.real)}, but its columns are not "
        f"those that its statements lead to: ({', '.join(wanted)}) instead of ({', '.join(got)}); recorded "
        f"statements: {statements[:1000]}",
        workaround=_BY_HAND.format(qualified(*replay.real)),
    )


_BY_HAND = (
    "Find out how the tool changed the table. Replace this statement with an ALTER TABLE of {} that does it "
    "(binlog replace); or alter the target's table by hand and skip this statement with binlog skip."
)


def _shown(column: Column) -> str:
    column_type = _INT_WIDTH.sub(r"\1", column.column_type)
    return f"{column.name.lower()} {column_type}"
