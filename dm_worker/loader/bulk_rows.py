"""Executes statements of dump files by MariaDB's bulk execution, where the result is the same as the INSERT's.

A statement whose literals cannot become parameters (:mod:`pkg.mysql.bulk_types`) stays an INSERT. So does one at which
a bulk execution fails, because the error of an INSERT names the row.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.loader import turns
from dm_worker.loader.sql_file import BEFORE_ROWS, FileStatement, column_names
from pkg.mysql.bulk import PreparedStatement, takes_bulk
from pkg.mysql.bulk_types import types_of
from pkg.mysql.connection import is_lost, is_retryable
from pkg.mysql.introspect import fetch_table_info, is_partitioned, query
from pkg.mysql.pipeline import Refused, send_ahead
from pkg.mysql.schema import Column, TableInfo
from pkg.mysql.wire import Command
from pkg.native import load

_NATIVE = load("sqlscan")
#: Smaller statements gain nothing; larger ones would be in memory twice.
LEAST_BYTES = 8 << 10
MOST_BYTES = 16 << 20
_VARIABLES = ("version", "wsrep_on", "log_bin", "binlog_format")


@dataclass(slots=True)
class TargetTables:
    """The target tables of one task's files. ``refused``: tables at which a bulk execution failed."""

    structures: dict[tuple[str, str], TableInfo | None] = field(default_factory=dict)
    refused: set[tuple[str, str]] = field(default_factory=set)
    known_turns: dict[tuple[str, str], turns.Turn | None] = field(default_factory=dict)
    possible: bool | None = None

    def info(self, conn: Connection[Any], target: tuple[str, str]) -> TableInfo | None:
        """The table's structure; None when its rows must be inserted. Raises ``pymysql.Error``."""
        if self.possible is None:
            names = ", ".join(f"'{name}'" for name in _VARIABLES)
            rows = query(conn, f"SHOW VARIABLES WHERE Variable_name IN ({names})")
            self.possible = takes_bulk({str(name).lower(): str(value) for name, value in rows})
        if not self.possible or target in self.refused:
            return None
        info = self.structure(conn, target)
        return info if info is not None and info.engine.lower() == "innodb" else None

    def structure(self, conn: Connection[Any], target: tuple[str, str]) -> TableInfo | None:
        """The table's structure; None when there is no such table. Raises ``pymysql.Error``."""
        if target not in self.structures:
            self.structures[target] = fetch_table_info(conn, *target)
        return self.structures[target]

    def turn(self, conn: Connection[Any], info: TableInfo) -> turns.Turn | None:
        """The turn for the table's rows, None when its writers do not wait for each other. Raises ``pymysql.Error``."""
        target = info.schema, info.name
        if target not in self.known_turns:
            turn = turns.turn_of(info)
            # Each partition is a table of its own for the storage.
            self.known_turns[target] = None if turn is None or is_partitioned(conn, *target) else turn
        return self.known_turns[target]


class BulkFailed(Exception):
    """A bulk execution was refused; the transaction must be done again by INSERT."""


class BulkRows:
    """Executes one file's statements in bulk over one connection."""

    def __init__(self, conn: Connection[Any], targets: TargetTables, target: tuple[str, str]) -> None:
        """Create it before the file's own SETs change the server's answers. Raises ``pymysql.Error``."""
        self._conn, self._targets, self._target = conn, targets, target
        self._info = targets.info(conn, target) if _NATIVE is not None else None
        self._turn = targets.turn(conn, self._info) if self._info is not None else None
        self._session: tuple[bool, bool] | None = None
        self._packet = 0
        self._prepared: PreparedStatement | None = None

    def session_changed(self) -> None:
        """A SET of the file was executed: it may change what literals mean."""
        self._session = None

    def write(self, head: bytes, statement: FileStatement, tail: bytes) -> bool:
        """Writes the statement's rows; ``head`` and ``tail`` enclose them. False when an INSERT is needed.

        Raises :class:`BulkFailed`, and ``pymysql.Error`` for transient errors.
        """
        if self._info is None or not LEAST_BYTES <= len(statement.text) <= MOST_BYTES:
            return False
        try:
            return self._write(self._info, head, statement, tail)
        except (pymysql.Error, OSError, ValueError) as exc:
            if is_retryable(exc) and not is_lost(exc):
                raise  # a deadlock or similar
            # A lost connection counts as a refusal: a proxy may not know this command.
            self._targets.refused.add(self._target)
            raise BulkFailed from exc

    def _write(self, info: TableInfo, head: bytes, statement: FileStatement, tail: bytes) -> bool:
        literal, raw = self._session or self._look_at_session()
        match = BEFORE_ROWS.match(statement.text, statement.head)
        if not literal or match is None or _NATIVE is None:
            return False
        columns = _columns(info, match[1])
        found = _NATIVE.bulk_rows(statement.text, match.end(), len(columns)) if columns else None
        if found is None:
            return False
        count, forms, rows = found
        types = types_of(columns, forms, raw=raw)
        if types is None:
            return False
        marks = b"(" + b",".join([b"?"] * len(columns)) + b")"
        prepared = self._prepare(head + statement.text[statement.head : match.end()] + marks + tail, len(columns))
        if prepared.size(rows) > self._packet:
            return False
        if self._turn is not None and turns.suits(head, tail, len(rows) / count):
            self._execute_in_turn(self._turn, prepared.command(types, rows))
        else:
            prepared.execute(types, rows)
        return True

    def _execute_in_turn(self, turn: turns.Turn, command: Command) -> None:
        statements: tuple[bytes | Command, ...] = (turn.begin, command, turn.end)
        try:
            with closing(send_ahead(self._conn, statements, lambda sent: sent)) as answers:
                for _ in answers:
                    pass
        except Refused as exc:
            raise exc.cause from exc

    def _look_at_session(self) -> tuple[bool, bool]:
        """Whether the session reads literals in the default way, and whether strings are bytes."""
        *texts, packet = query(
            self._conn,
            "SELECT @@sql_mode, @@character_set_client, @@character_set_connection, @@max_allowed_packet",
        )[0]
        # After SET NAMES binary, the server returns all text as bytes.
        mode, client, connection = (text.decode() if isinstance(text, bytes) else text for text in texts)
        modes = set(mode.split(","))
        usual = client == connection and client in ("utf8mb4", "binary")
        self._packet = int(packet)
        self._session = usual and not modes & {"ANSI_QUOTES", "NO_BACKSLASH_ESCAPES"}, client == "binary"
        return self._session

    def _prepare(self, text: bytes, columns: int) -> PreparedStatement:
        if self._prepared is None or self._prepared.text != text:
            if self._prepared is not None:
                self._prepared.close()
            self._prepared = PreparedStatement(self._conn, text, columns)
        return self._prepared


def _columns(info: TableInfo, listed: bytes | None) -> list[Column]:
    """The columns of an INSERT with this column list or none; none when one is unknown."""
    if listed is None:
        return [column for column in info.columns if not column.invisible]
    found = [info.column(name) for name in column_names(listed)]
    return [] if None in found else [column for column in found if column is not None]
