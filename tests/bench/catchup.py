"""Catch-up over a part of the binlog: compares this program, a native replica, and one statement per row."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deploy.local.mysql import MariaDBServer
from pkg.binlog.position import Location
from tests.bench import one_statement, peers
from tests.bench.rig import CatchUp, Copies, Rig, copy_tables, cpu_line
from tests.bench.workloads import all_workloads

NATIVE, SINGLE = "native replica", "one statement per row x16"
_THREADS = (0, 4)


@dataclass(frozen=True)
class Aim:
    """The targets of one setting: by peer, the target's number and the required ratio (None: none)."""

    durable: bool
    peers: dict[str, tuple[str, float | None]]


_PLAIN = (Aim(True, {SINGLE: ("", None), NATIVE: ("", None)}), Aim(False, {NATIVE: ("", None)}))
AIMS: dict[str, tuple[Aim, ...]] = {
    "oltp": (Aim(True, {SINGLE: ("T1", 5.0), NATIVE: ("T2", 4.0)}), Aim(False, {NATIVE: ("T3", 1.5)})),
    "update-heavy": (Aim(True, {SINGLE: ("T1", 5.0)}),),
    "insert-only": (Aim(True, {NATIVE: ("T4", 1.2)}), Aim(False, {NATIVE: ("T4", 0.6)})),
    "no-reuse": (Aim(True, {NATIVE: ("T5", 2.0)}),),
}


def run(rig: Rig, name: str) -> None:
    """Runs all settings of one workload."""
    rig.warm_up()
    workload = all_workloads()[name]
    start = rig.fresh_source(workload, rig.rows)
    copy_tables(rig.source, rig.target)
    with peers.replica_of(rig.source) as replica:
        copy_tables(rig.source, replica)
        kept = Copies(rig.target, workload.tables), Copies(replica, workload.tables)
        changes = workload.write(rig.source, rig.rows, rig.changes)
        for aim in AIMS.get(name, _PLAIN):
            rig.durability(aim.durable, rig.target, replica)
            title = f"{name}, {'default' if aim.durable else 'relaxed'} durability"
            print(f"\nCatch-up, {title}: {changes:,} row changes", flush=True)
            _Setting(rig, workload.tables, start, changes, title, replica, kept).run(aim)


@dataclass
class _Setting:
    """One workload under one durability."""

    rig: Rig
    tables: Sequence[str]
    start: Location
    changes: int
    title: str
    replica: MariaDBServer
    kept: tuple[Copies, Copies]

    def run(self, aim: Aim) -> None:
        ours: list[CatchUp] = []
        theirs: dict[str, list[float]] = {}
        single = self._single() if SINGLE in aim.peers else None
        for turn in range(self.rig.runs):
            ours.append(self._ours())
            if single:
                theirs.setdefault(SINGLE, []).append(single())
            if NATIVE in aim.peers:
                self._native(theirs, turn)
        self._tell(aim, ours, theirs)

    def _ours(self) -> CatchUp:
        self.kept[0].restore()
        caught = self.rig.sync(self.start)
        self.rig.check(self.tables, f"ours, {self.title}")
        return caught

    def _single(self) -> Callable[[], float]:
        dealt = one_statement.rounds(one_statement.statements(self.rig.source, self.start))

        def measure() -> float:
            self.kept[0].restore()
            seconds = one_statement.apply(self.rig.target, dealt)
            self.rig.check(self.tables, f"{SINGLE}, {self.title}")
            return seconds

        return measure

    def _native(self, theirs: dict[str, list[float]], turn: int) -> None:
        """Runs every thread count in the first turn, the best one afterwards."""
        names = {f"{NATIVE}, {threads} threads": threads for threads in _THREADS}
        if turn:
            best = min(names, key=lambda name: theirs[name][0])
            names = {best: names[best]}
        for name, threads in names.items():
            self.kept[1].restore()
            peers.rewind(self.replica, self.start)
            theirs.setdefault(name, []).append(peers.replica_catches_up(self.rig.source, self.replica, threads))
            self.rig.check(self.tables, f"{name}, {self.title}", self.replica)

    def _tell(self, aim: Aim, ours: list[CatchUp], theirs: dict[str, list[float]]) -> None:
        report = self.rig.report
        middle = sorted(ours, key=lambda one: one.seconds)[(len(ours) - 1) // 2]
        mine = [one.seconds for one in ours]
        report.measured(self.title, "ours", mine, self.changes, cpu=middle.cpu)
        for name, seconds in theirs.items():
            report.measured(self.title, name, seconds, self.changes)
        print(cpu_line(middle.cpu, self.changes), flush=True)
        for peer, (target, reach) in aim.peers.items():
            found = [name for name in theirs if name.startswith(peer)]
            best = min(found, key=lambda name: statistics.median(theirs[name]))
            report.ratio(target, self.title, best, mine, theirs[best], reach)
