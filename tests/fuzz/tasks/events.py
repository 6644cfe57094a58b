"""What happens around a task while its upstream is written to: stops, crashes, restarts, other servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from deploy.local.mysql import SQLServer
from tests.fuzz.engine import LocalEngine
from tests.fuzz.servers import Servers
from tests.fuzz.tasks.source_runs import SourceRuns
from tests.fuzz.tasks.successor import Successor
from tests.fuzz.tasks.task_run import TaskRun

#: Events after which nothing is as before for other histories too, so that each runs alone.
ALONE = frozenset({"reset", "failover"})
#: Events that cost little, so that each history of a group has its own.
OFTEN = frozenset({"pause", "crash before", "crash after", "cut target", "cut upstream", "transfer", "kill"})
#: A worker that is killed has begun fewer tasks than this.
_TASKS = 4


class Events:
    """The events of one attempt. ``moved`` is called with the server that the sessions have to go to now."""

    def __init__(
        self,
        servers: Servers,
        engine: LocalEngine,
        settings: Mapping[str, str],
        successor: Callable[[], Successor],
        moved: Callable[[SQLServer], None],
    ) -> None:
        self._servers = servers
        self._engine = engine
        self._settings = settings
        self._successor = successor
        self._moved = moved
        self._kills = 0

    def happen(self, name: str, task: SourceRuns) -> None:
        """What is of one source happens to the last one."""
        servers, one = self._servers, task.parts[-1]
        match name:
            case "pause":
                one.stop()
                one.start()
            case "crash before" | "crash after":
                task.forgive()
                self._engine.crash(name.split()[1])
            case "kill":
                task.forgive()
                self._kills += 1
                one.engine.die(self._kills % _TASKS)
            case "cut target" | "cut upstream":
                task.forgive()
                self.cut(name)
            case "restart target" | "restart upstream":
                self.restart(name)
                task.forgive()
            case "reset":
                task.wait(servers.upstream)
                task.stop()
                servers.reset_binlog()
            case "start":
                task.start()
            case "failover":
                self._fail_over(task)
            case "transfer":
                self._transfer(one)
            case _:
                self._of_relay(name, task, one)

    def cut(self, name: str) -> None:
        """The connections to one server end."""
        if name == "cut target":
            self._servers.target.end_connections(lambda row: row[7] is None or "PROCESSLIST" not in str(row[7]))
        else:
            self._servers.upstream.end_connections(lambda row: "Binlog Dump" in str(row[4]))

    def restart(self, name: str) -> None:
        """One server ends and starts again: the target as if killed, the upstream in order."""
        servers = self._servers
        if name == "restart target":
            servers.restart(servers.target, self._settings, hard=True)
        else:
            servers.restart(servers.upstream, self._settings, hard=False)
            self._moved(servers.upstream)

    def _fail_over(self, task: SourceRuns) -> None:
        """The sources' address leads to another server; the worker opens it with the checkpoint that it has."""
        successor = self._successor()
        successor.promote()
        self._servers.set_globals(self._settings, successor.server)
        task.stop(graceful=False)
        for one in task.parts:
            one.cfg = replace(one.cfg, from_=successor.server.db_config)
            if one.relay is not None:
                one.relay.move(successor.server)
        self._moved(successor.server)
        task.start()

    def _transfer(self, task: TaskRun) -> None:
        """Another worker continues from the checkpoint: nothing that this one kept in memory is there."""
        task.stop(graceful=False)
        task.engine = LocalEngine()
        task.start()

    def _of_relay(self, name: str, task: SourceRuns, one: TaskRun) -> None:
        relay = one.relay
        assert relay is not None, name
        match name:
            case "relay restart":
                relay.restart()
            case "relay killed":
                one.stop(graceful=False)
                relay.killed()
                one.start()
            case "relay purge":
                task.wait(self._servers.upstream, settled=False)
                relay.purge()
            case _:
                raise ValueError(name)
