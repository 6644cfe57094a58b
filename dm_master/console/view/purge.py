"""What an upstream's purge would take from whom. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dm_master.console.view.progress import Health
from pkg.binlog.position import parse_position
from pkg.pb import dmworker_pb2 as worker
from pkg.status.amounts import duration, in_bytes

_HEALTHS: tuple[Health, ...] = ("good", "warn", "bad")


@dataclass(frozen=True, slots=True)
class PurgeView:
    """``reader``: a task, or the relay log. ``needed``: from where it continues; ``unread``: how much that is;
    ``kept``: what the upstream has before it; ``left``: how long; ``problem``: what will be lost, '' without a risk."""

    source: str
    reader: str
    health: Health
    needed: str
    unread: str
    kept: str
    left: str
    problem: str


@dataclass(frozen=True, slots=True)
class RelayNeed:
    """A task that reads a relay log, and the first of its files that it needs; '' while that is not known."""

    task: str
    file: str


def purge_views(status: worker.SourceStatus) -> list[PurgeView]:
    """The readers of the upstream, those at risk first."""
    return worst_first(_view(status.source, one) for one in status.purgeDistances)


def worst_first(views: Iterable[PurgeView]) -> list[PurgeView]:
    return sorted(views, key=lambda one: (-_HEALTHS.index(one.health), one.source, one.reader))


def _view(source: str, one: worker.PurgeDistance) -> PurgeView:
    gone = one.bytesBefore < 0
    return PurgeView(
        source=source,
        reader=f"task {one.task}" if one.task else "relay log",
        health=_HEALTHS[min(one.risk, len(_HEALTHS) - 1)],
        needed=one.needed,
        unread="unknown" if one.bytesNeeded < 0 else in_bytes(one.bytesNeeded),
        kept=f"nothing: the upstream begins at {one.oldest}"
        if gone
        else f"{in_bytes(one.bytesBefore)} from {one.oldest} on",
        left="gone" if gone else _left(one),
        problem=one.text,
    )


def _left(one: worker.PurgeDistance) -> str:
    if one.secondsLeft >= 0:
        return duration(one.secondsLeft)
    return "not known" if one.retention else "no limit"


def relay_needs(subtasks: Sequence[worker.SubTaskStatus]) -> list[RelayNeed]:
    """The tasks that read the relay log of their source."""
    local = [one for one in subtasks if one.WhichOneof("status") == "sync" and one.sync.binlogType == "local"]
    return [
        RelayNeed(one.name, parse_position(one.sync.syncerBinlog).name if one.sync.syncerBinlog else "")
        for one in sorted(local, key=lambda one: one.name)
    ]
