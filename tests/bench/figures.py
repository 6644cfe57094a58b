"""The results of the benchmark's measurements: medians, percentiles, histograms, and whether targets are met. Pure."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

_BAR = 40
_ROW = "{:4} {:48} {:40} {:>13} {:>8} {:>13}  {}"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` (0 to 1) of ``values`` do not exceed (nearest rank).

    Raises ValueError for no values, or a share outside 0..1.
    """
    if not values or not 0 <= share <= 1:
        raise ValueError(f"no percentile {share} of {len(values)} values")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def histogram(values: Sequence[float], bounds: Sequence[float]) -> list[str]:
    """One line per class: up to each of ``bounds`` (ascending), and one for larger values."""
    edges = [*bounds, math.inf]
    counts = [0] * len(edges)
    for value in values:
        counts[next(i for i, edge in enumerate(edges) if value <= edge)] += 1
    most = max(counts, default=0) or 1
    labels = [f"<= {edge:g}" for edge in bounds] + [f"> {bounds[-1]:g}"]
    return [
        f"{label:>10} {count:6} {'#' * math.ceil(_BAR * count / most)}".rstrip()
        for label, count in zip(labels, counts, strict=True)
    ]


@dataclass(frozen=True)
class Cost:
    """What one turn of some work takes: elapsed seconds, and CPU seconds by kind of process."""

    seconds: float
    cpu: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The CPU seconds of all processes."""
        return sum(self.cpu.values())

    def __add__(self, other: Cost) -> Cost:
        """Both, one after the other."""
        kinds = dict.fromkeys([*self.cpu, *other.cpu])
        return Cost(
            self.seconds + other.seconds, {kind: self.cpu.get(kind, 0.0) + other.cpu.get(kind, 0.0) for kind in kinds}
        )


def middle(turns: Sequence[Cost]) -> Cost:
    """The turn of median elapsed time."""
    return sorted(turns, key=lambda one: one.seconds)[(len(turns) - 1) // 2]


def cpu_line(cpu: Mapping[str, float], rows: int) -> str:
    """CPU microseconds per row change, by stage."""
    parts = [f"{stage} {seconds / rows * 1e6:.1f}" for stage, seconds in cpu.items()]
    return f"  CPU us/row: {', '.join(parts)}, all {sum(cpu.values()) / rows * 1e6:.1f}"


@dataclass(frozen=True)
class Figure:
    """One measured quantity and its required value. ``target`` is empty for work without a target.

    ``cpu`` is how many times the peer's CPU exceeds ours; None where it is not comparable.
    """

    target: str
    work: str
    peer: str
    value: float
    unit: str
    reach: float | None = None
    at_most: bool = False
    cpu: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the requirement is met; None without a requirement."""
        if self.reach is None:
            return None
        return self.value <= self.reach if self.at_most else self.value >= self.reach

    def line(self) -> str:
        sign = "<=" if self.at_most else ">="
        wanted = "" if self.reach is None else f"{sign} {self.reach:g}{self.unit}"
        verdict = {None: "", True: "met", False: "NOT met"}[self.met]
        value = f"{self.value:.2f}{self.unit}"
        cpu = "" if self.cpu is None else f"{self.cpu:.2f}x"
        return _ROW.format(self.target, self.work, self.peer, value, cpu, wanted, verdict).rstrip()


@dataclass
class Report:
    """All figures of a benchmark, and their raw measurements."""

    figures: list[Figure] = field(default_factory=list)
    measurements: list[dict[str, object]] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)

    def measured(self, work: str, who: str, seconds: Sequence[float], rows: int, **more: object) -> None:
        """Keeps every run's seconds for the JSON file, and prints their median."""
        self.measurements.append({"work": work, "who": who, "seconds": list(seconds), "rows": rows, **more})
        middle = statistics.median(seconds)
        print(f"  {who:36} {middle:8.2f} s {rows / middle:12,.0f} rows/s   of {len(seconds)} run(s)", flush=True)

    def ratio(
        self,
        target: str,
        work: str,
        peer: str,
        ours: Sequence[float],
        theirs: Sequence[float],
        reach: float | None = None,
    ) -> None:
        """How many times faster this program is: the peer's median seconds divided by its own."""
        self.add(Figure(target, work, peer, statistics.median(theirs) / statistics.median(ours), "x", reach))

    def turns(self, work: str, who: str, turns: Sequence[Cost], rows: int, **more: object) -> None:
        """Keeps every turn, and prints their median time and that turn's CPU."""
        self.measured(work, who, [one.seconds for one in turns], rows, cpu=[dict(one.cpu) for one in turns], **more)
        print(cpu_line(middle(turns).cpu, rows), flush=True)

    def compare(
        self,
        target: str,
        work: str,
        peer: str,
        ours: Sequence[Cost],
        theirs: Sequence[Cost],
        reach: float | None = None,
    ) -> None:
        """How many times faster this program is, and how many times more CPU the peer takes; medians of the turns."""
        seconds, cpu = (
            statistics.median(map(taken, theirs)) / statistics.median(map(taken, ours)) for taken in (_elapsed, _used)
        )
        self.add(Figure(target, work, peer, seconds, "x", reach, cpu=cpu))

    def table(self) -> str:
        """The summary: targets in their order, then the rest. The fifth column is the ratio of CPU."""
        head = _ROW.format("", "work", "peer", "value", "CPU", "goal", "")
        ranked = sorted(self.figures, key=lambda one: (not one.target, int(one.target[1:] or 0) if one.target else 0))
        return "\n".join([head.rstrip(), *(one.line() for one in ranked)])

    def to_json(self) -> str:
        figures = [{**asdict(one), "met": one.met} for one in self.figures]
        return json.dumps({"figures": figures, "measurements": self.measurements}, indent=1)


def _elapsed(turn: Cost) -> float:
    return turn.seconds


def _used(turn: Cost) -> float:
    return turn.total
