"""The time profile of a task's last minutes as text: a flame graph on its side. Pure.

Each line is a stage with its share of the time and a bar. A bar is below its part of the parent's bar, so that the
stages within a stage are below it, side by side.
"""

from __future__ import annotations

from collections.abc import Iterator

from pkg.pb import dmworker_pb2 as pb
from pkg.status.profile import ProfileNode, main_loop, reader

#: The width of a 100 % bar, in characters.
WIDTH = 60
_BLOCK, _SLIVER = "█", "▏"
#: Shares below this are noise (0.05 % would be shown as 0.0 %).
_LEAST = 0.0005


def profile_text(source: str, status: pb.SubTaskStatus) -> str:
    """The profile of one task on one source, without a final newline."""
    head = f"task {status.name}, source {source}"
    if not status.HasField("profile"):
        return f"{head}: it does not replicate, so there is no profile (unit {pb.UnitType.Name(status.unit)})"
    seconds, sums = status.profile.seconds, dict(status.profile.sums)
    if seconds <= 0:
        return f"{head}: it has just begun; ask again in some seconds"
    counts = ", ".join(
        f"{sums.get(name, 0):,.0f} {text}"
        for name, text in (("batches", "batches"), ("changes", "row changes"), ("rows", "rows written"))
    )
    now = f"; now: {status.sync.lagReason}" if status.sync.lagReason else ""
    lines = [f"{head}: the last {seconds:.0f} s, {counts}{now}"]
    for root in (main_loop(sums), reader(sums)):
        lines += _lines(root)
    return "\n".join(lines)


def _lines(root: ProfileNode) -> Iterator[str]:
    if root.seconds > 0:
        yield from _below(root, 0, 0.0, root.seconds)


def _below(node: ProfileNode, depth: int, start: float, whole: float) -> Iterator[str]:
    share = node.seconds / whole
    if share < _LEAST:
        return
    first, end = round(start / whole * WIDTH), round((start + node.seconds) / whole * WIDTH)
    bar = _BLOCK * (end - first) or _SLIVER
    yield f"{'  ' * depth + node.name:<34}{100 * share:5.1f} %  {' ' * first}{bar}"
    for part in node.parts:
        yield from _below(part, depth + 1, start, whole)
        start += part.seconds
