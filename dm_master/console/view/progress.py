"""How far one subtask is: the copy, the two lags, the errors. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pkg.pb import dmworker_pb2 as pb
from pkg.status.amounts import counted, duration, in_bytes, numbers_of
from pkg.status.lag import UNKNOWN, StreamLag
from pkg.status.profile import ProfileNode, main_loop, reader
from pkg.status.task_stage import error_line

Health = Literal["bad", "warn", "good", "idle"]
#: Worst first.
HEALTHS: tuple[Health, ...] = ("bad", "warn", "good", "idle")
#: Seconds of lag that deserve attention.
HIGH_LAG = 300
#: Stages of a profile below this share are left out.
_LEAST_SHARE = 0.005
#: What `lagReason` means, for people: docs/metrics.md.
_REASONS = {
    "source_idle": "nothing to wait for: the upstream writes nothing",
    "reading": "waits for events of the upstream",
    "planning": "the reader looks at events and tables",
    "target_slow": "waits for the target",
    "engine": "waits for Spark or the machine's CPU",
    "ddl": "the target executes a DDL",
    "lock": "waits for other shards of a DDL",
    "held": "held at a position",
    "retry": "tries again: a server does not answer",
    "stopped": "stopped until it is resumed",
    "upstream_away": "the upstream does not answer",
    "relay": "waits for the relay log",
    "applying": "waits until what was read is applied",
}


@dataclass(frozen=True, slots=True)
class ErrorView:
    """``advice``: what to do."""

    line: str
    cause: str
    advice: str


@dataclass(frozen=True, slots=True)
class FigureView:
    """A number with its name, and a sentence about it."""

    name: str
    value: str
    note: str = ""
    health: Health = "good"


@dataclass(frozen=True, slots=True)
class BarView:
    """A stage of the time profile: offset and width in percent of the whole, ``depth`` of nesting."""

    name: str
    depth: int
    offset: float
    share: float


@dataclass(frozen=True, slots=True)
class ProgressView:
    """``percent`` is None where nothing can be counted."""

    percent: float | None
    text: str
    figures: Sequence[FigureView] = ()


def subtask_health(subtask: pb.SubTaskStatus) -> Health:
    if subtask.stage == pb.Paused:
        return "bad" if subtask.result.errors else "warn"
    if subtask.stage in (pb.Finished, pb.Stopped):
        return "idle"
    sync = subtask.sync
    waits = bool(sync.unresolvedGroups or sync.conflictMsg or subtask.unresolvedDDLLockID)
    return "warn" if waits or differing_rows(subtask) or sync.secondsBehindMaster > HIGH_LAG else "good"


def differing_rows(subtask: pb.SubTaskStatus) -> int:
    """Rows that the validator found to differ, and that nobody has ignored or resolved."""
    return numbers_of(subtask.validation.errorRowsStatus).get("new", 0)


def differ_text(rows: int) -> str:
    return f"{counted(rows, 'row')} {'differs' if rows == 1 else 'differ'} from the upstream"


def errors_of(result: pb.ProcessResult) -> list[ErrorView]:
    return [ErrorView(error_line(one), one.RawCause, one.Workaround) for one in result.errors]


def lag_text(subtask: pb.SubTaskStatus) -> str:
    """The age of the oldest commit that is not applied, in short; '' for a subtask that does not replicate."""
    if subtask.WhichOneof("status") != "sync":
        return ""
    return _age(subtask.sync)


def progress(subtask: pb.SubTaskStatus) -> ProgressView:
    kind = subtask.WhichOneof("status")
    if kind == "dump":
        return _dump(subtask.dump)
    if kind == "load":
        return _load(subtask.load)
    if kind == "sync":
        return _sync(subtask.sync, running=subtask.stage == pb.Running)
    if subtask.stage == pb.Stopped:
        return ProgressView(None, _REASONS["stopped"])
    return ProgressView(None, subtask.msg if kind == "msg" else "")


def _dump(dump: pb.DumpStatus) -> ProgressView:
    done, total = dump.finishedRows, dump.estimateTotalRows
    share = 100 * min(1.0, done / total) if total > 0 else None
    left = dump.finishedBytes * (total - done) / done / dump.bps if done > 0 and dump.bps > 0 and total > done else None
    figures = [
        FigureView("tables", f"{dump.completedTables:,.0f} of {dump.totalTables:,}"),
        FigureView("rows", f"{done:,.0f} of about {total:,.0f}", "the total is the server's estimate"),
        FigureView("read", in_bytes(dump.finishedBytes), f"{in_bytes(dump.bps)}/s"),
        FigureView("time left", _eta(left)),
    ]
    copied = f"copies: {dump.progress or '0.00 %'}"
    return ProgressView(share, f"{copied}; {dump.step}" if dump.step else copied, figures)


def _load(load: pb.LoadStatus) -> ProgressView:
    done, total = load.finishedBytes, load.totalBytes
    share = 100 * min(1.0, done / total) if total > 0 else None
    left = (total - done) / load.bps if load.bps > 0 and total > done else None
    tables = [FigureView("tables", f"{load.completedTables:,} of {load.totalTables:,}")] if load.totalTables else []
    rows = [
        FigureView(
            "rows", f"about {load.finishedRows:,} of {load.totalRows:,}", "estimated from the bytes that are written"
        )
    ] if load.totalRows else []  # fmt: skip
    figures = [
        *tables,
        *rows,
        FigureView("written", f"{in_bytes(done)} of {in_bytes(total)}", f"{in_bytes(load.bps)}/s"),
        FigureView("time left", _eta(left)),
    ]
    return ProgressView(share, load.step or f"loads: {load.progress or '0.00 %'}", figures)


def _sync(sync: pb.SyncStatus, *, running: bool) -> ProgressView:
    commit = FigureView(
        "oldest commit not applied",
        _age(sync),
        _reason(sync.lagReason),
        "warn" if sync.secondsBehindMaster > HIGH_LAG else "good",
    )
    stream = _stream("binlog not read", stream_of_task(sync))
    backlog = FigureView("binlog not applied", _bytes(sync.bytesBehind), _backlog_note(sync))
    speed = FigureView("rows per second", f"{sync.recentRps:,}", f"{counted(sync.totalRows, 'row')} in all")
    if sync.ended:
        text = f"has ended: {sync.ended}"
    elif not running:
        text = "does not replicate"
    elif waiting := [group.target for group in sync.unresolvedGroups if group.DDLs]:
        text = f"waits for shards of {waiting[0]}"
    elif sync.held:
        text = sync.held
    else:
        text = "in step with the upstream" if sync.synced else "replicates"
    return ProgressView(None, text, (stream, commit, backlog, speed))


def _age(sync: pb.SyncStatus) -> str:
    return "unknown" if sync.secondsBehindMaster < 0 else duration(sync.secondsBehindMaster)


def _reason(reason: str) -> str:
    return _REASONS.get(reason, reason.replace("_", " "))


def _bytes(size: int) -> str:
    return "unknown" if size < 0 else in_bytes(size)


def stream_of_task(sync: pb.SyncStatus) -> StreamLag:
    """How far the task's reader is behind its upstream; not known of a worker that is too old to say it."""
    if not sync.HasField("streamSecondsBehind"):
        return StreamLag(UNKNOWN, UNKNOWN, "")
    return StreamLag(sync.streamSecondsBehind, sync.streamBytesBehind, sync.streamLagReason)


