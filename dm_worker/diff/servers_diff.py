"""A comparison of servers that no task connects: one upstream after the other, in a thread of its own.

Nothing is written to the servers. Progress is stored in a file of the worker: after a restart, the operator continues
with another start of the same file. No password is stored.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from dm_worker.diff.difference_files import DifferenceFiles
from dm_worker.diff.methods import WithoutPosition
from dm_worker.diff.progress import DiffProgress
from dm_worker.diff.run import DiffRun
from dm_worker.diff.state_file import DiffStateFile
from dm_worker.diff.state_table import FINISHED, RUNNING, STOPPED, DiffRecord, DiffSettings
from dm_worker.diff.status_view import shown_comparison
from dm_worker.engine.engine import SparkEngine
from dm_worker.table_reads.session import open_session
from pkg import errors
from pkg.config.codec import encode_subtask
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.mysql.connection import Scope
from pkg.mysql.introspect import server_info
from pkg.pb import dmworker_pb2 as pb
from pkg.settings.connections import DBConfig

#: The most ended comparisons that are still shown.
MOST_ENDED = 20


@dataclass(frozen=True, slots=True)
class ServersDiffOrder:
    """What an operator asked for. ``upstreams``: all of them in the order of their ids, each with the target and its
    rules; those of ``settings.sources`` take part. ``begun``: unix seconds."""

    name: str
    run: str
    begun: float
    upstreams: tuple[SubTaskConfig, ...]
    settings: DiffSettings
    settle: float
    output_dir: str


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """See :class:`dm_worker.diff.run.RunSurroundings`."""

    engine: SparkEngine
    lag: Callable[[], int]
    siblings: Callable[[], Sequence[SubTaskConfig]]
    neighbours: Callable[[], Sequence[SubTaskConfig]]


@dataclass(slots=True)
class _Upstream:
    """The comparison on one source."""

    config: SubTaskConfig
    state: DiffStateFile
    files: DifferenceFiles
    record: DiffRecord
    progress: DiffProgress


class ServersDiff:
    """Raises 10001 for a server that can't be reached, 43106 where the state can't be written."""

    def __init__(self, engine: SparkEngine, order: ServersDiffOrder) -> None:
        self._engine = engine
        self._order = order
        _reach(order.upstreams[0].to, "downstream", "the target")
        reached = [replace(one, flavor=_reach(one.from_, "upstream", one.source_id)) for one in order.upstreams]
        self._configs = tuple(reached)
        self._upstreams = [self._known(one) for one in reached if one.source_id in order.settings.sources]
        self._lock = threading.Lock()
        self._run: DiffRun | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._main, name=f"diff-{order.name}", daemon=True)
        self._thread.start()

    def _known(self, config: SubTaskConfig) -> _Upstream:
        """The upstream's comparison: the one that an earlier process did not finish, else a new one."""
        order = self._order
        folder = Path(order.output_dir).absolute() / order.name / config.source_id
        state = DiffStateFile(folder / "state.jsonl", _identity(order))
        found = state.read()
        if found is None or found[0].stage != RUNNING:
            found = DiffRecord(order.run, order.begun, RUNNING, order.settings), DiffProgress(())
            state.replace(found[0])
        record, progress = found
        files = DifferenceFiles(folder / record.run, redact=order.settings.redact)
        return _Upstream(config, state, files, record, progress)

    @property
    def is_running(self) -> bool:
        return any(one.record.stage == RUNNING for one in self._upstreams)

    def stop(self) -> None:
        """Stops the comparison; it can't be continued, but its results stay. Raises 43104 if it has ended."""
        if not self.is_running:
            raise errors.new(
                Code.DiffRefused,
                f"the comparison {self._order.name} has ended already",
                workaround="`dmctl diff status --config FILE.yaml` shows its result.",
            )
        self.interrupt()
        for one in self._upstreams:
            if one.record.stage == RUNNING:
                one.record = one.record.at(STOPPED)
                one.state.note(one.record)

    def interrupt(self) -> None:
        """Ends the thread; the comparison can be continued by a later process."""
        with self._lock:
            self._stopped = True
            run = self._run
        if run is not None:
            run.stop()
        self._thread.join()

    def status(self) -> list[pb.DiffSourceStatus]:
        """One answer for each source."""
        return [self._status(one) for one in self._upstreams]

    def _status(self, one: _Upstream) -> pb.DiffSourceStatus:
        with self._lock:
            run = self._run
        runs = run is not None and run.record.run == one.record.run and run.source == one.config.source_id
        progress = run.progress if run is not None and runs else one.progress
        shown = shown_comparison(one.record, progress, one.files)
        shown.source = one.config.source_id
        if one.record.stage != RUNNING:
            return shown
        shown.eta = run.rate.eta(max(0, shown.totalRows - shown.rows)) if run is not None and runs else "unknown"
        waits_for = run.waits_for if run is not None and runs else "the tables of another source are compared first"
        if waits_for:
            shown.stage, shown.msg = "Waiting", waits_for
        return shown

    def _main(self) -> None:
        for one in self._upstreams:
            if one.record.stage != RUNNING:
                continue
            siblings = [other for other in self._configs if other is not one.config]
            around = _Surroundings(self._engine, lambda: 0, partial(list, siblings), list)
            method = WithoutPosition(self._order.settle)
            run = DiffRun(one.config, around, one.state, one.files, one.record, one.progress, method)
            with self._lock:
                if self._stopped:
                    return
                self._run = run
            try:
                run.work()
            finally:
                with self._lock:
                    one.record, one.progress, self._run = run.record, run.progress, None
            if one.record.stage != FINISHED:
                return


