"""The findings of check-task, each beside the field of the form that it is about. Pure."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dm_master.console.view.progress import Health
from pkg.status.error_text import parsed_error

#: Fields of the form by what a check's name or a message about the file says; the first match counts.
_FIELDS: tuple[tuple[str, str], ...] = (
    (r"target-database|target db|target tables?\b|target structure|loader conn|foreign_key_checks", "target"),
    (r"source-id|mysql-instances|connection check|source db|source binlog|meta position|dumper conn", "sources"),
    (r"shard-mode|sharding|auto-increment", "shard-mode"),
    (r"\broutes?\b|route-rules|table route|partition id|rule check|rule usage", "routes"),
    (r"block-allow-list|table structure|foreign key|online ddl|do-dbs|do-tables", "tables"),
    (r"task-mode|takeover", "mode"),
    (r"\bname\b", "name"),
)
_DETAIL = "detail: "
_HEALTH: dict[str, Health] = {"fail": "bad", "warn": "warn"}


@dataclass(frozen=True, slots=True)
class FindingView:
    health: Health
    text: str
    advice: str
    subject: str


@dataclass(frozen=True, slots=True)
class FindingsView:
    """``by_field``: for each field of the form; ``other``: what is about none of them."""

    passed: bool
    summary: str
    by_field: Mapping[str, Sequence[FindingView]]
    other: Sequence[FindingView]


def findings(passed: bool, text: str) -> FindingsView:
    """``text``: check-task's answer, with a report as JSON behind ``detail:``, or an error's text."""
    _, found, detail = text.partition(_DETAIL)
    try:
        report: Any = json.JSONDecoder().raw_decode(detail)[0] if found else None
    except ValueError:
        report = None
    if report is None:
        return _of_error(passed, text)
    placed: defaultdict[str, list[FindingView]] = defaultdict(list)
    for result in report.get("results", ()):
        for one in result.get("errors", ()):
            text = one.get("short_error", "")
            found_error = parsed_error(text)
            view = FindingView(
                _HEALTH.get(one.get("severity", ""), "warn"),
                found_error.line,
                one.get("instruction", "") or found_error.advice,
                one.get("self", ""),
            )
            # The server that an error is of decides before the check that met it.
            server = "target" if "scope=downstream" in text else ""
            placed[server or field_of(result.get("name", "")) or field_of(text)].append(view)
    other = placed.pop("", [])
    summary = report.get("summary", {})
    counts = f"{summary.get('failed', 0)} failed, {summary.get('warning', 0)} with warnings"
    return FindingsView(passed, f"{summary.get('total', 0)} checks: {counts}", placed, other)


def _of_error(passed: bool, text: str) -> FindingsView:
    if passed:
        return FindingsView(True, text.strip() or "All checks passed.", {}, ())
    error = parsed_error(text)
    view = FindingView("bad", error.line, error.advice, error.cause)
    field = field_of(error.line)
    return FindingsView(False, "The task cannot start.", {field: [view]} if field else {}, () if field else [view])


def field_of(text: str) -> str:
    """The form's field that a text is about; '' for none."""
    return next((field for pattern, field in _FIELDS if re.search(pattern, text)), "")
