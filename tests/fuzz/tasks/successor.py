"""A replica of the upstream that takes its place: the failover of a source whose servers have GTIDs."""

from __future__ import annotations

from typing import Any

import pymysql.cursors

from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError, wait_until
from tests.fuzz.servers import Servers, new_server

_SECONDS = 30.0


class Successor:
    """A server of the upstream's own kind with the upstream's GTIDs, from :meth:`follow` on."""

    def __init__(self, servers: Servers) -> None:
        self._upstream = servers.upstream
        self._kind = servers.pair.upstream
        self.server: SQLServer = new_server(self._kind, upstream=True, replica=True)
        self.server.start()
        newest = self._upstream.binlog_words == "BINARY LOG"
        self._words = ("REPLICA", "SOURCE", "REPLICATION SOURCE") if newest else ("SLAVE", "MASTER", "MASTER")

    def follow(self) -> None:
        """From the upstream's present end on. Whatever it had before is gone."""
        replica, source, change = self._words
        server = self.server
        server.execute(f"STOP {replica}", f"RESET {replica} ALL")
        server.wipe()
        server.execute("RESET BINARY LOGS AND GTIDS" if source == "SOURCE" else "RESET MASTER")
        gtids = _executed(self._upstream)
        if server.flavor == "mariadb":
            server.execute(f"SET GLOBAL gtid_slave_pos = '{gtids}'")
            at = "MASTER_USE_GTID=slave_pos"
        else:
            server.execute(f"SET GLOBAL gtid_purged = '{gtids}'")
            at = f"{source}_AUTO_POSITION=1"
        server.execute(
            f"CHANGE {change} TO {source}_HOST='127.0.0.1', {source}_PORT={self._upstream.port}, {source}_USER='root',"
            f" {source}_CONNECT_RETRY=1, {at}",
            f"START {replica}",
        )

    def promote(self) -> None:
        """Waits until it has all of the upstream, and takes writes from then on."""
        want, replica = _executed(self._upstream), self._words[0]

        def caught_up() -> bool:
            error = self._error()
            if error:
                raise HarnessError(f"the successor stopped: {error}")
            return _executed(self.server) == want

        wait_until(caught_up, lambda: f"the successor has {want}, it is at {_executed(self.server)}", _SECONDS)
        self.server.execute(f"STOP {replica}", f"RESET {replica} ALL")

    def _error(self) -> str:
        conn = self.server.connect(cursorclass=pymysql.cursors.DictCursor)
        try:
            with conn.cursor() as cursor:
                cursor.execute(f"SHOW {self._words[0]} STATUS")
                found: dict[str, Any] = cursor.fetchone()
        finally:
            conn.close()
        return str(found["Last_SQL_Error"] or found["Last_IO_Error"])

    def close(self) -> None:
        self.server.cleanup()


def _executed(server: SQLServer) -> str:
    name = "gtid_current_pos" if server.flavor == "mariadb" else "gtid_executed"
    ((found,),) = server.execute(f"SELECT @@GLOBAL.{name}")
    return str(found).replace("\n", "")
