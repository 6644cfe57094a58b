"""What an upstream's purge would take from whom. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dm_master.console.view.progress import Health
from pkg.binlog.position import parse_position
from pkg.pb import dmworker_pb2 as worker
from pkg.status.amounts import duration, in_bytes

_HEALTHS: tuple[Health, ...] = ("good", "warn", "bad")


@dataclass(frozen=True, slots=True)
class PurgeView:
    """``reader``: a task, or the relay log. ``needs``: from where it continues, and how much that is; ``room``: what
    the upstream keeps before it, and how long; ``problem``: what will be lost, '' without a risk."""

    reader: str
    health: Health
    needs: str
    room: str
    problem: str


@dataclass(frozen=True, slots=True)
class RelayNeed:
    """A task that reads a relay log, and the first of its files that it needs; '' while that is not known."""

    task: str
    file: str


def purge_views(status: worker.SourceStatus) -> list[PurgeView]:
    """The readers of the upstream, those at risk first."""
    views = [_view(one) for one in status.purgeDistances]
    return sorted(views, key=lambda one: (-_HEALTHS.index(one.health), one.reader))


def _view(one: worker.PurgeDistance) -> PurgeView:
    size = f", {in_bytes(one.bytesNeeded)} to the end" if one.bytesNeeded > 0 else ""
    return PurgeView(
        reader=f"task {one.task}" if one.task else "relay log",
        health=_HEALTHS[min(one.risk, len(_HEALTHS) - 1)],
        needs=f"{one.needed}{size}",
        room=", ".join(_room(one)),
        problem=one.text,
    )


def _room(one: worker.PurgeDistance) -> Iterator[str]:
    if one.bytesBefore < 0:
        yield f"the upstream begins at {one.oldest}" if one.oldest else "the upstream's files are not known"
        return
    yield f"{in_bytes(one.bytesBefore)} are kept before it, from {one.oldest} on"
    if one.secondsLeft >= 0:
        yield f"it goes in {duration(one.secondsLeft)} at the earliest"
    elif not one.retention:
        yield "no setting removes it"


def relay_needs(subtasks: Sequence[worker.SubTaskStatus]) -> list[RelayNeed]:
    """The tasks that read the relay log of their source."""
    local = [one for one in subtasks if one.WhichOneof("status") == "sync" and one.sync.binlogType == "local"]
    return [
        RelayNeed(one.name, parse_position(one.sync.syncerBinlog).name if one.sync.syncerBinlog else "")
        for one in sorted(local, key=lambda one: one.name)
    ]
