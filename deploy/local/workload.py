"""Writers that change sharded tables during a migration, and the comparison at its end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pymysql

from deploy.local.mysql import SQLServer

SQLRow = tuple[Any, ...]

#: A typical application's table: several types, text that needs escapes, NULLs, a decimal.
ORDERS = """(
  id BIGINT NOT NULL, customer INT UNSIGNED NOT NULL, note VARCHAR(80) DEFAULT NULL, amount DECIMAL(12,3) NOT NULL,
  ratio FLOAT DEFAULT NULL, raw VARBINARY(40) DEFAULT NULL, created DATETIME NOT NULL, PRIMARY KEY (id)
) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci"""
COLUMNS = "id, customer, note, amount, ratio, raw, created"
#: A table without any key, with repeated rows.
EVENTS = """(
  kind INT NOT NULL, body VARCHAR(30) DEFAULT NULL, weight DOUBLE DEFAULT NULL
) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci"""


@dataclass
class Shard:
    """One sharded table; its ids are disjoint from other shards' by ``offset``."""

    server: SQLServer
    schema: str
    table: str
    offset: int
    keyless: bool = False

    @property
    def name(self) -> str:
        return f"`{self.schema}`.`{self.table}`"


def order_row(rng: random.Random, row_id: int) -> SQLRow:
    """One row of :data:`ORDERS`, seeded."""
    note = rng.choice([None, "", "plain", 'it\'s \\ "quoted"\n', "žluťoučký 🐎", "x" * rng.randint(0, 60)])
    raw = rng.choice([None, b"", rng.randbytes(rng.randint(1, 40))])
    ratio = rng.choice([None, rng.uniform(-1e6, 1e6), 0.1])
    amount = f"{rng.randint(-(10**8), 10**8)}.{rng.randint(0, 999):03d}"
    created = f"20{rng.randint(10, 25)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)} 0{rng.randint(0, 9)}:11:12"
    return (row_id, rng.randint(0, 2**32 - 1), note, amount, ratio, raw, created)


def event_row(rng: random.Random) -> SQLRow:
    """One row of :data:`EVENTS`; few distinct values, so that equal rows are common."""
    return (rng.randint(0, 20), rng.choice([None, "a", "b'\\"]), rng.choice([None, 0.1, 2.5e300]))


def create_shard(shard: Shard, rows: int, seed: int) -> None:
    """Creates the shard's table with ``rows`` rows."""
    rng = random.Random(seed)
    shape = EVENTS if shard.keyless else ORDERS
    shard.server.execute(f"CREATE DATABASE IF NOT EXISTS `{shard.schema}`", f"CREATE TABLE {shard.name} {shape}")
    conn = shard.server.connect()
    with conn.cursor() as cursor:
        for start in range(0, rows, 1000):
            ids = range(start, min(rows, start + 1000))
            batch = [event_row(rng) if shard.keyless else order_row(rng, shard.offset + i) for i in ids]
            markers = ",".join(["%s"] * len(batch[0]))
            cursor.executemany(f"INSERT INTO {shard.name} VALUES ({markers})", batch)
    conn.close()


@dataclass
class Writer:
    """A thread that inserts, updates, moves and deletes rows of some shards until stopped, in transactions."""

    shards: Sequence[Shard]
    seed: int
    rows: int
    pause: float = 0.005
    transactions: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _error: BaseException | None = None

    def start(self) -> Writer:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name=f"writer-{self.seed}", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ends the thread; raises the exception that ended it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Ends the thread and ignores its exception: for clean-up after a failure."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            rng = random.Random(self.seed + self.transactions)
            conn = self.shards[0].server.connect(autocommit=False)
            while not self._stop.is_set():
                shard = rng.choice(list(self.shards))
                with conn.cursor() as cursor:
                    for _ in range(rng.randint(1, 5)):
                        self._change(cursor, shard, rng)
                if rng.random() < 0.05:
                    conn.rollback()
                else:
                    conn.commit()
                self.transactions += 1
                time.sleep(self.pause)
            conn.close()
        except BaseException as exc:  # noqa: BLE001 - handed to stop()
            self._error = exc

    def _change(self, cursor: Any, shard: Shard, rng: random.Random) -> None:
        if shard.keyless:
            self._change_event(cursor, shard, rng)
        else:
            self._change_order(cursor, shard, rng)

    def _change_event(self, cursor: Any, shard: Shard, rng: random.Random) -> None:
        kind = rng.random()
        if kind < 0.5:
            cursor.execute(f"INSERT INTO {shard.name} (kind, body, weight) VALUES (%s,%s,%s)", event_row(rng))
        elif kind < 0.75:
            cursor.execute(f"UPDATE {shard.name} SET kind = %s WHERE kind = %s LIMIT 2", rng.sample(range(21), 2))
        else:
            cursor.execute(f"DELETE FROM {shard.name} WHERE kind = %s LIMIT 1", (rng.randint(0, 20),))

    def _change_order(self, cursor: Any, shard: Shard, rng: random.Random) -> None:
        row_id = shard.offset + rng.randrange(self.rows * 2)
        kind = rng.random()
        if kind < 0.4:
            cursor.execute(
                f"UPDATE {shard.name} SET note = %s, ratio = %s, customer = %s WHERE id = %s",
                (*order_row(rng, row_id)[2:5:2], rng.randint(0, 2**32 - 1), row_id),
            )
        elif kind < 0.75:
            cursor.execute(
                f"REPLACE INTO {shard.name} ({COLUMNS}) VALUES (%s,%s,%s,%s,%s,%s,%s)", order_row(rng, row_id)
            )
        elif kind < 0.95:
            cursor.execute(f"DELETE FROM {shard.name} WHERE id = %s", (row_id,))
        else:  # changes the primary key
            moved = shard.offset + rng.randrange(self.rows * 2)
            try:
                cursor.execute(f"UPDATE {shard.name} SET id = %s WHERE id = %s", (moved, row_id))
            except pymysql.err.IntegrityError:
                return


def fetch(server: SQLServer, table: str, columns: str) -> list[SQLRow]:
    """All rows, floats with their exact bits, bytes as they are."""
    conn = server.connect(use_unicode=True)
    with conn.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT {columns} FROM {table}")
        rows = sorted(cursor.fetchall(), key=repr)
    conn.close()
    return rows


#: FLOAT is read as a double, which shows all of its bits.
COMPARED = "id, customer, HEX(note), amount, ratio * 1e0, HEX(raw), created"
EVENTS_COMPARED = "kind, HEX(body), weight"


def differences(shards: Sequence[Shard], target: SQLServer, table: str, columns: str = COMPARED) -> str:
    """Compares the union of the shards with the target's table, row for row; '' when equal."""
    expected = sorted((row for shard in shards for row in fetch(shard.server, shard.name, columns)), key=repr)
    actual = fetch(target, table, columns)
    if expected == actual:
        return ""
    there, wanted = set(actual), set(expected)
    missing = [row for row in expected if row not in there]
    surplus = [row for row in actual if row not in wanted]
    return (
        f"{table}: {len(expected)} rows expected, {len(actual)} there;"
        f" missing {len(missing)}: {missing[:3]}; surplus {len(surplus)}: {surplus[:3]}"
    )
