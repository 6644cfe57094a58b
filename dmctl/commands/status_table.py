"""The status of tasks as a table for people: one line for each task and source. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from pkg.status.amounts import duration, in_bytes
from pkg.status.task_stage import error_line

_HEAD = ("TASK", "SOURCE", "STAGE", "UNIT", "PROGRESS", "BEHIND", "ROWS/S", "ERROR")
_GAP = "  "
_RED, _YELLOW, _GREEN, _BOLD, _PLAIN = "\033[31m", "\033[33m", "\033[32m", "\033[1m", "\033[0m"
#: The minimum width of the error column, whatever the terminal.
_LEAST_ERROR = 20


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[str, ...]
    colour: str


def status_table(answer: master.QueryStatusListResponse, *, columns: int, colours: bool) -> str:
    """The table, without a final newline. Errors are cut so that a line has at most ``columns`` characters."""
    rows = [row for source in answer.sources for row in _rows(source)]
    rows.sort(key=lambda row: row.cells[:2])
    lines = list(_lines(rows, columns, colours))
    if not answer.result and answer.msg:
        lines.append(answer.msg)
    tasks = sorted({row.cells[0] for row in rows if row.cells[-1] and row.cells[0] != "-"})
    if tasks:
        commands = " or ".join(f"`dmctl query-status {task} --json`" for task in tasks[:3])
        lines.append(f"\nWhole errors, and what to do: {commands}")
    return "\n".join(lines)


def _rows(source: worker.QueryStatusResponse) -> Iterator[_Row]:
    status = source.sourceStatus
    problem = "" if source.result else source.msg
    for error in status.result.errors:
        problem = problem or error_line(error)
    if status.HasField("relayStatus") and status.relayStatus.stage == worker.Paused:
        cause = "; ".join(error_line(error) for error in status.relayStatus.result.errors)
        problem = problem or f"relay is Paused: {cause or '`dmctl resume-relay` resumes it'}"
    subtasks = [subtask for subtask in source.subTaskStatus if subtask.name]
    for subtask in subtasks:
        yield _row(status.source, subtask, problem)
    if not subtasks:
        yield _Row(("-", status.source, "", "", "no task", "", "", problem), _RED if problem else "")


def _row(source: str, subtask: worker.SubTaskStatus, problem: str) -> _Row:
    errors = [error_line(error) for error in subtask.result.errors]
    error = errors[0] if errors else problem
    stage, unit = worker.Stage.Name(subtask.stage), worker.UnitType.Name(subtask.unit)
    colour = _RED if error else _YELLOW if subtask.stage == worker.Paused else _GREEN
    return _Row((subtask.name, source, stage, unit, *_progress(subtask), error), colour)


def _progress(subtask: worker.SubTaskStatus) -> tuple[str, str, str]:
    """The unit's progress, the bytes behind the upstream, and rows per second, as far as known."""
    kind = subtask.WhichOneof("status")
    if kind == "dump":
        dump = subtask.dump
        tables = f"{dump.progress or '0.00 %'}, {dump.completedTables:,.0f} of {dump.totalTables:,} tables"
        return f"{tables}; {dump.step}" if dump.step else tables, "", ""
    if kind == "load":
        load = subtask.load
        if load.step:
            return load.step, "", ""
        return f"{load.progress or '0.00 %'} of {in_bytes(load.totalBytes)}, {in_bytes(load.bps)}/s", "", ""
    if kind == "sync":
        return _sync_progress(subtask.sync), _behind(subtask.sync), f"{subtask.sync.recentRps:,}"
    return subtask.msg if kind == "msg" else "", "", ""


def _sync_progress(sync: worker.SyncStatus) -> str:
    if sync.unresolvedGroups:
        ddls = sync.unresolvedGroups[0].DDLs
        return f"waits for shards: {ddls[0] if ddls else sync.unresolvedGroups[0].target}"
    if sync.synced:
        return "synced"
    lag = "lag unknown" if sync.secondsBehindMaster < 0 else f"{duration(sync.secondsBehindMaster)} behind"
    return f"{lag} ({sync.lagReason})" if sync.lagReason else lag


def _behind(sync: worker.SyncStatus) -> str:
    """The bytes of binlog that are not applied yet, and the estimated time for them."""
    if sync.bytesBehind < 0:
        return "unknown"
    if not sync.bytesBehind:
        return ""
    return f"{in_bytes(sync.bytesBehind)}, {sync.eta} left" if sync.eta else in_bytes(sync.bytesBehind)


def _lines(rows: Sequence[_Row], columns: int, colours: bool) -> Iterator[str]:
    """The header and the rows, aligned. A column without content is left out."""
    cells = [_HEAD, *(row.cells for row in rows)]
    shown = [i for i in range(len(_HEAD)) if i < 2 or any(row.cells[i] for row in rows)]
    widths = {i: max(_width(row[i]) for row in cells) for i in shown}
    before = sum(widths[i] + len(_GAP) for i in shown if i != len(_HEAD) - 1)
    most = max(columns - before, _LEAST_ERROR)
    for number, row in enumerate(cells):
        parts = [_cut(row[i], most) if i == len(_HEAD) - 1 else _padded(row[i], widths[i]) for i in shown]
        line = _GAP.join(parts).rstrip()
        colour = (_BOLD if number == 0 else rows[number - 1].colour) if colours else ""
        yield f"{colour}{line}{_PLAIN}" if colour else line


def _width(text: str) -> int:
    """The terminal columns that ``text`` needs: names may be in Chinese."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _cut(text: str, most: int) -> str:
    while _width(text) > most:
        text = text[: most - 1 - (_width(text) - len(text))] + "…" if len(text) > most else text[:-2] + "…"
    return text
