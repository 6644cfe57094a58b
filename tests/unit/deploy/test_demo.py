"""Hazards: a demo that shows raw JSON, a copy that does not move, or a terminal's escape codes in a log."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from deploy.demo import texts
from deploy.demo.progress import CopyProgress
from deploy.demo.screen import Board, Screen

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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _state(unit: str, **detail: Any) -> dict[str, Any]:
    return {"unit": unit, "stage": "Running", unit.lower(): detail}


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


def test_the_copy_shows_rows_percent_and_the_time_left() -> None:
    copy = CopyProgress(total_rows=1000)
    copy.note(_state("Dump", finishedRows=0), 0, 10.0)
    assert copy.line().endswith("0 of 1,000 rows · starting")
    copy.note(_state("Dump", finishedRows=200), 0, 60.0)
    assert copy.line().endswith(" 200 of 1,000 rows · starting"), (
        "the wait for the first rows is no measure of their pace"
    )
    copy.note(_state("Dump", finishedRows=400), 0, 61.0)
    assert " 40% " in copy.line()
    assert copy.line().endswith(" 400 of 1,000 rows · 3.0 s left · 200/s")


def test_the_copy_counts_loaded_rows_and_ends_with_the_times_of_both_units() -> None:
    copy = CopyProgress(total_rows=1000)
    assert copy.note(_state("Dump", finishedRows=1000), 0, 0.0)
    assert copy.note(_state("Load"), 0, 4.0)
    assert not copy.note(_state("Load"), 100, 5.0)
    assert not copy.note(_state("Load"), 500, 5.8)
    assert " 50% " in copy.line()
    assert copy.line().endswith(" 500 of 1,000 rows · 1.0 s left · 500/s")
    assert not copy.is_over
    copy.note(_state("Sync"), 0, 6.0)
    assert copy.is_over
    assert copy.line().endswith("1,000 rows · reading 4.0 s · writing 2.0 s")


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


def test_a_log_has_no_escape_codes_and_no_line_twice() -> None:
    out = io.StringIO()
    screen = Screen(out, {})
    board = Board(screen)
    screen.step("a step")
    board.show("s1", "s1 at 1")
    board.show("s1", "s1 at 1")
    board.show("s1", "s1 at 2", now=True)
    assert "\033" not in out.getvalue()
    assert out.getvalue().splitlines()[2:] == ["s1 at 1", "s1 at 2"]


def test_a_log_has_a_line_per_subject_now_and_then_only() -> None:
    out = io.StringIO()
    board = Board(Screen(out, {}))
    for i in range(100):
        board.show("s1", f"s1 at {i}")
    assert out.getvalue().splitlines() == ["s1 at 0"]


def test_a_terminal_redraws_its_lines_in_place() -> None:
    out = Terminal()
    screen = Screen(out, {"TERM": "xterm"})
    board = Board(screen)
    board.show("s1", "first")
    board.show("s2", "other")
    board.show("s1", "second")
    assert out.getvalue().endswith("\033[2Fsecond\033[K\nother\033[K\n")
    screen.say("below")
    board.show("s1", "third")
    assert out.getvalue().endswith("below\nthird\033[K\nother\033[K\n")


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}])
def test_colours_can_be_turned_off(environ: dict[str, str]) -> None:
    out = Terminal()
    screen = Screen(out, environ)
    screen.step("a step")
    assert "\033" not in out.getvalue() + screen.good("fine")
