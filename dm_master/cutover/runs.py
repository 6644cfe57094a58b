"""The cutovers that this master runs: one thread for each task. Calls ask it for the outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dm_master.cutover.run import CutoverOutcome, CutoverRun
from pkg import errors
from pkg.errors import DMError
from pkg.process.log import get_logger

log = get_logger("cutover")

#: Seconds that a call waits for the outcome; after that it returns the stage.
_WAIT = 2.0
MakeRun = Callable[[Callable[[], bool]], CutoverRun]


class CutoverRuns:
    """``leads``: whether this master still leads; a run ends soon after it does not."""

    def __init__(self, leads: Callable[[], bool]) -> None:
        self._leads = leads
        self._lock = threading.Lock()
        self._active: dict[str, _ActiveRun] = {}

    def follow(self, task: str, make: MakeRun) -> tuple[str, CutoverOutcome | None]:
        """The stage of the task's run, which is started unless it is there, and its outcome once it has ended.

        An outcome is told once: the next call starts again. Raises the error with which the run ended.
        """
        with self._lock:
            active = self._active.get(task)
            if active is None:
                active = self._active[task] = _ActiveRun(task, make(lambda: not self._leads()))
        if not active.wait(_WAIT):
            return active.stage, None
        with self._lock:
            if self._active.get(task) is active:
                del self._active[task]
        return active.stage, active.outcome()


class _ActiveRun:
    def __init__(self, task: str, run: CutoverRun) -> None:
        self._task = task
        self._run = run
        self._ended = threading.Event()
        self._outcome: CutoverOutcome | DMError | None = None
        threading.Thread(target=self._main, name=f"cutover-{task}", daemon=True).start()

    @property
    def stage(self) -> str:
        return self._run.stage

    def wait(self, seconds: float) -> bool:
        return self._ended.wait(seconds)

    def outcome(self) -> CutoverOutcome | None:
        if isinstance(self._outcome, DMError):
            raise self._outcome
        return self._outcome

    def _main(self) -> None:
        try:
            self._outcome = self._run.work()
        except Exception as exc:  # noqa: BLE001 - told by the next call
            log.warning("a cutover stopped; it continues when it is run again", task=self._task, error=str(exc))
            self._outcome = errors.wrap(exc)
        finally:
            self._ended.set()
