"""The two long-lived servers of a search, and what is set for all of a server's sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pymysql
from pymysql.connections import Connection

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up, wait_until
from deploy.local.tidb import TiDBServer
from tests.fuzz.features import ABILITIES, Pair

_ZONES = "server zone"
_SECONDS = 30.0
_MODES = {
    "none": "''",
    "ansi quotes": "CONCAT(@@GLOBAL.sql_mode, ',ANSI_QUOTES')",
    "no zero date off": "REPLACE(REPLACE(@@GLOBAL.sql_mode, 'NO_ZERO_IN_DATE', ''), 'NO_ZERO_DATE', '')",
}


def new_server(kind: str, *, upstream: bool, replica: bool = False) -> SQLServer:
    """A server of the kind that PAIR names, not started. A ``replica`` has all that it gets in a binlog of its own."""
    if kind == "tidb":
        return TiDBServer()
    family, _, version = kind.partition("-")
    extra = [*(["--local-infile=1"] if upstream else []), *(["--log-slave-updates=1"] if replica else [])]
    if family == "mariadb":
        return MariaDBServer(version=version, gtid=upstream, extra=extra)
    return MySQLServer(version=version, gtid=upstream, extra=extra)


class Servers:
    """A running pair. ``default_mode`` is what the upstream started with; ``versions``: what both call themselves."""

    def __init__(self, pair: Pair, upstream: SQLServer, target: SQLServer) -> None:
        self.pair = pair
        self.upstream = upstream
        self.target = target
        #: The upstream's time when its binlog began again.
        self._reset_in = 0
        ((self.default_mode,),) = upstream.execute("SELECT @@GLOBAL.sql_mode")
        self.versions = tuple(
            f"{server.name} {server.execute('SELECT VERSION()')[0][0]}" for server in (upstream, target)
        )

    def set_globals(self, settings: Mapping[str, str], upstream: SQLServer | None = None) -> None:
        """What sessions of the upstream (or of the server in its place) begin with, the task's own included."""
        upstream = upstream or self.upstream
        mode = _MODES.get(settings.get("server sql_mode", "default"))
        statements = [
            f"SET GLOBAL time_zone = '{settings.get(_ZONES, '+00:00')}'",
            f"SET GLOBAL sql_mode = '{self.default_mode}'",
            *([f"SET GLOBAL sql_mode = {mode}"] if mode else []),
        ]
        if "row metadata" in ABILITIES[self.pair.upstream]:
            metadata = settings.get("row metadata", "default")
            statements.append(f"SET GLOBAL binlog_row_metadata = {metadata.upper()}")
        upstream.execute(*statements)

    def restart(self, server: SQLServer, settings: Mapping[str, str], *, hard: bool) -> None:
        """Stops one of both (``hard``: as kill -9) and starts it again."""
        if hard:
            server.kill()
        else:
            server.stop()
        server.start()
        self.set_globals(settings)

    def reset_binlog(self) -> None:
        """Not in the second of the last one: a task does not tell two files of one name and second apart
        (docs/exactly-once.md)."""
        wait_until(lambda: self._second() > self._reset_in, "the next second of the upstream", _SECONDS)
        words = "BINARY LOGS AND GTIDS" if self.upstream.binlog_words == "BINARY LOG" else "MASTER"
        self.upstream.execute(f"RESET {words}")
        self._reset_in = self._second()

    def _second(self) -> int:
        ((found,),) = self.upstream.execute("SELECT UNIX_TIMESTAMP()")
        return int(found)


@contextmanager
def running_servers(pair: Pair) -> Iterator[Servers]:
    upstream, target = new_server(pair.upstream, upstream=True), new_server(pair.target, upstream=False)
    with up(upstream, target):
        yield Servers(pair, upstream, target)


def attempt(conn: Connection[Any], sql: str) -> bool:
    """Runs a statement that this server may refuse; whether it took it."""
    try:
        with conn.cursor() as cursor:
            cursor.execute(sql)
    except pymysql.Error:
        return False
    return True


def attempt_all(conn: Connection[Any], statements: Sequence[str]) -> frozenset[str]:
    """As :func:`attempt`, one after the other; then the connection ends. Returns those that the server refused."""
    with closing(conn):
        return frozenset(sql for sql in statements if not attempt(conn, sql))
