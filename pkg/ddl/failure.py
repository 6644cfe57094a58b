"""The errors of statements."""

from __future__ import annotations

from pkg import errors
from pkg.errors import Code
from pkg.errors.workarounds import Advice

_SHOWN = 2000


def parse_error(sql: str, offset: int, what: str) -> errors.DMError:
    """36067 for the problem ``what`` at ``offset`` (in characters) of ``sql``."""
    near = sql[offset : offset + 40].strip()
    where = f"near {near!r} (offset {offset})" if near else "at its end"
    return errors.new(
        Code.SyncerParseDDL,
        f"the statement is not understood {where}: {what}; statement: {shorten(sql)}",
        workaround=Advice.SKIP_OR_REPLACE,
    )


def unsupported(sql: str, what: str) -> errors.DMError:
    """36067 for a statement that is understood, but can't be migrated unchanged."""
    return errors.new(Code.SyncerParseDDL, f"{what}; statement: {shorten(sql)}", workaround=Advice.SKIP_OR_REPLACE)


def dml_found(sql: str) -> errors.DMError:
    """36014: a statement changed rows, so their images are not in the binlog."""
    return errors.new(
        Code.SyncUnitDMLStatementFound,
        f"only ROW format binlog is supported, but a DML statement was found: {shorten(sql)}",
        workaround="Set `binlog_format` to ROW on the upstream (also in its sessions), and copy the tables that "
        f"this statement changed again. {Advice.SKIP_OR_REPLACE}",
    )


def shorten(sql: str) -> str:
    """The statement for a message: complete unless it is huge."""
    return sql if len(sql) <= _SHOWN else f"{sql[:_SHOWN]}… ({len(sql)} characters)"
