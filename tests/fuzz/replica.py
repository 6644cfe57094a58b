"""A native replica of the upstream, to tell what no replication by this binlog can do better."""

from __future__ import annotations

import time
from typing import Any

import pymysql.cursors

from deploy.local.process import HarnessError
from tests.fuzz.servers import Servers, new_server
from tests.integration.syncer.support import location

_SECONDS = 30.0


class Replica:
    """A server of the upstream's own kind that replicates from it, from :meth:`follow` on."""

    def __init__(self, servers: Servers) -> None:
        self._upstream = servers.upstream
        self.server = new_server(servers.pair.upstream, upstream=True)
        self.server.start()
        newest = self._upstream.binlog_words == "BINARY LOG"
        self._words = ("REPLICA", "SOURCE", "REPLICATION SOURCE") if newest else ("SLAVE", "MASTER", "MASTER")

    def follow(self) -> None:
        """Starts at the upstream's end. Whatever the replica had is gone."""
        replica, source, change = self._words
        here = location(self._upstream).position
        self.server.execute(f"STOP {replica}", f"RESET {replica} ALL")
        self.server.wipe()
        self.server.execute(
            f"CHANGE {change} TO {source}_HOST='127.0.0.1', {source}_PORT={self._upstream.port}, {source}_USER='root',"
            f" {source}_LOG_FILE='{here.name}', {source}_LOG_POS={here.pos}, {source}_CONNECT_RETRY=1",
            f"START {replica}",
        )

    def catch_up(self) -> str:
        """Waits until it has all of the upstream; returns its error if it stopped."""
        want = location(self._upstream).position
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            status = self._status()
            if status["error"]:
                return str(status["error"])
            if (status["file"], status["at"]) >= (want.name, want.pos):
                return ""
            time.sleep(0.05)
        raise HarnessError(f"the native replica is not at {want} after {_SECONDS:.0f} s: {self._status()}")

    def _status(self) -> dict[str, Any]:
        replica, source, _ = self._words
        conn = self.server.connect(cursorclass=pymysql.cursors.DictCursor)
        try:
            with conn.cursor() as cursor:
                cursor.execute(f"SHOW {replica} STATUS")
                found: dict[str, Any] = cursor.fetchone()
        finally:
            conn.close()
        side = source.title()
        return {
            "file": found[f"Relay_{side}_Log_File"],
            "at": int(found[f"Exec_{side}_Log_Pos"]),
            "error": found["Last_SQL_Error"] or found["Last_IO_Error"],
        }

    def close(self) -> None:
        self.server.cleanup()
