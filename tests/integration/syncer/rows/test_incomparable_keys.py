"""Hazard: one part of a unique key can't be compared, and a value that moves between rows is refused as a duplicate.

Real servers: a server computes generated columns, weighs texts, and compares periods by their overlap.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from deploy.local.mysql import MySQLServer, SQLServer
from deploy.local.process import up
from tests.compiled import kernels
from tests.harness.targets import TARGET
from tests.integration.syncer.conflict_workload import SEED, transactions
from tests.integration.syncer.replay import Replay, attempt
from tests.integration.syncer.support import assert_equal

KERNELS = kernels()
_CZECH = "CHARACTER SET utf8mb4 COLLATE utf8mb4_czech_ci"
_MAILS = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Workload:
    """A table ``d.name``; ``give_up`` and ``take_back`` change by which rows hold a value of its unique key."""

    name: str
    columns: str
    give_up: str
    take_back: str
    insert: str = "(id, mail) VALUES ({id}, '{mail}')"

    @property
    def create(self) -> str:
        return f"CREATE TABLE d.{self.name} (id INT PRIMARY KEY, n INT DEFAULT 0, {self.columns})"

    def change(self, conn: Any, chance: random.Random) -> None:
        """A random change; a server refuses those that collide."""
        row, mail, table = chance.randint(1, 60), chance.choice(_MAILS), f"d.{self.name}"
        roll = chance.random()
        if roll < 0.3:
            attempt(conn, f"INSERT INTO {table} {self.insert.format(id=row, mail=mail, day=chance.randint(1, 20))}")
        elif roll < 0.5:
            attempt(conn, f"UPDATE {table} SET {self.give_up} WHERE mail = '{mail}' LIMIT {chance.randint(1, 3)}")
        elif roll < 0.7:
            attempt(conn, f"UPDATE {table} SET {self.take_back} WHERE id = {row}")
        elif roll < 0.8:
            attempt(conn, f"UPDATE {table} SET n = n + id WHERE mail = '{mail}'")
        elif roll < 0.9:
            attempt(conn, f"UPDATE {table} SET id = {row} WHERE mail = '{mail}' LIMIT 1")
        else:
            attempt(conn, f"DELETE FROM {table} WHERE mail = '{mail}' LIMIT 1")


_MAIL = "mail VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
_SOFT = f"{_MAIL}, gone INT, live INT AS (IF(gone IS NULL, 1, NULL)) {{}}, UNIQUE (mail, live)"
SOFT = [
    Workload(f"soft_{kind.lower()}", _SOFT.format(kind), "gone = id", "gone = NULL") for kind in ("STORED", "VIRTUAL")
]
CZECH = Workload("czech", f"{_MAIL}, c VARCHAR(9) {_CZECH} DEFAULT 'ch', UNIQUE (mail, c)", "c = id", "c = 'CH'")
OVERLAPS = Workload(
    "overlaps",
    f"{_MAIL}, s DATE, e DATE, PERIOD FOR p (s, e), UNIQUE (mail, p WITHOUT OVERLAPS)",
    "s = s + INTERVAL 9 DAY, e = e + INTERVAL 9 DAY",
    "s = s - INTERVAL 4 DAY, e = e - INTERVAL 3 DAY",
    "(id, mail, s, e) VALUES ({id}, '{mail}', '2024-01-01' + INTERVAL {day} DAY, '2024-01-03' + INTERVAL {day} DAY)",
)
FUNCTIONAL = [
    Workload("soft", f"{_MAIL}, gone INT, UNIQUE (mail, (IF(gone IS NULL, 1, NULL)))", "gone = id", "gone = NULL"),
    Workload("lowered", f"{_MAIL}, c VARCHAR(9) DEFAULT 'X', UNIQUE ((CONCAT(mail, LOWER(c))))", "c = id", "c = 'x'"),
]
WORKLOADS = [*SOFT, CZECH, *([OVERLAPS] if TARGET == "mariadb" else [])]


def _numbered(table: str, first: int, last: int, more: str = "") -> str:
    values = ", ".join(f"({n}, 'm{n % 100}'{more})" for n in range(first, last))
    return f"INSERT INTO d.{table} (id, mail{', c' if more else ''}) VALUES {values}"


@pytest.fixture(scope="module")
def mysql_8() -> Iterator[MySQLServer]:
    server = MySQLServer(version="8.0", binlog=False)
    with up(server):
        yield server


@pytest.fixture(scope="module")
def functional_keys() -> Iterator[tuple[MySQLServer, MySQLServer]]:
    """Upstream and target of a version that knows them."""
    upstream, target = (MySQLServer(version="8.0-newest", binlog=binlog) for binlog in (True, False))
    with up(upstream, target):
        yield upstream, target


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: "python" if kernel is None else "native")
def test_a_transaction_gives_up_values_takes_them_and_gives_them_back(
    mariadb_upstream: SQLServer, target: SQLServer, kernel: ModuleType | None
) -> None:
    _give_up_and_take_back(mariadb_upstream, target, kernel)


def test_values_move_between_rows_of_mysql_8(mariadb_upstream: SQLServer, mysql_8: MySQLServer) -> None:
    _give_up_and_take_back(mariadb_upstream, mysql_8, KERNELS[-1])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: "python" if kernel is None else "native")
def test_values_move_between_rows_with_functional_unique_keys(
    functional_keys: tuple[MySQLServer, MySQLServer], kernel: ModuleType | None
) -> None:
    _give_up_and_take_back(*functional_keys, kernel, FUNCTIONAL)


@pytest.mark.parametrize("safe", [False, True], ids=["", "safe"])
def test_parallel_writers_with_functional_unique_keys(
    functional_keys: tuple[MySQLServer, MySQLServer], safe: bool
) -> None:
    _move_at_random(*functional_keys, KERNELS[-1], safe, FUNCTIONAL)


def _give_up_and_take_back(
    upstream: SQLServer, target: SQLServer, kernel: ModuleType | None, tables: Sequence[Workload] = (*SOFT, CZECH)
) -> None:
    for server in (upstream, target):
        server.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", *[each.create for each in tables])
    upstream.execute(*[_numbered(each.name, 0, 100) for each in tables])
    replay = Replay(upstream, target, kernel=kernel)
    target.execute(*[_numbered(each.name, 0, 100) for each in tables])
    for each in tables:
        # Another row takes what a row gives up; it gives it back; then the two swap, all in one transaction each.
        table, give_up, take_back = f"d.{each.name}", each.give_up, each.take_back
        upstream.execute(
            *("BEGIN", f"UPDATE {table} SET {give_up}", _numbered(each.name, 100, 200), "COMMIT", "BEGIN"),
            *(f"UPDATE {table} SET {give_up} WHERE id >= 100", f"UPDATE {table} SET {take_back} WHERE id < 100"),
            "COMMIT",
        )
        replay.catch_up()
        assert_equal(upstream, target, table)
        upstream.execute(f"UPDATE {table} SET {give_up} WHERE id < 100")
        upstream.execute(f"UPDATE {table} SET {take_back} WHERE id >= 100")
        replay.catch_up()
        assert_equal(upstream, target, table)


@pytest.mark.parametrize("safe", [False, True], ids=["", "safe"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: "python" if kernel is None else "native")
def test_values_move_between_rows_of_parallel_writers(
    mariadb_upstream: SQLServer, target: SQLServer, kernel: ModuleType | None, safe: bool
) -> None:
    _move_at_random(mariadb_upstream, target, kernel, safe, WORKLOADS)


def _move_at_random(
    upstream: SQLServer, target: SQLServer, kernel: ModuleType | None, safe: bool, workloads: Sequence[Workload]
) -> None:
    chance = random.Random(SEED)
    for server in (upstream, target):
        server.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", *[each.create for each in workloads])
    replay = Replay(upstream, target, seed=SEED, kernel=kernel, safe=safe)
    conn = upstream.connect(autocommit=False)
    for _ in range(6):
        transactions(conn, chance, 60, lambda: chance.choice(workloads).change(conn, chance))
        replay.catch_up()
        assert_equal(upstream, target, *[f"d.{each.name}" for each in workloads])
    conn.close()
    for each in workloads:
        assert upstream.execute(f"SELECT COUNT(*) FROM d.{each.name} WHERE n > 0")[0][0] > 0
