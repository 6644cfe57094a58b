"""The sources of upstream tables' structures, and which structures must be stored with the checkpoint.

In this order: the tracker (the checkpoint's structures, updated by the DDLs since), DM's structures in the
checkpoint (:mod:`foreign_structures`), the dump's schema files, the upstream's current structure, the target's. The
last two count only when they match the current TABLE_MAP and are proven (:mod:`structure_proof`,
:mod:`look_ahead`): the upstream's current structure does not apply to rows before its last ALTER. After a checkpoint
that was set by hand the dump's files don't count: later changes of the tables were not followed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dm_worker.syncer.rows.foreign_structures import AdaptedStructure, adapted
from dm_worker.syncer.rows.logged_structure import as_logged
from dm_worker.syncer.rows.structure_proof import brought, differing_columns, keeps_primary_key, lacks_columns, proven
from pkg import ddl, errors
from pkg.binlog.rows.table_check import check_table_map, fits
from pkg.binlog.table_map import TableMap
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import Column, TableInfo
from pkg.process.log import get_logger
from pkg.schema_tracker import TIDB_CHARSET, SchemaTracker, ServerDefaults, parse_create_table

log = get_logger("syncer.schema")

#: Queries a server for a table's structure; None when there is no such table.
FetchTable = Callable[[str, str], TableInfo | None]
#: Queries the upstream for a schema's (charset, collation); None when there is no such schema.
SchemaCharset = Callable[[str], tuple[str, str] | None]


class SchemaSource:
    """The structures of one upstream's tables at the reading position."""

    def __init__(
        self,
        *,
        server: ServerDefaults,
        dump_files: Callable[[str, str], Path | None],
        upstream: FetchTable,
        target: FetchTable,
        schema_charset: SchemaCharset,
        trust_dump: bool = True,
        filled: Callable[[str, str], Collection[str]] = lambda *_: (),
        unaltered: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """``filled`` names the columns (in lower case) that the rules fill in the target of an upstream table.

        ``unaltered`` looks from the rows being read up to now for a statement that may be about a table of that name.
        """
        self.tracker = SchemaTracker(server)
        self._server = server
        self._schema_charset = schema_charset
        self._schemas: set[str] = set()
        self._dump_files = dump_files
        self._trust_dump = trust_dump
        self._upstream = upstream
        self._target = target
        self._filled = filled
        self._unaltered = unaltered
        #: DM's structures, until the first use.
        self._foreign: dict[tuple[str, str], TableInfo] = {}
        self._ghosts: Mapping[tuple[str, str], tuple[str, str]] = {}
        self._changed: dict[tuple[str, str], TableInfo | None] = {}
        #: Names whose schema files of the dump do not count any more; table '' for a whole schema.
        self._given_up: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def restore(self, tables: list[TableInfo], given_up: Iterable[tuple[str, str]] = ()) -> None:
        """Restores the checkpoint's structures, and names that were dropped or renamed (table '': the schema was)."""
        self._given_up.update(given_up)
        for info in tables:
            self.tracker.set_table(info)

    def take_over(self, foreign: Iterable[TableInfo], ghosts: Mapping[tuple[str, str], tuple[str, str]]) -> None:
        """Structures that DM left. ``ghosts``: the tables among them that online DDL created like others."""
        self._foreign = {(info.schema, info.name): info for info in foreign}
        self._ghosts = ghosts

    def take_changes(self) -> tuple[list[TableInfo], list[tuple[str, str]]]:
        """Structures to store with the next checkpoint, and names that are given up; once each."""
        with self._lock:
            changes, self._changed = self._changed, {}
        kept = [info for info in changes.values() if info is not None]
        return kept, [name for name, info in changes.items() if info is None]

    def put_back(self, changed: Iterable[TableInfo], dropped: Iterable[tuple[str, str]]) -> None:
        """The result of :meth:`take_changes` could not be stored; newer changes take precedence."""
        for info in changed:
            self._note((info.schema, info.name), info, newer=False)
        for name in dropped:
            self._note(name, None, newer=False)

    def _note(self, name: tuple[str, str], info: TableInfo | None, *, newer: bool = True) -> None:
        # The reader finds structures while the main loop stores them.
        if info is None:
            self._given_up.add(name)  # a dump's schema file no longer counts
        self._foreign.pop(name, None)
        with self._lock:
            if newer or name not in self._changed:
                self._changed[name] = info

    def structure(self, table_map: TableMap) -> TableInfo:
        """The structure of the rows after ``table_map``. Raises DMError when no known one matches it."""
        name = (table_map.schema, table_map.table)
        known = self.tracker.table(*name)
        if known is not None:
            logged = as_logged(known, table_map)
            check_table_map(table_map, logged.columns)
            return logged
        found = self._left_by_dm(name, table_map)
        if found is not None:
            return as_logged(found, table_map)
        dumped = self._dumped(*name) if self._trust_dump else None
        if dumped is not None and fits(table_map, as_logged(dumped, table_map).columns):
            log.info("learned a table's structure", table=qualified(*name), origin="dump")
            return as_logged(self._set(dumped), table_map)
        return self._present(table_map)

    def _left_by_dm(self, name: tuple[str, str], table_map: TableMap) -> TableInfo | None:
        """DM's structure of the table; None for none, and for one that does not fit these rows. Raises 44019 where a
        charset is not certain."""
        found = self._adapted(name, table_map)
        if found is None or not fits(table_map, as_logged(found.table, table_map).columns):
            return None
        if found.doubtful and not self._unaltered(name[1]):
            raise _charset_not_certain(name, found)
        log.info("learned a table's structure", table=qualified(*name), origin="checkpoint of DM")
        return self._set(found.table)

    def _adapted(self, name: tuple[str, str], table_map: TableMap | None) -> AdaptedStructure | None:
        stored = self._foreign.get(name)
        if stored is None:
            return None
        # A ghost table may be dropped by now; the real one then has its columns.
        return adapted(stored, self._upstream(*self._ghosts.get(name, name)), self._server, table_map)

    def _present(self, table_map: TableMap) -> TableInfo:
        """The structure that upstream or target have now, as far as it is proven to be that of the rows."""
        name = (table_map.schema, table_map.table)
        shown = {"upstream": self._upstream(*name), "target": self._brought(*name)}
        logged = {origin: None if info is None else as_logged(info, table_map) for origin, info in shown.items()}
        upstream, target = shown["upstream"], shown["target"]

        def take(origin: str, info: TableInfo, *, keys_certain: bool) -> TableInfo:
            log.info("learned a table's structure", table=qualified(*name), origin=origin)
            return as_logged(self._set(replace(info.renamed(*name), keys_certain=keys_certain)), table_map)

        found = proven(table_map, logged["upstream"], logged["target"])
        for origin, info in shown.items():
            if info is not None and found is not None and found is logged[origin]:
                return take(origin, info, keys_certain=False)
        fitting = [origin for origin, info in logged.items() if info is not None and fits(table_map, info.columns)]
        if upstream is not None and "upstream" in fitting:
            if lacks_columns(target, upstream):
                # Nothing is written before that is put right, and this is asked again.
                return as_logged(upstream.renamed(*name), table_map)
            if self._unaltered(table_map.table):
                return take("upstream", upstream, keys_certain=True)
        left = self._misfit(name, table_map)
        if fitting:
            differing = differing_columns(table_map, logged["upstream"], logged["target"])
            raise _not_proven(name, upstream, target, left, differing)
        raise _nothing_fits(name, left)

    def _brought(self, schema: str, table: str) -> TableInfo | None:
        """The target's table of an upstream table, as rows can bring it."""
        target, filled = self._target(schema, table), self._filled(schema, table)
        return brought(target, self._upstream(schema, table), filled) if filled else target

    def _misfit(self, name: tuple[str, str], table_map: TableMap) -> str:
        """Why DM's structure of the table does not fit the rows; '' where it left none."""
        found = self._adapted(name, table_map)
        if found is None:
            return ""
        try:
            check_table_map(table_map, as_logged(found.table, table_map).columns)
        except DMError as exc:
            return exc.message
        return ""

    def guess(self, table_map: TableMap) -> TableInfo:
        """A structure that fits rows from before the reading position; it is not stored. Raises as above."""

        def logged(info: TableInfo | None) -> TableInfo | None:
            return None if info is None else as_logged(info, table_map)

        def upstream(*name: str) -> TableInfo | None:
            return proven(table_map, logged(self._upstream(*name)), logged(self._brought(*name)))

        # What is known further on comes last: an operator may have set it for these rows.
        origins: list[tuple[str, FetchTable]] = [
            ("target", self._brought),
            ("upstream", upstream),
            ("operator", self.tracker.table),
        ]
        return self._fitting(table_map, origins)

    def _fitting(self, table_map: TableMap, origins: Iterable[tuple[str, FetchTable]]) -> TableInfo:
        name = (table_map.schema, table_map.table)
        for origin, fetch in origins:
            info = fetch(*name)
            logged = None if info is None else as_logged(info, table_map)
            if logged is not None and fits(table_map, logged.columns):
                log.info("learned a table's structure", table=qualified(*name), origin=origin)
                return logged.renamed(*name)
        raise _nothing_fits(name)

    def around(self, statement: ddl.DDLStatement) -> tuple[TableInfo | None, TableInfo | None]:
        """The structure of the table that a statement changes, before and after it; None where unknown.

        Raises 44006 for a statement that does not fit the structure.
        """
        self._learn(statement)
        name = statement.tables[0]
        before = self.tracker.table(*name)
        if before is None or self.has_made(statement):
            return before, before
        return before, self.tracker.preview(statement, name)

    def keyed_before(self, statement: ddl.DDLStatement, unaltered: Callable[[str], bool]) -> TableInfo | None:
        """The table before the statement that changes it, if its primary key and engine are certain; else None.

        Its other columns may be those after the statement. ``unaltered`` looks from the statement up to now for
        another one that may refer to a table of that name.
        Raises 44006 for a statement that does not fit the structure.
        """
        name = statement.tables[0]
        before, _ = self.around(statement)
        if before is not None and before.keys_certain:
            return before
        present = self._upstream(*name)
        if present is None or not keeps_primary_key(statement.actions, present) or not unaltered(name[1]):
            return None
        return present.renamed(*name)

    def stages(
        self, table: tuple[str, str], holder: tuple[str, str], statements: Sequence[ddl.DDLStatement]
    ) -> list[TableInfo | None]:
        """The structure of ``table`` before all of these statements on it, and after each; None where unknown.

        ``holder`` is the name that the structure has now. Raises 44006 for a statement that does not fit it.
        """
        for statement in statements[:1]:
            self._learn(statement)
        known = self.tracker.table(*holder)
        if known is None:
            return [None] * (len(statements) + 1)
        first = known.renamed(*table)
        return [first, *self.tracker.stages(first, statements)]

    def has_made(self, statement: ddl.DDLStatement) -> bool:
        """Whether a CREATE TABLE was followed that is read again because its transaction was interrupted after it."""
        if statement.kind != "create table" or statement.or_replace:
            return False
        return self.tracker.table(*statement.tables[0]) is not None

    def is_void(self, statement: ddl.DDLStatement, unaltered: Callable[[str], bool]) -> bool:
        """Whether a CREATE TABLE IF NOT EXISTS that is not followed yet found an existing table, perhaps one whose
        structure is not known. ``unaltered``: see :meth:`keyed_before`."""
        if statement.kind != "create table" or not statement.if_not_exists:
            return False
        self._learn(statement)
        return self.has_made(statement) or self._found_another(statement, unaltered)

    def _found_another(self, statement: ddl.DDLStatement, unaltered: Callable[[str], bool]) -> bool:
        """Whether the upstream's table has other columns than the statement gives it, and so is an older one."""
        name, body = statement.tables[0], statement.body
        present = self._upstream(*name)
        if present is None or body is None or body.like is not None:
            return False
        made = self.tracker.preview(statement, name)
        columns, given = ([c.name.lower() for c in table.columns] if table else [] for table in (present, made))
        return columns != given and unaltered(name[1])

    def apply(self, statement: ddl.DDLStatement) -> None:
        """Applies the statement to the structures. The next rows of an unknown table request its structure."""
        self._learn(statement)
        before = {name: self.tracker.table(*name) for name in statement.tables if name[1]}
        gone = self._gone(statement)
        try:
            self.tracker.apply(statement)
        except DMError as exc:
            if exc.kind is not Code.SchemaTrackerCannotGetTable:
                raise
            log.info("a table's structure is not known yet", statement=statement.sql[:200])
        for name, info in before.items():
            after = self.tracker.table(*name)
            if after != info:
                self._note(name, after)
        for name in gone:
            if not name[1] or self.tracker.table(*name) is None:
                self._note(name, None)
        for name in statement.tables:
            if name in self._foreign:
                # Not certain, so not followed: the stored structure is no longer valid.
                self._note(name, None)

    def _learn(self, statement: ddl.DDLStatement) -> None:
        """Learns from the dump and the upstream about the tables and schemas that a statement names."""
        for ref in statement.refs:
            if ref.table and self.tracker.table(ref.schema, ref.table) is None:
                found = self._adapted((ref.schema, ref.table), None)
                if found is not None and not found.doubtful:
                    self._set(found.table)
            if self._trust_dump and ref.table and self.tracker.table(ref.schema, ref.table) is None:
                dumped = self._dumped(ref.schema, ref.table)
                if dumped is not None:
                    self._set(dumped)
        self._learn_schema(statement)

    def _learn_schema(self, statement: ddl.DDLStatement) -> None:
        """A new table inherits the charset of its schema, which may be older than our reading."""
        if statement.kind.endswith("database"):
            self._schemas.update(ref.schema for ref in statement.refs)
            return
        for schema in (*(ref.schema for ref in statement.refs), statement.default_schema):
            if schema and schema not in self._schemas:
                charset = self._schema_charset(schema)
                self._schemas.add(schema)
                if charset is not None:
                    self.tracker.set_schema(schema, *charset)

    def _gone(self, statement: ddl.DDLStatement) -> list[tuple[str, str]]:
        """The names that a statement will remove, known or not: the dump of another worker may have a schema
        file of them. Table '' stands for everything that the dump has of a schema."""
        if statement.kind == "drop table" or statement.renamed is not None:
            return list(statement.tables)
        if statement.kind != "drop database":
            return []
        schemas = {schema for schema, _ in statement.tables}
        known = [(info.schema, info.name) for info in self.tracker.tables() if info.schema in schemas]
        return [*known, *((schema, "") for schema in schemas)]

    def _dumped(self, schema: str, table: str) -> TableInfo | None:
        if not self._given_up.isdisjoint({(schema, table), (schema, "")}):
            return None
        return dumped_structure(self._dump_files(schema, table), schema, table, self._server)

    def _set(self, info: TableInfo) -> TableInfo:
        self.tracker.set_table(info)
        self._note((info.schema, info.name), info)
        return info


def dumped_structure(path: Path | None, schema: str, table: str, server: ServerDefaults) -> TableInfo | None:
    """The structure in a schema file of the dump; None for no file."""
    if path is None:
        return None
    sql = _create_statement(path.read_text(encoding="utf-8"))
    return parse_create_table(sql, schema, server, inherited=None).renamed(schema, table)


def _nothing_fits(name: tuple[str, str], left: str = "") -> DMError:
    known = (
        f"the one that DM left in the checkpoint does not ({left})"
        if left
        else "neither the checkpoint nor the dump has one"
    )
    return errors.new(
        Code.SchemaTrackerCannotFetchDownstreamCreateTableStmt,
        f"no structure of the upstream table {qualified(*name)} fits its rows in the binlog: {known}, and the current "
        "structures of upstream and target differ from the binlog's",
        workaround="Give the target table the structure of these rows, or: "
        + Advice.CORRECT_STRUCTURE.about(" ".join(name)),
    )


def _charset_not_certain(name: tuple[str, str], found: AdaptedStructure) -> DMError:
    now = {column.name: column.charset for column in found.table.columns}
    listed = ", ".join(f"{column} (now {now[column]})" for column in found.doubtful)
    return errors.new(
        Code.SchemaTrackerCannotFetchDownstreamCreateTableStmt,
        f"the character set that columns of the upstream table {qualified(*name)} had when these rows were logged is "
        f"not certain: {listed}; DM, whose checkpoint was taken over, recorded {TIDB_CHARSET}, which it also does when "
        "a statement names no character set, and the table was altered since",
        workaround=Advice.SUPPLY_STRUCTURE.about(" ".join(name)),
    )


def _not_proven(
    name: tuple[str, str],
    upstream: TableInfo | None,
    target: TableInfo | None,
    left: str = "",
    differing: Collection[str] = (),
) -> DMError:
    of_dm = f"; the structure that DM left in the checkpoint does not fit them: {left}" if left else ""
    if upstream is not None and target is not None and differing:
        pairs = [(column, upstream.column(column), target.column(column)) for column in differing]
        shown = "; ".join(
            f"{quote(column)} is {_defined(one)} upstream and {_defined(other)} in the target table"
            for column, one, other in pairs
        )
        why = f"the upstream now has other definitions than the target table, by which the values are others: {shown}"
    else:
        why = (
            f"the types fit, but the upstream now has the columns ({_listed(upstream)}) and the target table has "
            f"({_listed(target)})"
        )
    return errors.new(
        Code.SchemaTrackerCannotFetchDownstreamCreateTableStmt,
        f"the structure that the upstream table {qualified(*name)} had when these rows were logged is not certain: "
        f"{why}; since then, a column may have been moved, renamed, replaced or changed{of_dm}",
        workaround=Advice.SUPPLY_STRUCTURE.about(" ".join(name)),
    )


def _defined(column: Column | None) -> str:
    if column is None:
        return "missing"
    charset = f" character set {column.charset}" if column.charset else ""
    return f"{column.column_type}{charset}{' (generated)' if column.generated else ''}"


def _listed(info: TableInfo | None) -> str:
    return "" if info is None else ", ".join(column.name for column in info.columns)


def _create_statement(text: str) -> str:
    """The CREATE TABLE of a schema file, without the session settings before it."""
    start = text.upper().find("CREATE TABLE")
    return text[max(start, 0) :].rstrip().rstrip(";")
