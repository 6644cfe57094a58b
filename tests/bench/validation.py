"""The cost of the continuous validation: the same catch-up with it and without, in turns, until all is compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from deploy.local.process import HarnessError, wait_until
from dm_worker.diff.companion import DiffCompanion
from dm_worker.source.diff_surroundings import diff_surroundings
from dm_worker.validator.validator import Validator
from pkg.binlog.position import Location, parse_position
from pkg.config.model import SubTaskConfig, ValidatorConfig
from pkg.errors import DMError
from tests.bench.binlog import end_of_binlog
from tests.bench.figures import Figure
from tests.bench.rig import Rig, copy_tables
from tests.bench.workloads import all_workloads
from tests.harness.cputime import cpu_by_kind, spent

#: The validation's share of the syncer's CPU that is allowed.
MOST_SHARE = 0.25
_TIMEOUT = 900.0
#: Seconds between two looks whether a turn has ended: a slower one must not count as more CPU of the driver.
_LOOK = 0.25
#: Seconds for which the processes are measured without a sweep.
_IDLE_SECONDS = 20.0
Mode = Literal["none", "fast", "full"]
_MODES: tuple[Mode, ...] = ("none", "fast", "full")
_SERVERS = ("source", "target")


def run(rig: Rig) -> None:
    """Compares the CPU time of both, of this program's processes and of the target."""
    rig.warm_up()
    rig.durability(True)
    workload = all_workloads()["oltp"]
    start, kept, changes = rig.behind(workload, rig.rows, rig.changes)
    title = "validation beside OLTP"
    print(f"\n{title}: {changes:,} row changes", flush=True)
    found: dict[Mode, list[dict[str, float]]] = {mode: [] for mode in _MODES}
    # Not counted: the validation's code is loaded.
    kept.restore()
    _turn(rig, start, "full")
    for number in range(rig.runs):
        # Each mode follows each other one: what one turn leaves behind is not always the same mode's.
        for mode in (*_MODES[number % len(_MODES) :], *_MODES[: number % len(_MODES)]):
            kept.restore()
            rig.fill_slots()
            found[mode].append(_turn(rig, start, mode))
            rig.check(workload.tables, title)
    per_row = {mode: _per_row(turns, changes) for mode, turns in found.items()}
    for mode, taken in per_row.items():
        stages = ", ".join(f"{kind} {seconds:.2f}" for kind, seconds in taken.items())
        print(f"  {mode:5} {_own(taken):6.2f} µs of our CPU per row change ({stages})", flush=True)
    whole = sum(per_row["none"].values())
    for mode in ("fast", "full"):
        ours, servers = (work(per_row[mode]) - work(per_row["none"]) for work in (_own, _of_servers))
        rig.report.add(Figure("", title, f"{mode}: its CPU beside the syncer's", ours / whole, "x", MOST_SHARE, True))
        rig.report.add(Figure("", title, f"{mode}: the servers' CPU for it", servers / whole, "x"))


def sweep(rig: Rig) -> None:
    """The CPU time of whole rounds of the sweep, beside a task that has nothing to replicate."""
    rig.warm_up()
    workload = all_workloads()["oltp"]
    start = rig.fresh_source(workload, rig.rows)
    copy_tables(rig.source, rig.target)
    rows = sum(int(rig.source.execute(f"SELECT COUNT(*) FROM {table}")[0][0]) for table in workload.tables)
    cfg = replace(rig.config("incremental"), validator=ValidatorConfig(mode="full"))
    title = "sweep"
    print(f"\n{title}: rounds of {rows:,} rows, at most {cfg.validator.sweep_rate:,} a second", flush=True)
    turns = []
    with _validated(rig, cfg, "full") as validator, rig.syncing(start, cfg, validator) as running:
        validator.start(_never)
        running.wait_synced()
        idle = _measured(rig, lambda: time.sleep(_IDLE_SECONDS))
        companion = DiffCompanion(cfg, lambda: diff_surroundings(running.unit, rig.engine, list, list), validator)
        try:
            companion.start(_never)
            for number in range(rig.runs + 1):
                _wait_sweep(validator, "present round")
                taken = _measured(rig, lambda: _wait_sweep(validator, "next round"))
                # The first one is not counted: its code is loaded.
                if number:
                    turns.append(_above(taken, idle))
        finally:
            companion.join()
    per_row = _per_row([cpu for _, cpu in turns], rows)
    stages = ", ".join(f"{kind} {seconds:.2f}" for kind, seconds in per_row.items())
    seconds = statistics.median(elapsed for elapsed, _ in turns)
    print(f"  a round takes {seconds:.0f} s; µs of CPU per row: {stages}", flush=True)
    rig.report.add(Figure("", title, "our CPU per row", _own(per_row), "µs"))
    rig.report.add(Figure("", title, "both servers' CPU per row", _of_servers(per_row), "µs"))
    used = sum(per_row.values()) * rows / 1e6 / seconds
    rig.report.add(Figure("", title, "all CPU while it runs, of a core", used, "x"))


