"""The result of a precheck, and the text that dmctl shows. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dm_master.rules.rule_usage import RuleSummary
from pkg import errors
from pkg.errors import Code, DMError

CheckState = Literal["success", "warn", "fail"]
HEADER = "fail to check synchronization configuration with type"
PASSED = "pre-check is passed. "
#: The most tables that a grouped warning names.
_NAMED = 5
#: A table's name in a message.
_TABLE = re.compile(r"`(?:[^`]|``)+`\.`(?:[^`]|``)+`")


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One problem with ``subject``, which may have been compared with ``other``."""

    severity: CheckState
    message: str
    instruction: str = ""
    subject: str = ""
    other: str = ""

    def to_dict(self) -> dict[str, Any]:
        data = {"severity": self.severity, "short_error": self.message}
        optional = {"self": self.subject, "other": self.other, "instruction": self.instruction}
        return {**data, **{key: value for key, value in optional.items() if value}}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of one server; its state is that of its worst finding."""

    name: str
    desc: str
    findings: tuple[CheckFinding, ...] = ()
    extra: str = ""

    @property
    def state(self) -> CheckState:
        severities = {finding.severity for finding in self.findings}
        return "fail" if "fail" in severities else "warn" if "warn" in severities else "success"

    def to_dict(self, number: int) -> dict[str, Any]:
        data: dict[str, Any] = {"id": number, "name": self.name, "desc": self.desc, "state": self.state}
        if self.findings:
            data["errors"] = [finding.to_dict() for finding in self.findings]
        instructions = list(dict.fromkeys(finding.instruction for finding in self.findings if finding.instruction))
        if instructions:
            data["instruction"] = "; ".join(instructions)
        if self.extra:
            data["extra"] = self.extra
        return data


@dataclass(frozen=True, slots=True)
class PrecheckResult:
    """``text`` is shown as ``checkResult``; ``results`` are all checks, including those that ``text`` leaves out.

    ``rules`` is None when not all of the task's tables could be read.
    """

    passed: bool
    text: str
    warnings: tuple[str, ...] = ()
    results: tuple[CheckResult, ...] = field(default=())
    rules: RuleSummary | None = None


def fail(message: str, instruction: str, *, subject: str = "", other: str = "") -> CheckFinding:
    return CheckFinding("fail", message, instruction, subject, other)


def warn(message: str, instruction: str, *, subject: str = "", other: str = "") -> CheckFinding:
    return CheckFinding("warn", message, instruction, subject, other)


def from_error(error: DMError) -> CheckFinding:
    """A failed finding that carries the error's code and text."""
    # The workaround is in the finding's instruction; a cause is not repeated.
    cause = "" if error.raw_cause in error.message else error.raw_cause
    return fail(str(DMError(error.kind, error.message, raw_cause=cause, scope=error.scope)), error.workaround)


def conclude(
    results: Sequence[CheckResult], warnings: Iterable[str] = (), *, err_count: int = 10, warn_count: int = 10
) -> PrecheckResult:
    """All results as one answer; ``err_count`` and ``warn_count`` limit the findings that the text shows. The
    text merges equal warnings about several tables."""
    states = [result.state for result in results]
    passed = "fail" not in states
    summary = {
        "passed": passed,
        "total": len(states),
        "successful": states.count("success"),
        "failed": states.count("fail"),
        "warning": states.count("warn"),
    }
    shown = _bounded(results, {"fail": err_count, "warn": warn_count})
    detail = {"results": [result.to_dict(number) for number, result in shown], "summary": summary}
    # DM's layout: indented by tabs, two of them before each line.
    text = json.dumps(detail, indent="\t", ensure_ascii=False).replace("\n", "\n\t\t")
    if not passed:
        error = errors.new(
            Code.TaskCheckSyncConfigError, f"{HEADER}: check was failed, please see detail\n detail: {text}"
        )
        answer = str(error)
    elif "warn" in states:
        answer = f"{HEADER}: no errors but some warnings\n detail: {text}"
    else:
        answer = PASSED
    return PrecheckResult(passed, answer, tuple(warnings), tuple(results))


def _bounded(results: Sequence[CheckResult], left: dict[CheckState, int]) -> list[tuple[int, CheckResult]]:
    shown = []
    for number, result in enumerate(results):
        kept = []
        for finding in _grouped(result.findings):
            if left[finding.severity] > 0:
                left[finding.severity] -= 1
                kept.append(finding)
        if kept:
            shown.append((number, replace(result, findings=tuple(kept))))
    return shown


def _grouped(findings: Sequence[CheckFinding]) -> list[CheckFinding]:
    """Merges warnings that differ only in the table. Failures stay separate: scripts count them."""
    groups: dict[object, list[CheckFinding]] = {}
    for number, finding in enumerate(findings):
        kind = (_TABLE.sub("", finding.message), finding.instruction) if finding.severity == "warn" else number
        groups.setdefault(kind, []).append(finding)
    return [_as_one(group) for group in groups.values()]


def _as_one(group: Sequence[CheckFinding]) -> CheckFinding:
    first = group[0]
    told = dict.fromkeys(_TABLE.findall(first.message))
    more = [name for one in group[1:] for name in _TABLE.findall(one.message) if name not in told]
    message = f"{first.message}; the same of {_listed(more)}" if more else first.message
    subject, other = (_listed(names) for names in ([one.subject for one in group], [one.other for one in group]))
    return replace(first, message=message, subject=subject, other=other)


def _listed(names: Iterable[str]) -> str:
    distinct = [name for name in dict.fromkeys(names) if name]
    more = f" and {len(distinct) - _NAMED} more" if len(distinct) > _NAMED else ""
    return ", ".join(distinct[:_NAMED]) + more
