"""The demo's output lines, from dmctl's answers. Pure."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Status = dict[str, Any]
_BAR = 14
_WIDTH = 110
#: A piece of advice may be a whole block of a task file; check-task prints all of it.
_ADVICE = 170


def bar(share: float) -> str:
    """A bar of fixed width, ``share`` (0 to 1) of it filled."""
    full = round(max(0.0, min(1.0, share)) * _BAR)
    return "█" * full + "░" * (_BAR - full)


def seconds(value: float) -> str:
    """A short time: ``850 ms``, ``4.2 s``, ``1 min 5 s``."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    return f"{int(value) // 60} min {int(value) % 60} s"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of check-task."""

    severity: str
    check: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class Report:
    """check-task's answer: the number of checks, and their findings."""

    total: int = 0
    warnings: int = 0
    failures: int = 0
    findings: tuple[Finding, ...] = ()


def report_of(answer: str) -> Report:
    """The precheck's report in dmctl's ``msg``; an empty one if every check passed."""
    start = answer.find("{")
    if start < 0:
        return Report()
    detail, _ = json.JSONDecoder().raw_decode(answer, start)
    summary = detail["summary"]
    found = [
        Finding(error["severity"], result["name"], error["short_error"], error.get("instruction", ""))
        for result in detail["results"]
        for error in result.get("errors", ())
    ]
    return Report(summary["total"], summary["warning"], summary["failed"], tuple(dict.fromkeys(found)))


def report_lines(report: Report) -> list[str]:
    """The report as lines of text."""
    if not report.total:
        return ["all checks passed"]
    passed = report.total - report.warnings - report.failures
    lines = [f"{report.total} checks: {passed} passed, {report.warnings} with a warning, {report.failures} failed"]
    for finding in report.findings:
        mark = "✗" if finding.severity == "fail" else "!"
        lines += textwrap.wrap(f"{mark} {finding.check}: {finding.message}", _WIDTH, subsequent_indent="  ")
        if finding.advice:
            advice = textwrap.shorten(finding.advice, _ADVICE, placeholder=" …")
            lines += textwrap.wrap(f"→ {advice}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


def sync_line(status: Status) -> str:
    """A subtask that replicates: position, rows and lag."""
    sync = status["sync"]
    end = " · caught up" if sync["synced"] else ""
    return (
        f"lag {sync['secondsBehindMaster']} s · {int(sync['totalRows']):,} rows applied"
        f" ({int(sync['recentRps']):,}/s) · at {sync['syncerBinlog']}{end}"
    )


def held_rows(states: dict[str, Status]) -> int:
    """The rows that all sources hold back."""
    return sum(int(group["heldRows"]) for state in states.values() for group in state["sync"]["unresolvedGroups"])


def who_is_waited_for(states: dict[str, Status], others: Sequence[str]) -> str:
    """Which tables have not run the DDL yet. ``others``: sources where no table has."""
    tables = [
        table.replace("`", "")
        for state in states.values()
        for group in state["sync"]["unresolvedGroups"]
        if group["synced"]
        for table in group["unsynced"]
    ]
    return " and ".join([", ".join(part) for part in (sorted(set(tables)), others) if part])