def stream_of_relay(relay: pb.RelayStatus) -> StreamLag:
    """The same of a relay log."""
    if not relay.HasField("secondsBehind"):
        return StreamLag(UNKNOWN, UNKNOWN, "")
    return StreamLag(relay.secondsBehind, relay.bytesBehind, relay.lagReason)


def relay_figure(relay: pb.RelayStatus) -> FigureView:
    return _stream("binlog not in the relay log", stream_of_relay(relay))


def _stream(name: str, lag: StreamLag) -> FigureView:
    health: Health = "warn" if lag.seconds > HIGH_LAG else "good"
    return FigureView(name, stream_text(lag), _reason(lag.reason), health)


def stream_text(lag: StreamLag) -> str:
    """Seconds and bytes, as far as known."""
    if lag.seconds < 0 and lag.unread < 0:
        return "unknown"
    parts = [] if lag.seconds < 0 else [duration(lag.seconds)]
    if lag.unread > 0:
        parts.append(in_bytes(lag.unread))
    return " · ".join(parts)


def _backlog_note(sync: pb.SyncStatus) -> str:
    if sync.bytesBehind < 0:
        return "the upstream's end is not known yet"
    if not sync.bytesBehind:
        return "all that the upstream has written is applied"
    left = sync.eta.removesuffix("s")
    return f"{duration(int(left))} left at this speed" if left.isdigit() else "no speed is known yet"


def _eta(seconds: float | None) -> str:
    return "unknown" if seconds is None else duration(int(seconds))


def profile_bars(subtask: pb.SubTaskStatus) -> list[BarView]:
    """The time profile as bars; a bar stands below its part of the bar above."""
    if not subtask.HasField("profile") or subtask.profile.seconds <= 0:
        return []
    sums = dict(subtask.profile.sums)
    bars: list[BarView] = []
    for root in (main_loop(sums), reader(sums)):
        if root.seconds > 0:
            _add_bars(bars, root, 0, 0.0, root.seconds)
    return bars


def _add_bars(bars: list[BarView], node: ProfileNode, depth: int, start: float, whole: float) -> None:
    if node.seconds / whole < _LEAST_SHARE:
        return
    bars.append(BarView(node.name, depth, 100 * start / whole, 100 * node.seconds / whole))
    for part in node.parts:
        _add_bars(bars, part, depth + 1, start, whole)
        start += part.seconds
