"""The schema tracker: the structure of every upstream table at the current position. Pure, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from pkg import errors
from pkg.ddl import DDLStatement
from pkg.ddl.failure import shorten
from pkg.ddl.statement import RenameTable, TableRef
from pkg.errors import Code
from pkg.errors.workarounds import Advice
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker.alter import altered, changes_structure
from pkg.schema_tracker.server import Charset, ServerDefaults
from pkg.schema_tracker.structure import copy_of, table_charset, table_of

TableKey = tuple[str, str]


class SchemaTracker:
    """Tables by schema and name, changed by the upstream's statements.

    ``case_sensitive`` is the upstream's treatment of table names (``lower_case_table_names`` 0). A statement about an
    unknown table raises 44005, so that the caller can find the structure first; one that can't apply raises 44006.
    Neither changes anything.
    """

    def __init__(self, server: ServerDefaults, *, case_sensitive: bool = True) -> None:
        self.server = server
        self._case_sensitive = case_sensitive
        self._tables: dict[TableKey, TableInfo] = {}
        self._schemas: dict[str, Charset] = {}

    # -- structures -------------------------------------------------------------------------------------------------

    def table(self, schema: str, name: str) -> TableInfo | None:
        return self._tables.get(self._key(schema, name))

    def tables(self) -> list[TableInfo]:
        return list(self._tables.values())

    def set_table(self, table: TableInfo) -> None:
        self._tables[self._key(table.schema, table.name)] = table

    def drop_table(self, schema: str, name: str) -> None:
        """Drops a table from the tracker; no effect if it is unknown."""
        self._tables.pop(self._key(schema, name), None)

    def set_schema(self, name: str, charset: str, collation: str = "") -> None:
        """The charset that tables of this schema inherit. Raises ``ValueError`` for an unknown charset."""
        self._schemas[self._fold(name)] = self.server.resolve(charset, collation, None)

    def drop_schema(self, name: str) -> None:
        """Drops a schema with all of its tables from the tracker."""
        folded = self._fold(name)
        self._schemas.pop(folded, None)
        self._tables = {key: table for key, table in self._tables.items() if key[0] != folded}

    def snapshot(self, names: Iterable[TableKey] | None = None) -> dict[TableKey, str]:
        """(schema, table) → JSON of the structure, for all tables or for the known ones of ``names``."""
        known = self.tables() if names is None else [t for t in (self.table(*name) for name in names) if t]
        return {(table.schema, table.name): table.to_json() for table in known}

    def restore(self, snapshot: Mapping[TableKey, str]) -> None:
        """Adds the tables of a snapshot; others stay. Raises 44001 for text that is no snapshot."""
        for (schema, name), text in snapshot.items():
            try:
                self.set_table(TableInfo.from_json(text))
            except (ValueError, KeyError, TypeError) as exc:
                raise errors.new(
                    Code.SchemaTrackerInvalidJSON,
                    f"the saved structure of `{schema}`.`{name}` cannot be read",
                    raw=exc,
                    workaround=Advice.CORRECT_STRUCTURE.for_table(schema, name),
                ) from exc

    # -- statements -------------------------------------------------------------------------------------------------

    def apply(self, statement: DDLStatement) -> None:
        """Applies the statement's effect at the upstream."""
        handlers: Mapping[str, Callable[[DDLStatement], None]] = {
            "drop database": lambda s: self.drop_schema(s.refs[0].schema),
            "create table": self._create_table,
            "alter table": self._alter_table,
            "create index": self._alter_table,
            "drop index": self._alter_table,
            "drop table": self._drop_tables,
            "rename table": self._rename_tables,
        }
        if statement.kind in ("create database", "alter database"):
            self._set_schema_options(statement)
        elif statement.kind in handlers:
            handlers[statement.kind](statement)

    def preview(self, statement: DDLStatement, name: TableKey) -> TableInfo | None:
        """The table ``name`` after :meth:`apply`, without applying anything. Raises as :meth:`apply`."""
        return self._previews([statement], name)[-1]

    def stages(self, table: TableInfo, statements: Sequence[DDLStatement]) -> list[TableInfo | None]:
        """``table`` after each of the statements; nothing changes here. Raises as :meth:`apply`."""
        return self._previews(statements, (table.schema, table.name), table)

    def _previews(
        self, statements: Sequence[DDLStatement], name: TableKey, table: TableInfo | None = None
    ) -> list[TableInfo | None]:
        found: list[TableInfo | None] = []
        tables, schemas = dict(self._tables), dict(self._schemas)
        try:
            if table is not None:
                self.set_table(table)
            for statement in statements:
                self.apply(statement)
                found.append(self.table(*name))
            return found
        finally:
            self._tables, self._schemas = tables, schemas

    def _set_schema_options(self, statement: DDLStatement) -> None:
        name = statement.refs[0].schema
        known = self._schemas.get(self._fold(name))
        if statement.if_not_exists and known is not None:
            return
        new = statement.kind == "create database" or known is None
        inherited = self.server.default_in(statement.dialect.session) if new else known
        if statement.or_replace:
            self.drop_schema(name)
        try:
            charset = table_charset(statement.options, inherited or self.server.default, self.server)
        except ValueError as exc:
            raise _cannot_apply(statement, str(exc)) from exc
        self._schemas[self._fold(name)] = charset

    def _create_table(self, statement: DDLStatement) -> None:
        ref = statement.refs[0]
        if self.table(ref.schema, ref.table) is not None and not statement.or_replace:
            if statement.if_not_exists:
                return
            raise _cannot_apply(statement, f"the table `{ref.schema}`.`{ref.table}` exists already")
        body = statement.body
        if body is None:
            raise _cannot_apply(statement, "it has no columns")
        if body.like is not None:
            self.set_table(copy_of(self._known(body.like, statement), ref.schema, ref.table))
        else:
            self.set_table(table_of(statement, body, self._charset(ref.schema), self.server))

    def _alter_table(self, statement: DDLStatement) -> None:
        actions = statement.actions
        if not changes_structure(actions):
            return
        ref = statement.refs[0]
        if statement.if_exists and statement.kind == "alter table" and self.table(ref.schema, ref.table) is None:
            return
        table = self._known(ref, statement)
        try:
            changed = altered(table, actions, self._charset(ref.schema), self._selected_charset(statement), self.server)
        except ValueError as exc:
            raise _cannot_apply(statement, str(exc)) from exc
        self.set_table(changed)
        for action in actions:
            if isinstance(action, RenameTable):
                self._rename(ref, action.target, statement)

    def _drop_tables(self, statement: DDLStatement) -> None:
        for ref in statement.refs:
            self.drop_table(ref.schema, ref.table)

    def _rename_tables(self, statement: DDLStatement) -> None:
        before = dict(self._tables)
        try:
            for source, target in zip(statement.refs[::2], statement.refs[1::2], strict=True):
                if not (statement.if_exists and self.table(source.schema, source.table) is None):
                    self._rename(source, target, statement)
        except errors.DMError:
            self._tables = before
            raise

    def _rename(self, source: TableRef, target: TableRef, statement: DDLStatement) -> None:
        table = self._known(source, statement)
        self.drop_table(source.schema, source.table)
        self.set_table(table.renamed(target.schema, target.table))
        old, new = self._key(source.schema, source.table), (target.schema, target.table)
        for other in self.tables():
            if any(self._key(*parent) == old for parent in other.foreign_keys):
                self.set_table(_repointed(other, [new if self._key(*p) == old else p for p in other.foreign_keys]))

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _known(self, ref: TableRef, statement: DDLStatement) -> TableInfo:
        table = self.table(ref.schema, ref.table)
        if table is None:
            raise errors.new(
                Code.SchemaTrackerCannotGetTable,
                f"the structure of `{ref.schema}`.`{ref.table}` is not known; statement: {shorten(statement.sql)}",
                workaround=f"{Advice.SKIP_OR_REPLACE} {Advice.CORRECT_STRUCTURE.for_table(ref.schema, ref.table)}",
            )
        return table

    def _charset(self, schema: str) -> Charset:
        return self._schemas.get(self._fold(schema), self.server.default)

    def _selected_charset(self, statement: DDLStatement) -> Charset:
        """The charset of the schema that was selected when the statement ran."""
        if statement.default_schema:
            return self._charset(statement.default_schema)
        return self.server.default_in(statement.dialect.session)

    def _key(self, schema: str, name: str) -> TableKey:
        return self._fold(schema), self._fold(name)

    def _fold(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()


def _repointed(table: TableInfo, parents: Iterable[TableKey]) -> TableInfo:
    return replace(table, foreign_keys=tuple(sorted(set(parents))))


def _cannot_apply(statement: DDLStatement, why: str) -> errors.DMError:
    tables = ", ".join(f"`{schema}`.`{table}`" for schema, table in statement.tables)
    schema, table = statement.tables[0]
    correct = f" {Advice.CORRECT_STRUCTURE.for_table(schema, table)}" if table else ""
    return errors.new(
        Code.SchemaTrackerCannotExecDDL,
        f"the statement does not fit the known structure of {tables}: {why}; statement: {shorten(statement.sql)}",
        workaround=f"{Advice.SKIP_OR_REPLACE}{correct}",
    )
