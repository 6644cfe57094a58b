"""The connections of a run, except those of Spark tasks, of the lock client and of the monitor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dm_worker.meta.ddl_fence import DDLFence
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.ddl.servers_keys import ServersKeys
from dm_worker.syncer.ddl.session import DDLSession
from dm_worker.syncer.execution.driver_tasks import DriverTasks
from dm_worker.syncer.execution.target_connections import SESSION
from dm_worker.syncer.rows.server_lookup import ServerLookup
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.config.model import SubTaskConfig
from pkg.config.target_session import writing_session


class RunConnections:
    """Each connection opens when it is first needed, and again when it is lost.

    ``upstream`` and ``target`` answer the queries of table plans: the planning thread uses them while it reads, and
    the main thread while the planning thread waits at a statement or has ended. ``servers_keys`` queries both servers.
    ``written_rows`` reads rows of the target in a session like the writers'. ``driver_tasks`` write tiny batches. The
    others belong to the main thread.
    """

    def __init__(
        self,
        cfg: SubTaskConfig,
        rules: TaskRules,
        should_stop: Callable[[], bool],
        timed: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``timed`` receives the seconds of each query of ``target``."""
        self.upstream = ServerLookup(cfg.from_, "upstream", should_stop)
        self.target = ServerLookup(cfg.to, "downstream", should_stop, timed=timed)
        session = writing_session(SESSION, dict(cfg.to.session))
        self.written_rows = ServerLookup(replace(cfg.to, session=tuple(session.items())), "downstream", should_stop)
        self.store = MetaStore(cfg, should_stop=should_stop)
        self.ddl_session = DDLSession(
            cfg.to, bool(cfg.to.foreign_key_checks), DDLFence(cfg, should_stop), cfg.target_collations
        )
        self.servers_keys = ServersKeys(cfg, rules, should_stop)
        self.driver_tasks = DriverTasks()

    def interrupt(self) -> None:
        """Cancels the planning thread's query; called from another thread."""
        self.upstream.interrupt()
        self.target.interrupt()
        self.servers_keys.interrupt()

    def abort_statement(self) -> None:
        """Ends the statement that runs at the target; called from another thread. Its intent shows the next run that
        it may have run."""
        self.ddl_session.abort()
        self.written_rows.interrupt()

    def close(self) -> None:
        self.driver_tasks.cancel()
        for lookup in (self.upstream, self.target, self.written_rows):
            lookup.close()
        for connection in (self.store, self.ddl_session, self.servers_keys):
            connection.close()
