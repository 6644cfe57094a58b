"""A sharding task for tests: groups of merged tables with coordinated DDL, and writers that know each version."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymysql

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from deploy.local.tidb import TiDBServer
from deploy.local.workload import COMPARED, EVENTS_COMPARED, Shard, Writer, create_shard, differences
from pkg.ddl import Dialect, key_names, parse, uniform, with_key_names
from tests.harness.certified import NotAsked, certify, validated
from tests.harness.executed_ddl import executed_alters

#: Two upstreams and their target.
Servers = tuple[MariaDBServer, MySQLServer, SQLServer]

#: Ids of one shard end where the next one's begin.
RANGE = 1_000_000
_UNKNOWN_COLUMN = 1054
#: Differences in how servers show equal types.
_WIDTH = re.compile(r"\b((?:tiny|small|medium|big)?int|year)\(\d+\)")


@dataclass
class VersionedWriter(Writer):
    """Also writes the columns that DDL added to each shard. ``columns``: shard → its current added columns."""

    columns: dict[str, list[str]] = field(default_factory=dict)

    def _change(self, cursor: Any, shard: Shard, rng: random.Random) -> None:
        super()._change(cursor, shard, rng)
        known = list(self.columns.get(shard.name, ()))
        if not known:
            return
        # Only one of them, so that the load does not grow with each DDL; a run writes all of them.
        column = rng.choice(known)
        if shard.keyless:
            where, key = "kind >= %s ORDER BY kind", rng.randint(0, 20)
        else:
            where, key = "id >= %s ORDER BY id", shard.offset + rng.randrange(self.rows * 2)
        try:
            cursor.execute(
                f"UPDATE {shard.name} SET {column} = %s WHERE {where} LIMIT 2", (rng.randint(-1000, 1000), key)
            )
        except pymysql.err.OperationalError as exc:
            # Another thread dropped it after this one read ``columns``.
            if exc.args[0] != _UNKNOWN_COLUMN:
                raise


@dataclass
class ShardedTask:
    """``schemas`` × ``tables`` shards of ``orders`` (with a key) and ``events`` (without) on each of ``upstreams``."""

    cluster: Cluster
    upstreams: Sequence[SQLServer]
    target: SQLServer
    name: str
    schemas: int = 1
    tables: int = 1
    rows: int = 300
    extra: str = ""
    not_validated: NotAsked | None = None
    groups: dict[str, list[Shard]] = field(default_factory=dict)
    writers: list[VersionedWriter] = field(default_factory=list)

    def create(self, seed: int) -> None:
        """Creates the tables and their rows, and the writers, which it does not start."""
        for number, server in enumerate(self.upstreams):
            mine: list[Shard] = []
            for schema in range(self.schemas):
                for table in range(self.tables):
                    offset = (len(self.groups.get("orders", ()))) * RANGE
                    names = f"{self.name}_{number + 1}{schema + 1}", str(table + 1)
                    orders = Shard(server, names[0], f"orders_{names[1]}", offset)
                    events = Shard(server, names[0], f"events_{names[1]}", 0, keyless=True)
                    for group, shard, rows in (("orders", orders, self.rows), ("events", events, 100)):
                        create_shard(shard, rows, seed * 100 + offset // RANGE)
                        self.groups.setdefault(group, []).append(shard)
                        mine.append(shard)
            self.writers.append(VersionedWriter(mine, seed * 100 + number, self.rows, pause=0.03))

    def shards(self, group: str, upstream: int | None = None) -> list[Shard]:
        """The group's shards; only those of one upstream (counted from 0) if given."""
        server = None if upstream is None else self.upstreams[upstream]
        return [shard for shard in self.groups[group] if server is None or shard.server is server]

    def source(self, upstream: int) -> str:
        return f"source-{upstream + 1}"

    # --- the task ---

    def text(self) -> str:
        instances = "".join(
            f"  - {{source-id: {self.source(number)}, route-rules: [orders, events], block-allow-list: mine}}\n"
            for number in range(len(self.upstreams))
        )
        routes = "".join(
            f"  {group}: {{schema-pattern: '{self.name}_*', table-pattern: '{group}_*',"
            f" target-schema: {self.name}, target-table: {group}}}\n"
            for group in ("orders", "events")
        )
        text = (
            f"name: {self.name}\ntask-mode: all\nshard-mode: pessimistic\n"
            f"target-database: {{host: 127.0.0.1, port: {self.target.port}, user: root, password: ''}}\n"
            f"mysql-instances:\n{instances}routes:\n{routes}"
            f"block-allow-list:\n  mine:\n    do-dbs: ['{self.name}_*']\n{self.extra}"
        )
        return text if self.not_validated else validated(text)

    def start(self) -> None:
        """Starts the writers and the task, and waits until it replicates."""
        for writer in self.writers:
            writer.start()
        self.cluster.ok("start-task", self.cluster.write_task(self.text(), f"{self.name}.yaml"))
        self.cluster.wait_stage(self.name, "Running", unit="Sync")

    def finish(self) -> None:
        """Ends the writers, waits for the last change, and compares."""
        for writer in self.writers:
            writer.stop()
        self.cluster.wait_synced(self.name)
        self.compare()

    def abandon(self) -> None:
        for writer in self.writers:
            writer.abandon()

    # --- DDL ---

    def alter(self, shards: Iterable[Shard], clause: str, *, adds: str = "", drops: str = "") -> None:
        """Runs ``ALTER TABLE … clause`` on each shard; its writer then knows the column."""
        for shard in shards:
            columns = self._columns(shard)
            if drops:
                columns.remove(drops)
            shard.server.execute(f"ALTER TABLE {shard.name} {clause}")
            if adds:
                columns.append(adds)

    def _columns(self, shard: Shard) -> list[str]:
        writer = next(one for one in self.writers if any(shard is mine for mine in one.shards))
        return writer.columns.setdefault(shard.name, [])

    def lock_id(self, group: str) -> str:
        return f"{self.name}-`{self.name}`.`{group}`"

    def locks(self) -> dict[str, dict[str, Any]]:
        """The locks that ``shard-ddl-lock`` shows, by group."""
        shown = self.cluster.dmctl("shard-ddl-lock", self.name)["locks"]
        return {group: one for one in shown for group in self.groups if one["ID"] == self.lock_id(group)}

    def wait_lock(self, group: str, phase: str, *waits_for: str, seconds: float = WAIT_TIMEOUT) -> dict[str, Any]:
        """The group's lock, once it is in ``phase`` and waits for these sources."""
        seen: list[dict[str, Any]] = []

        def reached() -> bool:
            seen[:] = [one for one in [self.locks().get(group)] if one is not None]
            return [(one["phase"], one["waitsFor"]) for one in seen] == [(phase, list(waits_for))]

        self.cluster._wait(reached, f"the lock of {group} is {phase}", seconds)
        return seen[0]

    def wait_no_lock(self, seconds: float = WAIT_TIMEOUT) -> None:
        self.cluster._wait(self.has_no_lock, f"{self.name} has no locks", seconds)

    def has_no_lock(self) -> bool:
        """True if the leader reports none; False while it has not read the records (``result`` is false)."""
        answer = self.cluster.dmctl("shard-ddl-lock", self.name)
        return bool(answer["result"]) and not answer["locks"]

    def executed(self) -> Counter[str]:
        """The DDL executed in the target's merged tables, by its own records: ``ALTER TABLE`` → number of times."""
        mine = (text for text in executed_alters(self.target) if f"`{self.name}`." in text)
        return Counter(uniform(text, Dialect()) for text in mine)

    def assert_executed_once(self, *clauses: str) -> None:
        """Asserts that each of ``clauses`` (with its table: ```orders` DROP …``) was executed once, nothing else."""
        executed = self.executed()
        expected = Counter(self._as_executed(f"ALTER TABLE `{self.name}`.{clause}") for clause in clauses)
        assert executed == expected, executed

    def _as_executed(self, text: str) -> str:
        """The SQL that the target gets: a TiDB gets the names of keys."""
        if isinstance(self.target, TiDBServer):
            statement = parse(text)
            text = with_key_names(statement, key_names(statement, None)).sql
        return uniform(text, Dialect())

    # --- comparing ---

    def compare(self) -> None:
        """Asserts that rows and structures of the target's tables are those of all shards; the product must agree."""
        for group, base in (("orders", COMPARED), ("events", EVENTS_COMPARED)):
            shards = self.groups[group]
            known = {name: None for shard in shards for name in self._columns(shard)}
            columns = ", ".join([base, *known])
            found = differences(shards, self.target, f"`{self.name}`.{group}", columns)
            assert not found, found
            first = shards[0]
            merged = structure(self.target, self.name, group)
            expected = structure(first.server, first.schema, first.table)
            assert merged == expected, (merged, expected)
        certify(self.cluster, self.name, not_validated=self.not_validated)


def structure(server: SQLServer, schema: str, table: str) -> list[tuple[str, ...]]:
    """Columns and keys from the server's information_schema, without differences of display only."""
    where = f"WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{table}' ORDER BY"
    columns = "COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COALESCE(COLUMN_DEFAULT, 'NULL'), COLLATION_NAME, EXTRA"
    keys = "INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE"
    in_order = server.execute(f"SELECT {columns} FROM information_schema.COLUMNS {where} ORDINAL_POSITION")
    indexes = server.execute(f"SELECT {keys} FROM information_schema.STATISTICS {where} INDEX_NAME")
    return [*map(_plain, in_order), *sorted(map(_plain, indexes))]


def _plain(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(_WIDTH.sub(r"\1", str(value)) for value in row)


def arrives(target: SQLServer, query: str, what: str, seconds: float = WAIT_TIMEOUT) -> None:
    """Waits until ``query`` finds rows in the target."""
    wait_until(lambda: bool(target.execute(query)), what, seconds)
