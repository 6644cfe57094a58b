"""The known structures of upstream tables, in the checkpoint of a stopped replication."""

from __future__ import annotations

from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.rows.server_lookup import ServerLookup
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.names import qualified
from pkg.mysql.schema import TableInfo
from pkg.process.log import get_logger
from pkg.schema_tracker import fetch_server_defaults, parse_create_table
from pkg.schema_tracker.render import create_table

log = get_logger("syncer.schema")

#: Few connection attempts: an operator waits.
_ATTEMPTS = 2


class KnownStructures:
    """The known structures of one subtask's tables, by upstream names. Methods raise DMError, also 44005 for a table
    that is not migrated."""

    def __init__(self, cfg: SubTaskConfig) -> None:
        self._cfg = cfg
        self._rules = TaskRules(cfg)
        self._store = MetaStore(cfg, should_stop=lambda: True)

    def close(self) -> None:
        self._store.close()

    def show(self, schema: str, table: str) -> str:
        """A CREATE TABLE in one line. Raises 44005 while the table's structure is unknown."""
        self._ensure_migrated(schema, table)
        for info in self._known():
            if (info.schema, info.name) == (schema, table):
                return create_table(info)
        raise _unknown(
            f"the checkpoint has no structure of {qualified(schema, table)}",
            "It is taken from the dump, the upstream or the target when the next rows of the table arrive. "
            "`binlog-schema update` sets it.",
        )

    def schemas(self) -> list[str]:
        """The upstream schemas with a table whose structure is known."""
        return sorted({info.schema for info in self._known()})

    def tables(self, schema: str) -> list[str]:
        """The tables of an upstream schema whose structures are known."""
        return sorted(info.name for info in self._known() if info.schema == schema)

    def _known(self) -> list[TableInfo]:
        self._store.prepare()
        return list(self._store.read_tables())

    def update(self, schema: str, table: str, text: str) -> None:
        """Sets the structure from a CREATE TABLE, whose own names are ignored. Raises 44009 if it is not understood."""
        self._ensure_migrated(schema, table)
        upstream = self._server("upstream")
        try:
            defaults = upstream.ask(fetch_server_defaults)
            around = upstream.schema_charset(schema)
        finally:
            upstream.close()
        inherited = defaults.resolve(*around, None) if around is not None else None
        try:
            info = parse_create_table(text, schema, defaults, inherited=inherited)
        except DMError as exc:
            raise errors.new(
                Code.SchemaTrackerInvalidCreateTableStmt,
                exc.message,
                workaround="Correct it: give one CREATE TABLE with all columns and keys, as SHOW CREATE TABLE prints "
                "it.",
            ) from exc
        self._put(info.renamed(schema, table), "statement")

    def update_from_source(self, schema: str, table: str) -> None:
        """Sets the structure of the upstream's table as it is now. Raises 44005 when there is none."""
        self._ensure_migrated(schema, table)
        self._fetch("upstream", (schema, table), (schema, table))

    def update_from_target(self, schema: str, table: str) -> None:
        """Sets the structure of the target's table as it is now. Raises 44005 when there is none."""
        self._ensure_migrated(schema, table)
        self._fetch("downstream", self._rules.route(schema, table), (schema, table))

    def delete(self, schema: str, table: str) -> None:
        """Forgets the structure: the next rows of the table make the syncer look for it again."""
        self._ensure_migrated(schema, table)
        self._store.prepare()
        self._store.delete_table(schema, table)
        log.info("removed a table's structure", table=qualified(schema, table))

    def _fetch(self, scope: str, table: tuple[str, str], name: tuple[str, str]) -> None:
        server = self._server(scope)
        try:
            info = server.table(*table)
        finally:
            server.close()
        if info is None:
            where = "upstream" if scope == "upstream" else "target"
            raise _unknown(f"the {where} has no table {qualified(*table)}", "Check the names, and try again.")
        self._put(info.renamed(*name), scope)

    def _put(self, info: TableInfo, origin: str) -> None:
        self._store.prepare()
        self._store.put_table(info)
        log.info(
            "flush table info: the table's structure is set", table=qualified(info.schema, info.name), origin=origin
        )

    def _server(self, scope: str) -> ServerLookup:
        if scope == "upstream":
            return ServerLookup(self._cfg.from_, "upstream", lambda: False, attempts=_ATTEMPTS)
        return ServerLookup(self._cfg.to, "downstream", lambda: False, attempts=_ATTEMPTS)

    def _ensure_migrated(self, schema: str, table: str) -> None:
        if not (schema and table and self._rules.allows(schema, table)):
            raise _unknown(
                f"task {self._cfg.name} migrates no table {qualified(schema, table)}",
                "Use the names of an upstream table that the block-allow-list includes.",
            )


def _unknown(what: str, workaround: str) -> DMError:
    return errors.new(Code.SchemaTrackerCannotGetTable, what, workaround=workaround)
