"""Hazard: a demo that shows raw JSON, or names those who do not wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deploy.demo import texts

REPORT = {
    "results": [
        {
            "id": 4,
            "name": "auto-increment key check",
            "desc": "check for conflicts",
            "state": "warn",
            "errors": [
                {
                    "severity": "warn",
                    "short_error": "the key `PRIMARY` (id) may repeat",
                    "instruction": "Keep ids apart.",
                },
                {
                    "severity": "warn",
                    "short_error": "the key `PRIMARY` (id) may repeat",
                    "instruction": "Keep ids apart.",
                },
            ],
        }
    ],
    "summary": {"passed": True, "total": 40, "successful": 39, "failed": 0, "warning": 1},
}
ANSWER = "fail to check synchronization configuration with type: no errors but some warnings\n detail: " + json.dumps(
    REPORT
)


def _groups(*groups: dict[str, Any]) -> dict[str, Any]:
    return {"sync": {"unresolvedGroups": list(groups)}}


def test_findings_are_sentences_and_each_is_shown_once() -> None:
    lines = texts.report_lines(texts.report_of(ANSWER))
    assert lines == [
        "40 checks: 39 passed, 1 with a warning, 0 failed",
        "! auto-increment key check: the key `PRIMARY` (id) may repeat",
        "  → Keep ids apart.",
    ]


def test_an_answer_without_a_report_means_that_all_checks_passed() -> None:
    assert texts.report_lines(texts.report_of("pre-check is passed. ")) == ["all checks passed"]


def test_a_long_advice_is_shortened() -> None:
    finding = texts.Finding("fail", "version", "too old", "Use another server. " * 40)
    lines = texts.report_lines(texts.Report(1, 0, 1, (finding,)))
    assert lines[1] == "✗ version: too old"
    assert lines[-1].endswith("…")
    assert len(lines) <= 4


@pytest.mark.parametrize(("share", "full"), [(-1.0, 0), (0.0, 0), (0.5, 7), (1.0, 14), (2.0, 14)])
def test_a_bar_has_one_width(share: float, full: int) -> None:
    assert texts.bar(share) == "█" * full + "░" * (14 - full)


@pytest.mark.parametrize(("value", "text"), [(0.0854, "85 ms"), (4.25, "4.2 s"), (65.4, "1 min 5 s")])
def test_times_are_short(value: float, text: str) -> None:
    assert texts.seconds(value) == text


def test_only_groups_that_wait_are_named_among_those_who_are_waited_for() -> None:
    waiting = {"heldRows": 7, "synced": ["`a`.`t1`"], "unsynced": ["`a`.`t2`"]}
    untouched = {"heldRows": 0, "synced": [], "unsynced": ["this worker has no DDL"]}
    states = {"s1": _groups(waiting), "s2": _groups(untouched)}
    assert texts.held_rows(states) == 7
    assert texts.who_is_waited_for(states, ["s2"]) == "a.t2 and s2"
