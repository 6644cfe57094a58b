"""Catch-up over a part of the binlog: compares this program, a native replica, and statements of one and many rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from deploy.local.mysql import MariaDBServer
from pkg.binlog.position import Location
from tests.bench import many_rows, one_statement, peers
from tests.bench.figures import Cost
from tests.bench.rig import Copies, Rig, copy_tables
from tests.bench.workloads import all_workloads

NATIVE, SINGLE, MANY = "native replica", "one statement per row x16", many_rows.NAME
_THREADS = (0, 4)


@dataclass(frozen=True)
class Aim:
    """The targets of one setting: by peer, the target's number and the required ratio (None: none)."""

    durable: bool
    peers: dict[str, tuple[str, float | None]]


_PLAIN = (Aim(True, {SINGLE: ("", None), NATIVE: ("", None)}), Aim(False, {NATIVE: ("", None)}))
AIMS: dict[str, tuple[Aim, ...]] = {
    "oltp": (Aim(True, {SINGLE: ("T1", 7.0), NATIVE: ("T2", 4.0)}), Aim(False, {NATIVE: ("T3", 2.2)})),
    "update-heavy": (Aim(True, {SINGLE: ("T1", 5.0)}),),
    "insert-only": (Aim(True, {NATIVE: ("T4", 1.4), MANY: ("T14", 2.0)}), Aim(False, {NATIVE: ("T4", 1.2)})),
    "insert-4-keys": (Aim(True, {NATIVE: ("T15", 1.2)}),),
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
        ways = {NATIVE: self._native, SINGLE: self._single, MANY: self._many}
        others = {name: peers.BestOf(ways[name]()) for name in aim.peers}
        ours: list[Cost] = []
        for _ in range(self.rig.runs):
            self.kept[0].restore()
            ours.append(self.rig.sync(self.start))
            self.rig.check(self.tables, f"ours, {self.title}")
            for other in others.values():
                other.run()
        report = self.rig.report
        report.turns(self.title, "ours", ours, self.changes)
        for name, other in others.items():
            for way, turns in other.turns.items():
                report.turns(self.title, way, turns, self.changes)
            target, reach = aim.peers[name]
            report.compare(target, self.title, other.best, ours, other.costs, reach)

    def _single(self) -> Mapping[str, Callable[[], Cost]]:
        dealt = one_statement.rounds(one_statement.statements(self.rig.source, self.start))
        return {SINGLE: self._applied(SINGLE, lambda: one_statement.apply(self.rig.target, dealt))}

    def _many(self) -> Mapping[str, Callable[[], Cost]]:
        target = self.rig.target
        made = many_rows.inserts(self.rig.source, self.start)
        return {one.name: self._applied(one.name, partial(one.apply, target)) for one in made}

    def _applied(self, name: str, apply: Callable[[], Cost]) -> Callable[[], Cost]:
        def measure() -> Cost:
            self.kept[0].restore()
            cost = apply()
            self.rig.check(self.tables, f"{name}, {self.title}")
            return cost

        return measure

    def _native(self) -> Mapping[str, Callable[[], Cost]]:
        def measure(threads: int) -> Cost:
            self.kept[1].restore()
            peers.rewind(self.replica, self.start)
            cost = peers.replica_catches_up(self.rig.source, self.replica, threads)
            self.rig.check(self.tables, f"{NATIVE}, {self.title}", self.replica)
            return cost

        return {f"{NATIVE}, {threads} threads": partial(measure, threads) for threads in _THREADS}
