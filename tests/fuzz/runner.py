"""Runs histories through the real dumper, loader and syncer, and judges what came of them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from pkg.config.model import SubTaskConfig
from pkg.rules.model import SHADOW_TABLE_RULES, TRASH_TABLE_RULES
from tests.fuzz import oracle
from tests.fuzz.engine import LocalEngine
from tests.fuzz.features import UNCOORDINATED_DDL, Pair, feature
from tests.fuzz.history import PHASES, History, Phase, Step
from tests.fuzz.oracle import Content
from tests.fuzz.played import Copied, Hang, Played, Stopped
from tests.fuzz.refusals import STOPPING, reason
from tests.fuzz.replica import Replica
from tests.fuzz.servers import Servers, attempt
from tests.fuzz.tasks.clusters import ClusterRun, FuzzCluster, plays_in_cluster
from tests.fuzz.tasks.copying import FullCopy, Writer
from tests.fuzz.tasks.events import ALONE, OFTEN, Events
from tests.fuzz.tasks.filtered import FilteredRows
from tests.fuzz.tasks.prepared import prepare_target
from tests.fuzz.tasks.relays import TaskRelay
from tests.fuzz.tasks.rules import is_ruled
from tests.fuzz.tasks.source_runs import SourceRuns
from tests.fuzz.tasks.subtasks import subtasks_of
from tests.fuzz.tasks.successor import Successor
from tests.fuzz.verdict import Kind, Verdict

#: XA_RBROLLBACK.
_ROLLED_BACK = 1402
_SESSION = ("SET SESSION innodb_lock_wait_timeout = 1", "SET SESSION lock_wait_timeout = 2")
#: Pairs of which only the upstream has a negative zero.
_WITHOUT_NEGATIVE_ZERO = frozenset({"mysql to mariadb", "mysql to tidb"})
#: Tables of online schema change tools, which a task leaves out.
_SHADOW = re.compile("|".join((*SHADOW_TABLE_RULES, *TRASH_TABLE_RULES)))
_LOADED = "21\t3\n22\t4\n1\t5\n3\t6\n"


@dataclass(frozen=True)
class InOneTask:
    """The verdict on each history; none where the task of several has stopped: then the number of the one that the
    error names, if it names one."""

    verdicts: Sequence[Verdict]
    blamed: int | None = None


class Runner:
    """Runs groups of histories with equal settings, one task per group."""

    def __init__(self, servers: Servers, engine: LocalEngine) -> None:
        self._servers = servers
        self._engine = engine
        self._replica: Replica | None = None
        self._successor: Successor | None = None
        self.cluster = FuzzCluster()
        self._files = tempfile.TemporaryDirectory(prefix="dm-fuzz-", ignore_cleanup_errors=True)
        #: The files of all tasks: dumps, relay logs.
        self.folder = Path(self._files.name)
        self._file = self.folder / "rows.txt"
        self._file.write_text(_LOADED)

    @property
    def pair(self) -> Pair:
        return self._servers.pair

    @property
    def versions(self) -> tuple[str, ...]:
        return self._servers.versions

    def close(self) -> None:
        for other in (self._replica, self._successor, self.cluster):
            if other is not None:
                other.close()
        self._files.cleanup()

    def _follower(self) -> Successor:
        """The replica for failovers, started when it is first needed."""
        if self._successor is None:
            self._successor = Successor(self._servers)
        return self._successor

    def _attempt(self, histories: Sequence[History], cluster: FuzzCluster | None = None) -> _Attempt:
        # What was to die in the last attempt's task must not die in this one's.
        self._engine = self._engine.unharmed()
        return _Attempt(self._servers, self._engine, self.folder, self._file, histories, self._follower, cluster)

    def inherent(self, history: History) -> str:
        """What a native replica makes of a history that failed, if it fares no better; empty if it does, or if the
        history takes the binlog away or its target is no copy: a replica has no rules."""
        settings = history.settings
        ruled = settings["rule"] != "none" or is_ruled(settings)
        if settings["event"] == "failover":
            return self._successors_own(history)
        if settings["event"] in ALONE or ruled or settings["mode"] == "full":
            return ""
        if self._replica is None:
            self._replica = Replica(self._servers)
        attempt = self._attempt([history])
        try:
            return attempt.as_replica(self._replica)
        finally:
            attempt.close()

    def _successors_own(self, history: History) -> str:
        """How the replica that took the upstream's place differed from it; empty if it did not."""
        attempt = self._attempt([history])
        try:
            with suppress(Stopped, Hang):
                attempt.run()
            found = attempt.played[0].unlike
        finally:
            attempt.close()
        return f"a native replica is not like its upstream: {found}" if found else ""

    def run_in_cluster(self, histories: Sequence[History]) -> list[Verdict]:
        """As :meth:`run`, in real processes, of which some are killed."""
        return self.run(histories, self.cluster if plays_in_cluster(histories[0].settings) else None)

    def run(self, histories: Sequence[History], cluster: FuzzCluster | None = None) -> list[Verdict]:
        """The verdict on each. What stops the task of several is found by running them one by one.

        In a ``cluster``, processes are killed. What would stop the tasks of others plays in threads all the same.
        """
        alone = {number for number, one in enumerate(histories) if is_alone(one)}
        several = len(histories) > 1
        if alone and several:
            return self._apart(histories, alone, cluster, None)
        one_task = self.in_one_task(histories, cluster)
        if not one_task.verdicts:
            return self._without(one_task.blamed, histories, cluster)
        # What was not alone may be another's fault.
        return [
            self.run([one], cluster)[0] if several and found.is_finding else found
            for one, found in zip(histories, one_task.verdicts, strict=True)
        ]

    def in_one_task(self, histories: Sequence[History], cluster: FuzzCluster | None = None) -> InOneTask:
        """What came of all in one task, where a finding may be another history's fault."""
        attempt = self._attempt(histories, cluster)
        try:
            return InOneTask(attempt.run())
        except (Stopped, Hang) as exc:
            if len(histories) == 1:
                return InOneTask([attempt.verdict_of(exc, attempt.played[0])])
            return InOneTask([], attempt.blamed(exc))
        finally:
            attempt.close()

    def _apart(
        self,
        histories: Sequence[History],
        alone: Collection[int],
        cluster: FuzzCluster | None,
        its_own: FuzzCluster | None,
    ) -> list[Verdict]:
        """The verdicts, where histories of these numbers have tasks of their own (in the cluster ``its_own``): they
        would stop the others."""
        others = [one for number, one in enumerate(histories) if number not in alone]
        verdicts = iter(self.run(others, cluster) if others else ())
        return [
            self.run([one], its_own)[0] if number in alone else next(verdicts) for number, one in enumerate(histories)
        ]

    def _without(self, number: int | None, histories: Sequence[History], cluster: FuzzCluster | None) -> list[Verdict]:
        """The verdicts, with the history that the error names run alone; all alone where it names none."""
        if number is None:
            return [verdict for one in histories for verdict in self.run([one], cluster)]
        return self._apart(histories, {number}, cluster, cluster)


