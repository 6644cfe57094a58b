"""Runs histories through the real dumper, loader and syncer, and judges what came of them."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.dumper import DumpUnit, dump_task
from dm_worker.loader import LoadUnit
from dm_worker.subtask.unit import UnitOutcome
from pkg.binlog.position import parse_position
from pkg.config.model import LoaderConfig, Meta, MydumperConfig, SubTaskConfig, SyncerConfig
from pkg.rules.model import SHADOW_TABLE_RULES, TRASH_TABLE_RULES, BinlogFilterRule, BlockAllowList, RouteRule
from tests.fuzz import oracle
from tests.fuzz.engine import LocalEngine
from tests.fuzz.features import Pair
from tests.fuzz.history import History, Phase, Step
from tests.fuzz.oracle import Content
from tests.fuzz.played import Hang, Played, Stopped
from tests.fuzz.refusals import STOPPING, reason
from tests.fuzz.replica import Replica
from tests.fuzz.servers import Servers
from tests.fuzz.verdict import Kind, Verdict
from tests.integration.syncer.support import Running, location

#: Seconds that a task may take for a few rows before it counts as hanging.
HANG = 60.0
#: As a subtask's auto-resume: how often an error that may pass is tried again.
_RESUMES = 8
#: XA_RBROLLBACK.
_ROLLED_BACK = 1402
_SESSION = ("SET SESSION innodb_lock_wait_timeout = 1", "SET SESSION lock_wait_timeout = 2")
#: Tables of online schema change tools, which a task leaves out.
_SHADOW = re.compile("|".join((*SHADOW_TABLE_RULES, *TRASH_TABLE_RULES)))
_LOADED = "21\t3\n22\t4\n1\t5\n3\t6\n"


class Runner:
    """Runs groups of histories with equal settings, one task per group."""

    def __init__(self, servers: Servers, engine: LocalEngine) -> None:
        self._servers = servers
        self._engine = engine
        self._replica: Replica | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="dm-fuzz-"))
        self._file = self._folder / "rows.txt"
        self._file.write_text(_LOADED)

    @property
    def pair(self) -> Pair:
        return self._servers.pair

    def close(self) -> None:
        if self._replica is not None:
            self._replica.close()

    def inherent(self, history: History) -> str:
        """What a native replica makes of a history that failed, if it fares no better; empty if it does, or if the
        history takes the binlog away."""
        if history.settings.get("event") == "reset" or any(step.text == "reset" for step in history.steps):
            return ""
        if self._replica is None:
            self._replica = Replica(self._servers)
        attempt = _Attempt(self._servers, self._engine, self._folder, self._file, [history])
        try:
            return attempt.as_replica(self._replica)
        finally:
            attempt.close()

    def run(self, histories: Sequence[History]) -> list[Verdict]:
        """The verdict on each. What stops the task of several is found by running them one by one."""
        alone = {number for number, one in enumerate(histories) if not STOPPING.isdisjoint(one.features)}
        if alone and len(histories) > 1:
            return self._apart(histories, alone)
        attempt = _Attempt(self._servers, self._engine, self._folder, self._file, histories)
        several = len(histories) > 1
        try:
            verdicts = attempt.run()
        except (Stopped, Hang) as exc:
            if several:
                blamed = attempt.blamed(exc)
            else:
                verdicts = [attempt.verdict_of(exc, attempt.played[0])]
        else:
            # What was not alone may be another's fault.
            return [
                self.run([one])[0] if several and found.is_finding else found
                for one, found in zip(histories, verdicts, strict=True)
            ]
        finally:
            attempt.close()
        return self._without(blamed, histories) if several else verdicts

    def _apart(self, histories: Sequence[History], alone: Collection[int]) -> list[Verdict]:
        """The verdicts, where histories of these numbers have tasks of their own: they would stop the others."""
        others = [one for number, one in enumerate(histories) if number not in alone]
        verdicts = iter(self.run(others) if others else ())
        return [self.run([one])[0] if number in alone else next(verdicts) for number, one in enumerate(histories)]

    def _without(self, number: int | None, histories: Sequence[History]) -> list[Verdict]:
        """The verdicts, with the history that the error names run alone; all alone where it names none."""
        if number is None:
            return [verdict for one in histories for verdict in self.run([one])]
        return self._apart(histories, {number})


class _Attempt:
    """One task with its histories, from the creation of their tables to the comparison."""

    _number = 0

    def __init__(
        self, servers: Servers, engine: LocalEngine, folder: Path, file: Path, histories: Sequence[History]
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
            self.played.append(Played(history, f"h{_Attempt._number}"))
        self._name = f"f{_Attempt._number}"
        self._running: Running | None = None
        self._resumes = 0
        self._events = 0
        self._cfg: SubTaskConfig

    # -- the whole ------------------------------------------------------------------------------------------------

    def run(self) -> list[Verdict]:
        servers, settings = self._servers, self._settings
        servers.set_globals(settings)
        self._target.execute("DROP DATABASE IF EXISTS dm_meta")
        for one in self.played:
            self._create(one)
        for one in self.played:
            self._steps(one, "before")
            if settings["mode"] == "incremental":
                self._prepare_target(one)
        if settings["event"] == "reset":
            servers.reset_binlog()
        self._cfg = self._config()
        if settings["mode"] == "all":
            self._copy()
        self._start()
        for one in self.played:
            self._steps(one, "live")
        self._wait()
        self._stop()
        return [self._compare(one) for one in self.played]

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
        theirs = {one.target_of(table): found for table, found in there.items()}
        if oracle.differences(want, theirs) and not oracle.differences(theirs, got):
            return "a native replica has the same rows as the target"
        return ""

    def close(self) -> None:
        try:
            self._stop(graceful=False)
        finally:
            for one in self.played:
                for session in one.sessions:
                    session.close()
            self._forget_prepared()
            # Tables of one schema may refer to another's.
            schemas = [schema for one in self.played for schema in one.schemas]
            for server, names in (
                (self._upstream, schemas),
                (self._target, [*schemas, *(f"{one.schema}r" for one in self.played)]),
            ):
                drops = (f"DROP DATABASE IF EXISTS `{name}`" for name in names)
                server.execute("SET foreign_key_checks = 0", *drops)

    def blamed(self, exc: Exception) -> int | None:
        """The history whose schema the error names first."""
        named = re.search(r"\bh\d+(?=_b\b|r\b|\b)", str(exc).split("Workaround")[0])
        schemas = [one.schema for one in self.played]
        return schemas.index(named[0]) if named and named[0] in schemas else None

    def _forget_prepared(self) -> None:
        """Prepared transactions outlive their sessions, and hold the tables."""
        for _, length, _, data in self._upstream.execute("XA RECOVER"):
            name = data if isinstance(data, str) else data.decode()
            try:
                self._upstream.execute(f"XA ROLLBACK '{name[: int(length)]}'")
            except pymysql.OperationalError as exc:
                # The server rolled it back by itself, which ends it too.
                if exc.args[0] != _ROLLED_BACK:
                    raise

    def verdict_of(self, exc: Exception, one: Played) -> Verdict:
        features = self._features(one)
        if isinstance(exc, Stopped):
            text, code = str(exc), int(exc.error.code)
            right = reason(code, text, features)
            kind: Kind = "stopped" if right is None else "refused"
            return Verdict(kind, features, code, text, one.statements, one.failed)
        return Verdict("hang", features, 0, str(exc), one.statements, one.failed)

    def _features(self, one: Played) -> frozenset[str]:
        return frozenset({*one.history.features, *one.tags, f"servers={self._servers.pair.families}"})

    # -- before the task ------------------------------------------------------------------------------------------

    def _create(self, one: Played) -> None:
        self._upstream.execute(f"CREATE DATABASE {one.schema}")
        for session in one.history.sessions:
            one.sessions.append(self._session(session))
        for table in one.history.tables:
            self._execute(one, one.sessions[0], table.sql(), ())

    def _prepare_target(self, one: Played) -> None:
        """What an incremental task finds at the target: all that the upstream has done, and the target's own ways."""
        route = one.target_of((one.schema, "t"))
        _attempt_all(self._target.connect(), [f"CREATE DATABASE {route[0]}", f"CREATE DATABASE {one.schema}"])
        conn = self._target.connect(init_command=f"SET time_zone = '{self._settings['server zone']}'")
        # The upstream's own sessions begin with its modes.
        ((mode,),) = self._upstream.execute("SELECT @@GLOBAL.sql_mode")
        session = [f"SET sql_mode = '{mode}'", *one.history.sessions[0], "SET foreign_key_checks = 0"]
        made = [self._at_target(one, sql, route) for sql in (*one.done, *one.history.target)]
        _attempt_all(conn, [*session, *made])

    def _at_target(self, one: Played, sql: str, route: oracle.Table) -> str:
        return sql.replace("{s}.`t`", f"{route[0]}.`{route[1]}`").replace("{s}", route[0]).replace("{file}", self._file)

    def _session(self, settings: Sequence[str]) -> Connection[Any]:
        conn = self._upstream.connect(local_infile=True)
        for statement in (*_SESSION, *settings):
            _attempt(conn, statement)
        return conn

    def _config(self) -> SubTaskConfig:
        settings, upstream = self._settings, self._upstream
        here = location(upstream)
        schemas = [schema for one in self.played for schema in one.schemas]
        safe = settings["safe"] == "on"
        return SubTaskConfig(
            name=self._name,
            source_id="source-1",
            task_mode="all" if settings["mode"] == "all" else "incremental",
            from_=upstream.db_config,
            to=self._target.db_config,
            flavor=upstream.flavor,
            enable_gtid=settings["gtid"] == "on",
            meta=Meta(here.position.name, here.position.pos, here.gtid_set) if settings["mode"] != "all" else None,
            block_allow_list=BlockAllowList(do_dbs=tuple(schemas)),
            routes=tuple(route for one in self.played for route in self._routes(one)),
            filters=self._filters(),
            mydumper=MydumperConfig(threads=2),
            loader=LoaderConfig(pool_size=2, dir=str(self._folder / self._name)),
            syncer=SyncerConfig(
                worker_count=int(settings["workers"]),
                compact=False if settings["compact"] == "off" else None,
                multiple_rows=False if settings["multiple"] == "off" else None,
                safe_mode=safe,
            ),
        )

    def _routes(self, one: Played) -> list[RouteRule]:
        match self._settings["route"]:
            case "schema":
                return [RouteRule(one.schema, f"{one.schema}r")]
            case "table":
                return [RouteRule(one.schema, one.schema, "t", "t_r")]
        return []

    def _filters(self) -> tuple[BinlogFilterRule, ...]:
        rule = self._settings["rule"]
        return () if rule == "none" else (BinlogFilterRule("h*", "*", (rule,), (), "Ignore"),)

    # -- the full copy --------------------------------------------------------------------------------------------

    def _copy(self) -> None:
        with self._while_dumping():
            self._unit(lambda: DumpUnit(self._cfg, self._engine).run())
        for one in self.played:
            self._steps(one, "dumped")
        self._unit(lambda: LoadUnit(self._cfg, self._engine).run())

    def _unit(self, run: Callable[[], UnitOutcome]) -> None:
        for _ in range(_RESUMES):
            outcome = run()
            if outcome.finished:
                return
            error = outcome.errors[0]
            if not error.retryable:
                break
        raise Stopped(error)

    @contextmanager
    def _while_dumping(self) -> Iterator[None]:
        """Statements of the phases ``snapshot`` and ``chunk`` run when the snapshot is open."""
        original, lock, seen = dump_task.DumpTask._dump_chunk, threading.Lock(), 0

        def dump_chunk(task: Any, conn: Any, chunk: Any, progress: int) -> None:
            nonlocal seen
            with lock:
                phases: tuple[Phase, ...] = ("snapshot", "chunk")
                if seen < len(phases):
                    for one in self.played:
                        self._steps(one, phases[seen])
                seen += 1
            original(task, conn, chunk, progress)

        dump_task.DumpTask._dump_chunk = dump_chunk  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            dump_task.DumpTask._dump_chunk = original  # type: ignore[method-assign]

    # -- replication ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._running = Running(self._cfg, self._engine)

    def _stop(self, *, graceful: bool = True) -> None:
        running, self._running = self._running, None
        if running is not None and running.outcome is None:
            running.unit.stop(graceful=graceful)
            end = time.monotonic() + HANG
            while running._thread.is_alive():
                running._thread.join(0.02)
                if time.monotonic() > end:
                    raise Hang("the syncer does not stop")

    def _wait(self) -> None:
        """Until the target has all of the upstream; errors that may pass are tried again."""
        want = location(self._upstream)
        end = time.monotonic() + HANG
        while time.monotonic() < end:
            running = self._running
            if running is None:
                self._start()
                continue
            if running.outcome is not None:
                self._resume(running.outcome)
                continue
            status = running.unit.status()
            if self._cfg.enable_gtid:
                synced = status.syncerBinlogGtid == want.gtid_set
            else:
                here = status.syncerBinlog
                synced = "." in here and want.position <= parse_position(here)
            if synced:
                return
            time.sleep(0.01)
        raise Hang(f"the task is not at {want}: {self._running and self._running.unit.status()}")

    def _resume(self, outcome: UnitOutcome) -> None:
        error = outcome.errors[0] if outcome.errors else None
        self._resumes += 1
        if error is not None and (not error.retryable or self._resumes > _RESUMES):
            raise Stopped(error)
        time.sleep(0.1 * self._resumes)
        self._start()

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
            if self._execute(one, session, step.sql(), step.tags):
                one.frozen.update(frozen)
            elif step.tied:
                one.broken.add(step.tied)

    def _execute(self, one: Played, conn: Connection[Any], sql: str, tags: Sequence[str]) -> bool:
        """Whether the upstream executed it."""
        one.statements += 1
        try:
            with conn.cursor() as cursor:
                cursor.execute(one.text(sql, self._file))
            one.tags.update(tags)
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
            tables = oracle.tables_of(self._upstream, [one.schema])
        elif rule == "drop table" and words.startswith("drop table {s}.`u`"):
            tables = [(one.schema, "u")]
        else:
            return {}
        return oracle.contents(self._upstream, dict.fromkeys(tables))

    def _event(self, one: Played, name: str) -> None:
        if name == "wait":
            self._events += 1
            if self._events <= 3 or len(self.played) == 1:
                self._wait()
            return
        if one is not self.played[0]:
            return
        one.tags.update([f"event={name}"] if name != "start" else [])
        match name:
            case "pause":
                self._stop()
                self._start()
            case "crash before" | "crash after":
                self._engine.crash(name.split()[1])
            case "cut target":
                self._target.end_connections(lambda row: row[7] is None or "PROCESSLIST" not in str(row[7]))
            case "cut upstream":
                self._upstream.end_connections(lambda row: "Binlog Dump" in str(row[4]))
            case "reset":
                self._wait()
                self._stop()
                self._servers.reset_binlog()
            case "start":
                self._start()

    # -- the comparison -------------------------------------------------------------------------------------------

    def _compare(self, one: Played) -> Verdict:
        want, got = self._contents(one)
        found = oracle.differences(want, got)
        if not found and self._settings["mode"] == "all":
            found = self._structures(one, self._sources(one))
        features = self._features(one)
        kind: Kind = "different" if found else "equal"
        return Verdict(kind, features, 0, "\n".join(found), one.statements, one.failed)

    def _sources(self, one: Played) -> list[oracle.Table]:
        """The upstream's tables that the target should have."""
        there = oracle.tables_of(self._upstream, one.schemas)
        return [table for table in there if not _SHADOW.match(table[1])]

    def _contents(self, one: Played) -> tuple[dict[oracle.Table, Content | None], dict[oracle.Table, Content | None]]:
        """What the target should hold, and what it holds, by its own tables."""
        unsigned = self._servers.pair.families == "mysql to mariadb"
        content = {**oracle.contents(self._upstream, dict.fromkeys(self._sources(one)), unsigned), **one.frozen}
        want = {one.target_of(table): found for table, found in content.items()}
        columns = {table: found.columns if found is not None else None for table, found in want.items()}
        return want, oracle.contents(self._target, columns)

    def _structures(self, one: Played, tables: Sequence[oracle.Table]) -> list[str]:
        if self._servers.pair.upstream != self._servers.pair.target:
            return []
        here = [table for table in tables if table not in one.frozen]
        want = oracle.structures(self._upstream, here)
        got = oracle.structures(self._target, [one.target_of(table) for table in here])
        return oracle.structure_differences({one.target_of(table): found for table, found in want.items()}, got)


def _attempt(conn: Connection[Any], sql: str) -> None:
    """Runs a statement that this server may refuse."""
    with suppress(pymysql.Error), conn.cursor() as cursor:
        cursor.execute(sql)


def _attempt_all(conn: Connection[Any], statements: Sequence[str]) -> None:
    with closing(conn):
        for statement in statements:
            _attempt(conn, statement)