def _reach(server: DBConfig, scope: Scope, name: str) -> str:
    """The server's flavor, in the words of a source. Raises the connection's error with the server's name."""
    try:
        with open_session(server, scope) as conn:
            return "mariadb" if server_info(conn).flavor == "mariadb" else "mysql"
    except errors.DMError as exc:
        raise exc.at(name) from exc


def _identity(order: ServersDiffOrder) -> str:
    """Identifies what is compared and how; passwords are not included, so that they can change."""
    hidden = [
        replace(one, from_=replace(one.from_, password=""), to=replace(one.to, password="")) for one in order.upstreams
    ]
    texts = [*(encode_subtask(one, b"") for one in hidden), repr(sorted(asdict(order.settings).items())),
             repr(order.settle)]  # fmt: skip
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


class ServersDiffs:
    """The comparisons of a worker, by name. Thread-safe."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._known: dict[str, ServersDiff] = {}

    def start_or_continue(self, order: ServersDiffOrder) -> ServersDiff:
        """Starts a comparison, or continues one. Raises 43104 while one of the name runs, and as its class."""
        with self._lock:
            known = self._known.get(order.name)
            if known is not None and known.is_running:
                raise errors.new(
                    Code.DiffRefused,
                    f"a comparison {order.name} is running",
                    workaround="`dmctl diff status --config FILE.yaml` shows it, and `diff stop` ends it.",
                )
            begun = ServersDiff(self._engine, order)
            # The status still shows the last comparisons that have ended.
            ended = [name for name, one in self._known.items() if not one.is_running and name != order.name]
            for name in ended[: max(0, len(ended) - MOST_ENDED)]:
                del self._known[name]
            self._known[order.name] = begun
            return begun

    def named(self, name: str) -> ServersDiff:
        """Raises 43104."""
        with self._lock:
            known = self._known.get(name)
        if known is None:
            raise errors.new(
                Code.DiffRefused,
                f"this worker has no comparison {name}",
                workaround="`dmctl diff start --config FILE.yaml` starts it, or continues it.",
            )
        return known

    def close(self) -> None:
        """Ends all threads; none is begun afterwards."""
        with self._lock:
            known: Mapping[str, ServersDiff] = dict(self._known)
        for one in known.values():
            one.interrupt()
