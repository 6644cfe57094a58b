"""Online DDL tools at work on a real server: pt-online-schema-change itself, and the statements that gh-ost issues."""

from __future__ import annotations

import contextlib
import random
import subprocess
import threading
from collections.abc import Sequence

import pymysql

from deploy.local.mysql import SQLServer


def pt_osc(upstream: SQLServer, schema: str, table: str, alter: str, *options: str) -> str:
    """Changes a table with pt-online-schema-change; its output."""
    command = [
        "pt-online-schema-change", f"--alter={alter}", "--execute", "--no-version-check", "--recursion-method=none",
        "--chunk-size=200", "--max-load=Threads_running=500", "--critical-load=Threads_running=900",
        "--charset=utf8mb4", *options, f"h=127.0.0.1,P={upstream.port},u=root,D={schema},t={table}",
    ]  # fmt: skip
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


class GhOst:
    """gh-ost's statements for one table with the columns ``kept`` before and after the change."""

    def __init__(self, upstream: SQLServer, schema: str, table: str, kept: str) -> None:
        self._upstream = upstream
        self._schema, self._table, self._kept = schema, table, kept
        self.ghost, self._log, self._old = (f"`_{table}_{suffix}`" for suffix in ("gho", "ghc", "del"))

    def begin(self, *alters: str) -> None:
        """Makes its tables and alters the ghost table."""
        self._run(
            f"drop /* gh-ost */ table if exists {self._in(self.ghost)}",
            f"drop /* gh-ost */ table if exists {self._in(self._log)}",
            f"create /* gh-ost */ table {self._in(self._log)} (id bigint auto_increment, last_update timestamp not null"
            " DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, hint varchar(64) charset ascii not null,"
            " value varchar(4096) charset ascii not null, primary key(id), unique key hint_uidx(hint))"
            " auto_increment=256",
            f"create /* gh-ost */ table {self._in(self.ghost)} like {self._in(f'`{self._table}`')}",
            *(f"alter /* gh-ost */ table {self._in(self.ghost)} {alter}" for alter in alters),
            f"insert /* gh-ost */ into {self._in(self._log)} (id, hint, value) values (1, 'state', 'Migrated')",
        )

    def copy(self) -> None:
        """Copies the rows, as its chunks and what it reads from the binlog do."""
        self._run(
            f"insert /* gh-ost */ ignore into {self._in(self.ghost)} ({self._kept}) (select {self._kept} from"
            f" {self._in(f'`{self._table}`')} force index (`PRIMARY`) lock in share mode)",
            f"insert /* gh-ost */ into {self._in(self._log)} (hint, value) values ('copy', 'done')"
            " on duplicate key update value = values(value)",
        )

    def cut_over(self, *, atomic: bool = True) -> None:
        """Swaps the tables; nobody may write meanwhile (gh-ost locks the table)."""
        real = f"`{self._table}`"
        if atomic:
            self._run(
                f"create /* gh-ost */ table {self._in(self._old)} (id int auto_increment primary key)"
                " engine=InnoDB comment='ghost-cut-over-sentry'",
                f"drop /* gh-ost */ table if exists {self._in(self._old)}",
                f"rename /* gh-ost */ table {self._in(real)} to {self._in(self._old)}, {self._in(self.ghost)} to"
                f" {self._in(real)}",
            )
        else:
            self._run(
                f"alter /* gh-ost */ table {self._in(real)} rename {self._old}",
                f"alter /* gh-ost */ table {self._in(self.ghost)} rename {real}",
            )

    def end(self) -> None:
        self._run(*(f"drop /* gh-ost */ table if exists {self._in(name)}" for name in (self._log, self._old)))

    def _in(self, table: str) -> str:
        return f"`{self._schema}`.{table}"

    def _run(self, *statements: str) -> None:
        self._upstream.execute(f"USE `{self._schema}`", *statements)


class Writer:
    """Changes rows of tables ``(id, v, note)`` until it is stopped, whatever other columns they have."""

    def __init__(self, upstream: SQLServer, tables: Sequence[str]) -> None:
        self._upstream = upstream
        self._tables = tables
        self._end = threading.Event()
        self.changes = 0
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def _main(self) -> None:
        chance = random.Random(11)
        conn = self._upstream.connect(charset="utf8mb4")
        with conn, conn.cursor() as cursor:
            while not self._end.is_set():
                table, key = chance.choice(self._tables), chance.randrange(2000)
                statement = chance.choice(
                    [
                        f"REPLACE INTO {table} (id, v, note) VALUES ({key}, {key % 7}, 'wörter {key}')",
                        f"UPDATE {table} SET v = v + 1 WHERE id = {key}",
                        f"DELETE FROM {table} WHERE id = {key}",
                    ]
                )
                # The tool's copying makes deadlocks.
                with contextlib.suppress(pymysql.err.OperationalError):
                    cursor.execute(statement)
                    self.changes += 1
                self._end.wait(0.002)

    def stop(self) -> None:
        self._end.set()
        self._thread.join(120)
        assert not self._thread.is_alive()
