"""The demo's output, for terminals and for logs.

On a terminal a :class:`Board` redraws its lines in place, and some text has a colour. A log is only appended to, and a
board adds a line only after a change.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

_BOLD, _DIM, _GREEN, _YELLOW, _RED, _PLAIN = "\033[1m", "\033[2m", "\033[32m", "\033[33m", "\033[31m", "\033[0m"
#: Seconds between two lines about the same subject in a log.
LOG_EVERY = 1.0


class Screen:
    """Prints steps, lines and boards to ``out``."""

    def __init__(self, out: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self._out = out
        self.live = out.isatty() and environ.get("TERM") != "dumb"
        self._colour = self.live and "NO_COLOR" not in environ
        self._started = time.monotonic()
        self._drawn = 0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def step(self, text: str) -> None:
        """Begins a step of the demo."""
        self.settle()
        clock = self._paint(_DIM, f"{self.elapsed:5.1f} s")
        self._write(f"\n{self._paint(_BOLD, f'▶ {text}')}  {clock}\n")

    def say(self, text: str = "") -> None:
        self.settle()
        self._write(f"{text}\n")

    def command(self, text: str) -> None:
        """Prints a command as an operator would type it."""
        self.say(f"  {self._paint(_DIM, f'$ {text}')}")

    def good(self, text: str) -> str:
        return self._paint(_GREEN, text)

    def warn(self, text: str) -> str:
        return self._paint(_YELLOW, text)

    def bad(self, text: str) -> str:
        return self._paint(_RED, text)

    def draw(self, lines: Sequence[str]) -> None:
        """Draws ``lines`` over the lines drawn before. For terminals only."""
        width = shutil.get_terminal_size().columns - 1
        up = f"\033[{self._drawn}F" if self._drawn else ""
        self._write(up + "".join(f"{line[:width]}\033[K\n" for line in lines))
        self._drawn = len(lines)

    def settle(self) -> None:
        """Keeps the drawn lines: later lines go below them."""
        self._drawn = 0

    def _paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._colour else text

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class Board:
    """One line per subject, kept up to date."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._lines: dict[str, str] = {}
        self._printed: dict[str, float] = {}

    def show(self, subject: str, line: str, *, now: bool = False) -> None:
        """Shows ``line`` for ``subject``; in a log at most every :data:`LOG_EVERY` seconds, or ``now``."""
        if line == self._lines.get(subject):
            return
        if self._screen.live:
            self._lines[subject] = line
            self._screen.draw([self._lines[name] for name in sorted(self._lines)])
            return
        at = time.monotonic()
        if now or at - self._printed.get(subject, -LOG_EVERY) >= LOG_EVERY:
            self._lines[subject] = line
            self._printed[subject] = at
            self._screen.say(line)
