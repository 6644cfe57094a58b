"""The full copy of an attempt: dump and load of each source, with statements at moments of the dump."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from dm_worker.dumper import DumpUnit, dump_task
from dm_worker.loader import LoadUnit
from dm_worker.subtask.unit import UnitOutcome
from pkg.config.model import SubTaskConfig
from tests.fuzz.engine import LocalEngine
from tests.fuzz.history import Phase
from tests.fuzz.played import Stopped
from tests.fuzz.tasks.task_run import RESUMES

#: What happens before the first chunk of a history is read, and before the second.
_WHILE_DUMPING: tuple[Phase, ...] = ("snapshot", "chunk")


@dataclass
class Writer:
    """Writes a history's statements of a phase while its ``schemas`` are copied."""

    schemas: Collection[str]
    steps: Callable[[Phase], None]
    left: list[Phase] = field(default_factory=lambda: list(_WHILE_DUMPING))


class FullCopy:
    """Of the subtasks ``cfgs``. ``snapshot`` is called for a subtask whenever its dump has opened one, before anything
    else is written to the upstream.

    Each history writes just before its own tables are read: DDL makes the dump begin again, with a new snapshot, and
    what others wrote before that would be in it.
    """

    def __init__(
        self,
        cfgs: Sequence[SubTaskConfig],
        engine: LocalEngine,
        writers: Sequence[Writer],
        snapshot: Callable[[SubTaskConfig], None],
    ) -> None:
        self._cfgs = cfgs
        self._engine = engine
        self._writers = writers
        self._snapshot = snapshot
        self._guard = threading.Lock()

    def run(self) -> None:
        """Raises ``Stopped``."""
        for cfg in self._cfgs:
            with self._watched(cfg):
                _finish(DumpUnit(_dumping(cfg), self._engine).run)
        for writer in self._writers:
            # Whose tables were fewer than the moments.
            for phase in (*writer.left, "dumped"):
                writer.steps(phase)
        for cfg in self._cfgs:
            _finish(LoadUnit(cfg, self._engine).run)

    @contextmanager
    def _watched(self, cfg: SubTaskConfig) -> Iterator[None]:
        """While this subtask dumps, the statements for its moments run when the snapshot is open."""
        original = dump_task.DumpTask._dump_chunk
        #: The dump begins again, with another snapshot, when its tables change.
        seen: set[str] = set()

        def dump_chunk(task: Any, conn: Any, chunk: Any, progress: int) -> None:
            with self._guard:
                if task._spec.rendezvous.token not in seen:
                    seen.add(task._spec.rendezvous.token)
                    self._snapshot(cfg)
                for writer in self._writers:
                    if chunk.schema in writer.schemas and writer.left:
                        writer.steps(writer.left.pop(0))
            original(task, conn, chunk, progress)

        dump_task.DumpTask._dump_chunk = dump_chunk  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            dump_task.DumpTask._dump_chunk = original  # type: ignore[method-assign]


def _dumping(cfg: SubTaskConfig) -> SubTaskConfig:
    """The subtask that dumps: another one, without rules, where a task only loads what there is."""
    if cfg.task_mode != "load&sync":
        return cfg
    place = cfg.loader.dir.removesuffix(f".{cfg.name}")
    return replace(
        cfg,
        task_mode="dump",
        loader=replace(cfg.loader, dir=place),
        routes=(),
        filters=(),
        column_mappings=(),
        expression_filters=(),
    )


def _finish(run: Callable[[], UnitOutcome]) -> None:
    for _ in range(RESUMES):
        outcome = run()
        if outcome.finished:
            return
        error = outcome.errors[0]
        if not error.retryable:
            break
    raise Stopped.by(error)