class _Attempt:
    """One task with its histories, from the creation of their tables to the comparison."""

    _number = 0

    def __init__(
        self,
        servers: Servers,
        engine: LocalEngine,
        folder: Path,
        file: Path,
        histories: Sequence[History],
        successor: Callable[[], Successor],
        cluster: FuzzCluster | None,
    ) -> None:
        self._servers = servers
        self._upstream, self._target = servers.upstream, servers.target
        self._engine = engine
        self._file = str(file)
        self._folder = folder
        self._settings = histories[0].settings
        self.played = []
        for history in histories:
            _Attempt._number += 1
            self.played.append(
                Played(history, f"h{_Attempt._number}", in_utf8=servers.pair.target == "tidb" or history.translates)
            )
        self._name = f"f{_Attempt._number}"
        self._events = 0
        self._successor = successor
        self._happenings = Events(servers, engine, self._settings, successor, self._moved)
        self._cluster = cluster
        self._running: SourceRuns | ClusterRun | None = None

    @property
    def _task(self) -> SourceRuns | ClusterRun:
        assert self._running is not None, "events come when the task is there"
        return self._running

    # -- the whole ------------------------------------------------------------------------------------------------

    def run(self) -> list[Verdict]:
        servers, settings = self._servers, self._settings
        servers.set_globals(settings)
        self._target.execute("DROP DATABASE IF EXISTS dm_meta")
        if settings["event"] == "failover":
            self._successor().follow()
        for one in self.played:
            self._create(one)
        for one in self.played:
            self._steps(one, "before")
            if settings["mode"] == "incremental" or one.rules.needs_target_tables:
                prepare_target(one, servers, settings, self._file)
        if settings["event"] == "reset":
            servers.reset_binlog()
        cfgs = subtasks_of(self._name, settings, servers, [one.rules for one in self.played], self._folder)
        self._running = self._new_task(cfgs)
        phases: list[Phase] = ["live"]
        if self._cluster is not None:
            # Nobody sees the moments of a dump in another process.
            phases = list(PHASES[1:])
        elif settings["mode"] != "incremental":
            writers = [Writer(one.schemas, partial(self._steps, one)) for one in self.played]
            FullCopy(cfgs, self._engine, writers, self._see).run()
        if settings["mode"] == "full":
            return [self._compare(one) for one in self.played]
        for one in self.played:
            self._follow_rows(one)
        self._task.start()
        for phase in phases:
            for number, one in enumerate(self.played):
                if phase == "live" and number == len(self.played) // 2:
                    self._kill()
                self._steps(one, phase)
        self._task.wait(self._upstream)
        for one in self.played:
            self._look(one)
        self._task.stop()
        verdicts = [self._compare(one) for one in self.played]
        if self._cluster is not None:
            self._cluster.compared += len(verdicts)
        return verdicts

    def _see(self, cfg: SubTaskConfig) -> None:
        """Remembers what a source's dump should have, where nothing is replicated after it."""
        if self._settings["mode"] != "full":
            return
        for one in self.played:
            schemas = one.rules.schemas_of(cfg.source_id)
            tables = [table for table in self._sources(one) if table[0] in schemas]
            contents = one.contents(self._upstream, tables)
            one.copied[cfg.source_id] = Copied(contents, oracle.structures(self._upstream, tables))

    def _kill(self) -> None:
        """In a cluster something dies in any case."""
        if isinstance(self._running, ClusterRun):
            self._running.happen("kill", self._happenings)

    def _new_task(self, cfgs: Sequence[SubTaskConfig]) -> SourceRuns | ClusterRun:
        if self._cluster is not None:
            (cfg,) = cfgs
            return ClusterRun(cfg, self._cluster, self._upstream, self.played[0].history.seed)
        relays: list[TaskRelay | None] = [None for _ in cfgs]
        if self._settings.get("relay") == "on":
            relays = [
                TaskRelay(self._upstream, self._folder / f"{self._name}-{cfg.source_id}-relay", cfg) for cfg in cfgs
            ]
        return SourceRuns(cfgs, self._engine, relays)

    def as_replica(self, replica: Replica) -> str:
        """See :meth:`Runner.inherent`."""
        self._servers.set_globals(self._settings)
        replica.follow()
        try:
            self.run()
        except (Stopped, Hang) as exc:
            stopped = replica.catch_up()
            return f"a native replica stops too: {stopped}" if stopped and isinstance(exc, Stopped) else ""
        one = self.played[0]
        if stopped := replica.catch_up():
            return f"a native replica stops: {stopped}"
        want, got = self._contents(one)
        there = oracle.contents(replica.server, dict.fromkeys(self._sources(one)))
        theirs = {one.rules.target_of(table): found for table, found in there.items()}
        if oracle.differences(want, theirs) and not oracle.differences(theirs, got):
            return "a native replica has the same rows as the target"
        return ""

    def close(self) -> None:
        try:
            if self._running is not None:
                self._running.close()
        finally:
            for one in self.played:
                one.close()
            self._forget_prepared()
            # Tables of one schema may refer to another's.
            for server, schemas in (
                (self._servers.upstream, [schema for one in self.played for schema in one.schemas]),
                (self._target, [schema for one in self.played for schema in one.rules.target_schemas]),
            ):
                drops = (f"DROP DATABASE IF EXISTS `{name}`" for name in schemas)
                server.execute("SET foreign_key_checks = 0", *drops)

    def blamed(self, exc: Exception) -> int | None:
        """The history whose schema the error names first."""
        named = re.search(r"\bh\d+(?=_[2b]\b|r\b|\b)", str(exc).split("Workaround")[0])
        schemas = [one.schema for one in self.played]
        return schemas.index(named[0]) if named and named[0] in schemas else None

    def _forget_prepared(self) -> None:
        """Prepared transactions outlive their sessions, and hold the tables."""
        for server in {self._upstream, self._servers.upstream}:
            for _, length, _, data in server.execute("XA RECOVER"):
                name = data if isinstance(data, str) else data.decode()
                try:
                    server.execute(f"XA ROLLBACK '{name[: int(length)]}'")
                except pymysql.OperationalError as exc:
                    # The server rolled it back by itself, which ends it too.
                    if exc.args[0] != _ROLLED_BACK:
                        raise

    def verdict_of(self, exc: Exception, one: Played) -> Verdict:
        features = self._features(one)
        if one.early:
            return Verdict("different", features, 0, one.early, one.statements, one.failed)
        if isinstance(exc, Stopped):
            text, code = str(exc), exc.code
            right = reason(code, text, features)
            kind: Kind = "stopped" if right is None else "refused"
            return Verdict(kind, features, code, text, one.statements, one.failed)
        return Verdict("hang", features, 0, str(exc), one.statements, one.failed)

    def _features(self, one: Played) -> frozenset[str]:
        planned = (name for name in one.history.features if one.target_differs or not name.startswith("target="))
        found = frozenset({*planned, *one.tags, f"servers={self._servers.pair.families}"})
        # A relay log that nobody read proves nothing.
        return found if self._running is not None and self._running.has_read_relay else found - {"relay=on"}

    # -- before the task ------------------------------------------------------------------------------------------

    def _create(self, one: Played) -> None:
        self._upstream.execute(*(f"CREATE DATABASE {schema}" for schema in one.rules.shard_schemas))
        for session in one.history.sessions:
            one.sessions.append(self._session(session))
        for shard in range(one.rules.shards):
            for table in one.history.tables:
                self._execute(one, one.sessions[0], Step(text=table.sql(), shard=shard))

    def _follow_rows(self, one: Played) -> None:
        rules, table = one.rules, (one.schema, "t")
        if rules.row_filter != "none" and table in self._sources(one):
            one.filtered = FilteredRows(
                self._upstream,
                table,
                rules.row_filter,
                rules.expression,
                safe=self._settings["safe"] == "on",
                reading=one.reading(table),
            )

    def _session(self, settings: Sequence[str]) -> Connection[Any]:
        conn = self._upstream.connect(local_infile=True)
        for statement in (*_SESSION, *settings):
            attempt(conn, statement)
        return conn

    # -- steps ----------------------------------------------------------------------------------------------------

    def _steps(self, one: Played, phase: Phase) -> None:
        for step in one.history.steps:
            if step.phase != phase:
                continue
            if step.do == "event":
                self._event(one, step.text)
                continue
            session = one.sessions[min(step.session, len(one.sessions) - 1)]
            if step.tied in one.broken:
                continue
            frozen = self._frozen(one, step)
            if self._execute(one, session, step):
                one.frozen.update(frozen)
            elif step.tied:
                one.broken.add(step.tied)

    def _execute(self, one: Played, conn: Connection[Any], step: Step) -> bool:
        """Whether the upstream executed it."""
        one.statements += 1
        sql = step.sql()
        try:
            with conn.cursor() as cursor:
                cursor.execute(one.text(sql, self._file, step.shard))
            if one.filtered is not None:
                one.filtered.changed()
            one.tags.update(step.tags)
            one.done.append(sql)
            return True
        except (pymysql.Error, UnicodeError):
            one.failed += 1
            return False

    def _frozen(self, one: Played, step: Step) -> dict[oracle.Table, Content | None]:
        """What a rule keeps at the target although the statement takes it away upstream."""
        words = step.sql().lower()
        rule = self._settings["rule"]
        if rule == "drop database" and words.startswith("drop database"):
            tables = [table for table in self._sources(one) if table[0] == one.schema]
        elif rule == "drop table" and words.startswith("drop table {s}.`u`"):
            tables = [(one.schema, "u")]
        else:
            return {}
        return one.contents(self._upstream, tables)

    def _event(self, one: Played, name: str) -> None:
        if name == "wait":
            self._events += 1
            if self._events <= 3 or len(self.played) == 1:
                self._task.wait(self._upstream, settled=not one.rules.shard_mode)
                if not one.rules.shard_mode and not self._is_ahead(one):
                    self._look(one)
            return
        task = self._task
        if one is not self.played[0] and (name not in OFTEN or isinstance(task, ClusterRun)):
            return
        one.tags.update([f"event={name}"] if name != "start" else [])
        if isinstance(task, ClusterRun):
            task.happen(name, self._happenings)
        else:
            self._happenings.happen(name, task)

    @staticmethod
    def _is_ahead(one: Played) -> bool:
        """Whether a shard may have a column that others get later."""
        return bool(one.rules.merge) and feature("statement", UNCOORDINATED_DDL) in one.tags

    def _look(self, one: Played) -> None:
        """Compares while the task runs. At the end a difference may be gone, or the task may have stopped for a good
        reason. A difference of which the task tells itself is none; among several histories nobody waits for that, for
        each that differs is run again alone."""
        if one.early or not (found := oracle.differences(*self._contents(one))):
            return
        if len(self.played) == 1:
            self._task.ensure_going(self._upstream)
            found = oracle.differences(*self._contents(one))
        one.early = "\n".join(found)

    def _moved(self, upstream: SQLServer) -> None:
        """The sessions that there were are gone, with their transactions."""
        before, self._upstream = self._upstream, upstream
        for one in self.played:
            if upstream is not before:
                one.unlike = self._replica_differs(one, before)
            for session in one.sessions:
                with suppress(pymysql.Error):
                    session.close()
            one.sessions = [self._session(settings) for settings in one.history.sessions]

    def _replica_differs(self, one: Played, before: SQLServer) -> str:
        """How the tables of the server in the upstream's place differ from those of the one that it replicated."""
        tables = self._sources(one)
        then, now = (oracle.contents(server, dict.fromkeys(tables)) for server in (before, self._upstream))
        was, became = (oracle.structures(server, tables) for server in (before, self._upstream))
        return "\n".join([*oracle.differences(then, now), *oracle.structure_differences(was, became)])

    # -- the comparison -------------------------------------------------------------------------------------------

    def _compare(self, one: Played) -> Verdict:
        found = [one.early] if one.early else oracle.differences(*self._contents(one))
        if not found and self._settings["mode"] != "incremental":
            found = self._structures(one)
        features = self._features(one)
        kind: Kind = "different" if found else "equal"
        return Verdict(kind, features, 0, "\n".join(found), one.statements, one.failed)

    def _sources(self, one: Played) -> list[oracle.Table]:
        """The upstream's tables that the target should have."""
        there = oracle.tables_of(self._upstream, one.schemas)
        return [table for table in there if not _SHADOW.match(table[1])]

    def _contents(self, one: Played) -> tuple[dict[oracle.Table, Content | None], dict[oracle.Table, Content | None]]:
        """What the target should hold, and what it holds, by its own tables."""
        unsigned = self._servers.pair.families in _WITHOUT_NEGATIVE_ZERO
        there = {table: found for seen in one.copied.values() for table, found in seen.contents.items()}
        if not one.copied:
            there = one.contents(self._upstream, self._sources(one))
        want = one.expected(there, unsigned_zero=unsigned)
        columns = {table: found.columns if found is not None else None for table, found in want.items()}
        return want, oracle.contents(self._target, columns, lambda _: oracle.Reading(in_utf8=one.in_utf8))

    def _structures(self, one: Played) -> list[str]:
        rules = one.rules
        if self._servers.pair.upstream != self._servers.pair.target or rules.needs_target_tables:
            return []
        there = {table: found for seen in one.copied.values() for table, found in seen.structures.items()}
        if not one.copied:
            there = oracle.structures(
                self._upstream, [table for table in self._sources(one) if table not in one.frozen]
            )
        want = {rules.target_of(table): found for table, found in there.items() if rules.is_first(table)}
        return oracle.structure_differences(want, oracle.structures(self._target, list(want)))


def is_alone(history: History) -> bool:
    """Whether it would stop the tasks of others, or change their servers."""
    return history.settings["event"] in ALONE or not STOPPING.isdisjoint(history.planned)