def _measured(rig: Rig, work: Callable[[], None]) -> tuple[float, dict[str, float]]:
    """Seconds, and CPU seconds by kind."""
    before, began = cpu_by_kind(rig.stages()), time.monotonic()
    work()
    return time.monotonic() - began, spent(before, cpu_by_kind(rig.stages()))


def _above(
    taken: tuple[float, dict[str, float]], idle: tuple[float, dict[str, float]]
) -> tuple[float, dict[str, float]]:
    """The same without what the processes use in that time anyway."""
    seconds, cpu = taken
    return seconds, {kind: max(0.0, one - idle[1].get(kind, 0.0) * seconds / idle[0]) for kind, one in cpu.items()}


def _wait_sweep(validator: Validator, text: str) -> None:
    def reached() -> bool:
        status = validator.status()
        if status is None or status.result.errors or status.errorRowsStatus != "new/ignored/resolved: 0/0/0":
            raise HarnessError(f"the validation failed, or reports rows that are right: {status}")
        return text in status.sweepStatus

    wait_until(reached, f"the sweep says {text}", _TIMEOUT, step=0.1)


def _turn(rig: Rig, start: Location, mode: Mode) -> dict[str, float]:
    # With the interval of the default: each round costs a job, and a slow machine would get more of them.
    cfg = replace(rig.config("incremental"), validator=ValidatorConfig(mode=mode))
    before = cpu_by_kind(rig.stages())
    if mode != "none":
        with _validated(rig, cfg, mode) as validator, rig.syncing(start, cfg, validator) as running:
            validator.start(_never)
            running.wait_synced(_LOOK)
            _wait_compared(rig, validator)
    else:
        with rig.syncing(start, cfg) as running:
            running.wait_synced(_LOOK)
    return spent(before, cpu_by_kind(rig.stages()))


@contextmanager
def _validated(rig: Rig, cfg: SubTaskConfig, mode: str) -> Iterator[Validator]:
    validator = Validator(cfg, rig.engine)
    validator.expect(mode)
    try:
        yield validator
    finally:
        validator.stop()
        validator.join()


def _wait_compared(rig: Rig, validator: Validator) -> None:
    end = end_of_binlog(rig.source).position
    # The rest does not wait for the interval.
    validator.cut_over_at(str(end), "")

    def compared() -> bool:
        status = validator.status()
        if status is None or status.result.errors or status.errorRowsStatus != "new/ignored/resolved: 0/0/0":
            raise HarnessError(f"the validation failed, or reports rows that are right: {status}")
        return "." in status.validatorBinlog and end <= parse_position(status.validatorBinlog)

    wait_until(compared, "all is compared", _TIMEOUT, step=_LOOK)


def _never(found: Sequence[DMError]) -> None:
    raise HarnessError(f"a validator does not stop its task: {found}")


def _per_row(turns: Sequence[dict[str, float]], changes: int) -> dict[str, float]:
    """The medians of the turns, in µs per row change."""
    kinds = dict.fromkeys(kind for turn in turns for kind in turn)
    return {kind: statistics.median(turn.get(kind, 0.0) for turn in turns) * 1e6 / changes for kind in kinds}


def _own(taken: dict[str, float]) -> float:
    return sum(seconds for kind, seconds in taken.items() if kind not in _SERVERS)


def _of_servers(taken: dict[str, float]) -> float:
    return sum(taken.values()) - _own(taken)
