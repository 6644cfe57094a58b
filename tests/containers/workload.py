"""Tables with and without a key, a writer that changes them without a pause, and the comparison of their rows."""

from __future__ import annotations

import hashlib
import json
import random
import threading
from collections.abc import Sequence
from typing import Any

import pymysql

from deploy.local.process import wait_until
from tests.containers.compose import pause
from tests.containers.driven import LIMIT, TARGET_PASSWORD, UPSTREAM_PASSWORD, DrivenCluster

TABLES = ("orders", "events")
_ROWS = 2000
#: What both MySQL and MariaDB have.
_CHARSET = "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"


def checksum(connection: pymysql.Connection[Any], schema: str, tables: Sequence[str] = TABLES) -> dict[str, object]:
    """Of each table the number of rows, and SHA-256 over all rows in an order of their own."""
    found: dict[str, object] = {}
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT * FROM `{schema}`.`{table}`")
            rows = sorted(repr(row) for row in cursor.fetchall())
            found[table] = (len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest())
    return found


class Migration:
    """One source, one task and one writer; the schema is named like the task."""

    def __init__(
        self,
        cluster: DrivenCluster,
        task: str,
        upstream: str = "upstream-mariadb",
        rows: int = _ROWS,
        loader: str = "",
    ) -> None:
        self.cluster, self.task, self.upstream = cluster, task, upstream
        self.source = f"s-{task}"
        self._loader = loader
        self._connection = cluster.connect(upstream)
        self._at_target: pymysql.Connection[Any] | None = None
        self._random = random.Random(task)
        self._stopped, self._failure = threading.Event(), ""
        self._thread: threading.Thread | None = None
        self.written = 0
        self._next = rows
        self._create(rows)

    def _create(self, rows: int) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{self.task}` {_CHARSET}")
            cursor.execute(
                f"CREATE TABLE `{self.task}`.orders (id INT PRIMARY KEY, amount DECIMAL(12,2), note VARCHAR(200),"
                f" at DATETIME(3), data VARBINARY(64)) {_CHARSET}"
            )
            cursor.execute(f"CREATE TABLE `{self.task}`.events (kind INT, text VARCHAR(100)) {_CHARSET}")
            for table, count in (("orders", rows), ("events", rows // 10)):
                values = [
                    self._row(number) if table == "orders" else (number % 7, f"ä {number}") for number in range(count)
                ]
                marks = ", ".join(["%s"] * len(values[0]))
                cursor.executemany(f"INSERT INTO `{self.task}`.{table} VALUES ({marks})", values)

    def _row(self, number: int) -> tuple[object, ...]:
        chosen = self._random
        note = "".join(chosen.choice("abcäß€😀 '\"\\") for _ in range(40))
        return (number, chosen.randrange(10**9) / 100, note, "2024-02-29 12:13:14.567", chosen.randbytes(40))

    # ---- source and task --------------------------------------------------------------------------------------------

    def start(self, worker: str = "") -> None:
        """Creates the source (``worker``: served by that one) and starts the task and the writer."""
        host = {"host": self.upstream, "port": 3306, "user": "root", "password": _password(self.upstream)}
        gtid = {"source-id": self.source, "enable-gtid": True, "from": host}
        self.cluster.ok("operate-source", "create", "-", text=json.dumps(gtid))
        if worker and self.cluster.server_of(self.source) != worker:
            self.cluster.ok("transfer-source", self.source, worker)
        self.write()
        task = {
            "name": self.task,
            "task-mode": "all",
            "target-database": {**host, "host": "target", "password": _password("target")},
            "mysql-instances": [{"source-id": self.source, "block-allow-list": "mine"}],
            "block-allow-list": {"mine": {"do-dbs": [self.task]}},
        }
        if self._loader:
            task["loaders"] = {"shared": {"pool-size": 4, "dir": self._loader}}
            task["mydumpers"] = {"small": {"threads": 4, "rows": 2000}}
            task["mysql-instances"] = [
                {
                    "source-id": self.source,
                    "block-allow-list": "mine",
                    "loader-config-name": "shared",
                    "mydumper-config-name": "small",
                }
            ]
        self.cluster.ok("start-task", "-", text=json.dumps(task))

    def end(self) -> None:
        """Stops writer, task and source."""
        self.stop_writing()
        self.cluster.ok("stop-task", self.task)
        self.cluster.ok("operate-source", "stop", self.source)

    # ---- the writer -------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Starts the writer; each transaction inserts, updates and deletes."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._write, name=f"writer-{self.task}", daemon=True)
        self._thread.start()

    def _write(self) -> None:
        try:
            connection = self.cluster.connect(self.upstream)
            connection.autocommit(False)
            while not self._stopped.wait(0.02):
                self._transaction(connection)
                self.written += 1
        except Exception as exc:  # noqa: BLE001 - shown by the test's own thread
            self._failure = repr(exc)

    def _transaction(self, connection: pymysql.Connection[Any]) -> None:
        name, chosen = f"`{self.task}`", self._random
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {name}.orders VALUES (%s, %s, %s, %s, %s)", self._row(self._next))
            cursor.execute(
                f"UPDATE {name}.orders SET amount = amount + 1, note = CONCAT('u', LEFT(note, 50)) WHERE id = %s",
                (chosen.randrange(self._next),),
            )
            cursor.execute(f"DELETE FROM {name}.orders WHERE id = %s", (chosen.randrange(self._next),))
            cursor.execute(f"INSERT INTO {name}.events VALUES (%s, %s)", (chosen.randrange(7), f"ö {self._next}"))
            if self._next % 5 == 0:
                cursor.execute(f"DELETE FROM {name}.events WHERE kind = %s LIMIT 1", (chosen.randrange(7),))
        connection.commit()
        self._next += 1

    def wait_written(self, transactions: int) -> None:
        """Waits until that many more transactions are written."""
        goal = self.written + transactions
        wait_until(lambda: self.written >= goal or bool(self._failure), "the writer works", LIMIT)
        assert not self._failure, self._failure

    def stop_writing(self) -> int:
        """Ends the writer; how many transactions were written."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(LIMIT)
        assert not self._failure, self._failure
        return self.written

    def reconnect(self) -> None:
        """After a restart of the servers, which have other ports."""
        self._connection = self.cluster.connect(self.upstream)

    # ---- the comparison ---------------------------------------------------------------------------------------------

    def rows_at_target(self) -> int:
        """Rows of ``orders`` there; 0 while there is no table."""
        try:
            if self._at_target is None:
                self._at_target = self.cluster.connect("target")
            with self._at_target.cursor() as cursor:
                cursor.execute(f"SELECT COUNT(*) FROM `{self.task}`.orders")
                return int(cursor.fetchone()[0])  # type: ignore[index]
        except pymysql.MySQLError:
            return 0

    def compare(self) -> dict[str, object]:
        """Stops the writer; source and target must become equal. The source's counts and checksums."""
        self.stop_writing()
        wanted = checksum(self._connection, self.task)
        found: dict[str, object] = {}

        def equal() -> bool:
            try:
                with self.cluster.connect("target") as connection:
                    found.update(checksum(connection, self.task))
            except pymysql.MySQLError as exc:
                found["error"] = str(exc)
                return False
            found.pop("error", None)
            return found == wanted

        wait_until(equal, lambda: f"the target has {wanted}; it has {found}", LIMIT, step=1)
        # What is equal stays equal: nothing is applied twice afterwards.
        pause(2)
        assert equal(), (wanted, found)
        assert self.written > 0
        return wanted


def _password(server: str) -> str:
    return TARGET_PASSWORD if server == "target" else UPSTREAM_PASSWORD
