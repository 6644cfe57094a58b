"""The foreign keys of both servers, as known from statements, and the problems with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from functools import partial

from dm_worker.syncer.ddl.known_keys import ANY_TABLE, KnownKeys, TableKeys
from dm_worker.syncer.rows.server_lookup import ServerLookup
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.mysql.foreign_key_introspect import enforces_foreign_keys, fetch_table_keys, logs_actions, shown_keys
from pkg.mysql.introspect import folds_names, list_all_tables, server_info
from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import ForeignKey
from pkg.rules.foreign_keys import IGNORE, ForeignKeyProblem, ForeignKeySetting, MigratedTables, find_problems


class _UpstreamReader:
    """Reads the tables that the task migrates. An account may see keys only in SHOW CREATE TABLE."""

    def __init__(self, lookup: ServerLookup, rules: TaskRules) -> None:
        self._lookup = lookup
        self._rules = rules

    def folds_names(self) -> bool:
        return self._lookup.ask(folds_names)

    def everything(self, known: Collection[TableId]) -> TableKeys:
        listed = [(schema, name) for schema, names in self._lookup.ask(list_all_tables).items() for name in names]
        # A dropped table leaves the list before its DROP is in the binlog, and its name is locked until then. A query
        # for it waits for the lock, and the binlog's end, which is queried next, is after the DROP.
        gone = sorted(set(known).difference(listed))
        return {**self._shown(listed, listed=True), **self._shown(gone)}

    def some(self, tables: Collection[TableId]) -> TableKeys:
        return self._shown(tables)

    def _shown(self, tables: Collection[TableId], *, listed: bool = False) -> TableKeys:
        migrated = [table for table in tables if self._rules.takes_rows(*table)]
        return _shown_by(self._lookup, migrated, listed=listed)


class _TargetReader:
    """Reads all tables."""

    def __init__(self, lookup: ServerLookup) -> None:
        self._lookup = lookup

    def folds_names(self) -> bool:
        return self._lookup.ask(folds_names)

    def everything(self, known: Collection[TableId]) -> TableKeys:
        return self._lookup.ask(fetch_table_keys)

    def some(self, tables: Collection[TableId]) -> TableKeys:
        return _shown_by(self._lookup, tables)


def _shown_by(server: ServerLookup, tables: Iterable[TableId], *, listed: bool = False) -> TableKeys:
    """The foreign keys of each existing base table in ``tables``. An error names the table."""
    asked = (
        (table, server.ask(partial(shown_keys, table=table, listed=listed), table=qualified(*table)))
        for table in tables
    )
    return {table: keys for table, keys in asked if keys is not None}


class ServersKeys:
    """Queries both servers over its own connections. Methods are for the main thread, except :meth:`of_target`, and
    raise DMError."""

    def __init__(self, cfg: SubTaskConfig, rules: TaskRules, should_stop: Callable[[], bool]) -> None:
        self._cfg = cfg
        self._rules = rules
        self._upstream = ServerLookup(cfg.from_, "upstream", should_stop)
        self._target = ServerLookup(cfg.to, "downstream", should_stop)
        self._upstream_keys = KnownKeys(_UpstreamReader(self._upstream, rules))
        self._target_keys = KnownKeys(_TargetReader(self._target))
        #: Held while the target is queried.
        self._target_lock = threading.Lock()
        self._migrated = MigratedTables.of({})
        self._migrated_names: frozenset[TableId] = frozenset()
        #: Whether the upstream's binlog has the effects of its foreign keys, at the last check of them.
        self.logged_upstream = False

    def interrupt(self) -> None:
        """Cancels the planning thread's query; called from another thread."""
        self._target.interrupt()

    def close(self) -> None:
        self._upstream.close()
        self._target.close()

    def end(self) -> Location | None:
        """The end of the upstream's binlog."""
        return self._upstream.end_of_binlog(self._cfg.flavor)

    def changed(self, upstream: Collection[TableId], target: Collection[TableId]) -> None:
        """Records the tables that a statement named ``upstream``, and those that the executed statements named at the
        ``target``; table '' for a whole schema, and for all where the statement is not understood."""
        self._upstream_keys.changed(upstream)
        with self._target_lock:
            self._target_keys.changed(target)

    def of_target(self) -> list[ForeignKey]:
        """All foreign keys of the target. From any thread."""
        with self._target_lock:
            return [key for keys in self._target_keys.read().values() for key in keys]

    def problems(self) -> list[ForeignKeyProblem]:
        """Upstream key effects that the target can't have; none where an operator takes responsibility."""
        self.logged_upstream = self._upstream.ask(logs_actions)
        if self.logged_upstream or not {IGNORE, "all"}.isdisjoint(self._cfg.ignore_checking_items):
            return []
        if not self._compared():
            return []
        # A manual change may have fixed it: only the keys that both servers have now may stop a task.
        self.changed([ANY_TABLE], [ANY_TABLE])
        return self._compared()

    def _compared(self) -> list[ForeignKeyProblem]:
        """The problems known from statements."""
        cfg = self._cfg
        tables = self._upstream_keys.read()
        upstream = [key for keys in tables.values() for key in keys]
        target = self.of_target()
        if not any(key.acts for key in (*upstream, *target)):
            return []
        if self._migrated_names != tables.keys():
            self._migrated_names = frozenset(tables)
            self._migrated = MigratedTables.of({name: self._rules.route(*name) for name in tables})
        acting = [key for key in upstream if key.acts]
        with self._target_lock:
            server = self._target.ask(server_info)
            acts = self._target.ask(lambda conn: enforces_foreign_keys(conn, server))
            present = [
                name for name in (self._rules.route(*key.child) for key in acting) if self._target_keys.has(name)
            ]
        setting = ForeignKeySetting(
            checks=cfg.to.foreign_key_checks,
            merges=bool(cfg.shard_mode),
            mapped=[name for key in acting for name in (key.child, key.parent) if self._rules.maps_columns(*name)],
            acts=acts,
        )
        return find_problems(upstream, target, self._migrated, present, setting)
