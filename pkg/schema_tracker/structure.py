"""CREATE TABLE → structure."""

from __future__ import annotations

from dataclasses import replace

from pkg import errors
from pkg.ddl import DDLStatement, parse
from pkg.ddl.failure import shorten
from pkg.ddl.statement import IndexDef, TableBody, TableOptions
from pkg.errors import Code
from pkg.errors.workarounds import Advice
from pkg.mysql.schema import Index, TableInfo, in_order
from pkg.schema_tracker.indexes import add_index, without_nulls
from pkg.schema_tracker.server import Charset, ServerDefaults
from pkg.schema_tracker.types import resolve_column


def parse_create_table(
    sql: str, default_schema: str, server: ServerDefaults, *, inherited: Charset | None = None, sql_mode: str = ""
) -> TableInfo:
    """The structure from a CREATE TABLE text (a dump's schema file, SHOW CREATE TABLE).

    ``inherited`` is the charset of the schema, the server's when None. Raises 36067 for text that is not understood,
    44009 for another statement or for one that needs other tables (LIKE).
    """
    statement = parse(
        sql, sql_mode=sql_mode, default_schema=default_schema, flavor=server.flavor, version=server.version
    )
    if statement.kind != "create table" or statement.body is None or statement.body.like is not None:
        raise errors.new(
            Code.SchemaTrackerInvalidCreateTableStmt,
            f"expected a CREATE TABLE statement with columns, found: {shorten(sql)}",
            workaround="Give the complete structure of one table, as SHOW CREATE TABLE prints it.",
        )
    return table_of(statement, statement.body, inherited or server.default, server)


def table_of(statement: DDLStatement, body: TableBody, inherited: Charset, server: ServerDefaults) -> TableInfo:
    """The structure from a parsed CREATE TABLE. Raises 44003 when it contradicts itself."""
    ref = statement.refs[0]
    try:
        charset = table_charset(body.options, inherited, server)
        columns = tuple(resolve_column(column, charset, server) for column in body.columns)
        indexes: list[Index] = []
        for definition in _keys_first(body.indexes):
            add_index(indexes, definition, columns)
    except ValueError as exc:
        raise errors.new(
            Code.SchemaTrackerCannotCreateTable,
            f"the structure of `{ref.schema}`.`{ref.table}` cannot be determined: {exc}; statement: "
            f"{shorten(statement.sql)}",
            workaround=Advice.CORRECT_STRUCTURE.for_table(ref.schema, ref.table),
        ) from exc
    return TableInfo(
        schema=ref.schema,
        name=ref.table,
        columns=without_nulls(columns, indexes, body.periods),
        indexes=in_order(indexes),
        charset=charset.name,
        collation=charset.collation,
        foreign_keys=referenced_tables(body.indexes),
        engine=body.options.engine,
    )


def _keys_first(indexes: tuple[IndexDef, ...]) -> list[IndexDef]:
    """A foreign key's own index comes last: any other index of the statement may serve it."""
    return sorted(indexes, key=lambda index: index.kind == "foreign")


def referenced_tables(indexes: tuple[IndexDef, ...]) -> tuple[tuple[str, str], ...]:
    refs = [index.reference for index in indexes if index.reference is not None]
    return tuple(sorted({(ref.schema, ref.table) for ref in refs}))


def table_charset(options: TableOptions, inherited: Charset, server: ServerDefaults) -> Charset:
    """The default charset of a table or schema with these options; ``inherited`` for DEFAULT."""
    charset = options.charset
    if charset.lower() == "default" and server.mariadb:
        # MariaDB uses only the charset's name, with its default collation.
        charset = inherited.name
    return server.resolve(charset, options.collation, inherited)


def copy_of(source: TableInfo, schema: str, name: str) -> TableInfo:
    """CREATE TABLE … LIKE: everything except the foreign keys."""
    return replace(source.renamed(schema, name), foreign_keys=())
