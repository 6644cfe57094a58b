"""Hazards: escape codes in a log, a log with the same line again and again, lines that are not redrawn."""

from __future__ import annotations

import io

import pytest

from deploy.demo.screen import Board, Screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
