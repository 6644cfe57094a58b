"""Finds values of dump files that the target would silently change. Reads only the rows of tables with such columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dm_worker.dumper.file_names import parse
from dm_worker.loader.row_rewriter import RowRules
from dm_worker.loader.schema_files import create_statement
from dm_worker.loader.sql_file import BEFORE_ROWS, FileStatement, column_names
from dm_worker.loader.tuples import NoTupleError, tuples
from pkg import errors
from pkg.errors import Code, DMError
from pkg.mysql.names import qualified
from pkg.mysql.schema import TableInfo
from pkg.rules import value_loss
from pkg.rules.value_loss import ColumnLoss
from pkg.schema_tracker import ServerDefaults, parse_create_table

#: A value in a message is cut to this many bytes.
_SHOWN = 200


def upstream_structure(folder: Path, name: str, table: tuple[str, str], flavor: str) -> TableInfo | None:
    """The structure in the dump's schema file; None where the dump has none. Raises 34005, and the parser's errors."""
    file = parse(name) if name else None
    if file is None:
        return None
    server = ServerDefaults(flavor="mariadb" if flavor == "mariadb" else "mysql")
    return parse_create_table(create_statement(folder, file), file.schema, server).renamed(*table)


@dataclass(frozen=True, slots=True)
class ValueChecks:
    """The checks of one file's rows. ``visible`` and ``stored``: the columns of rows without a column list."""

    file: str
    target: tuple[str, str]
    losses: tuple[ColumnLoss, ...]
    visible: tuple[str, ...]
    stored: tuple[str, ...]

    @classmethod
    def of(
        cls, file: str, upstream: TableInfo, target: TableInfo, rules: RowRules | None, *, allowed: bool
    ) -> ValueChecks | None:
        """None where the target stores or refuses every value, as it does for most tables."""
        mapping = rules.mapping if rules is not None else None
        mapped = {upstream.columns[t.target].name.lower() for t in mapping.transforms} if mapping is not None else set()
        found = value_loss.table_losses(upstream, target, allowed=allowed)
        losses = tuple(loss for loss in found if loss.column.lower() not in mapped)
        visible = [column for column in upstream.columns if not column.invisible]
        stored = tuple(column.name for column in visible if not column.generated)
        there = (target.schema, target.name)
        return cls(file, there, losses, tuple(column.name for column in visible), stored) if losses else None

    def ensure_kept(self, statement: FileStatement) -> None:
        """Raises 34019 for the first value that the target would change. The server checks statements other than
        INSERT with rows."""
        begin = statement.end - 1 - len(statement.text)
        match = BEFORE_ROWS.match(statement.text, statement.head)
        if match is None:
            return
        listed = column_names(match[1]) if match[1] is not None else None
        try:
            for offset, spans in tuples(statement.text, match.end()):
                for loss, literal in self._checked(listed, [bytes(statement.text[a:b]) for a, b in spans]):
                    if loss.every or loss.changes(literal):
                        raise self._error(loss, literal, begin + offset)
        except NoTupleError:
            return

    def _checked(self, listed: Sequence[str] | None, row: list[bytes]) -> list[tuple[ColumnLoss, bytes]]:
        names = listed or (self.visible if len(row) == len(self.visible) else self.stored)
        values = {name.lower(): literal for name, literal in zip(names, row, strict=False)}
        return [
            (loss, values.get(loss.column.lower(), b""))
            for loss in self.losses
            if loss.every or loss.column.lower() in values
        ]

    def _error(self, loss: ColumnLoss, literal: bytes, offset: int) -> DMError:
        shown = literal[:_SHOWN].decode("utf-8", "backslashreplace") + ("…" if len(literal) > _SHOWN else "")
        value = f" than {shown}" if literal else ""
        return errors.new(
            Code.LoadLightningRuntime,
            f"cannot load {self.file} (at byte {offset}): {qualified(*self.target)} would store another value{value}: "
            f"{value_loss.describe(loss)}",
            scope="downstream",
            workaround=value_loss.way_out(self.target, loss),
        )
