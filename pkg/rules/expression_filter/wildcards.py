"""LIKE's wildcards, in time that is limited by the text's length times the pattern's. Pure.

A regular expression would try every way to divide the text among several ``%``: a short pattern then takes minutes. But
each ``%`` may match any text, so it is enough to find each piece between two at its first position, and the last piece
at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

#: Matches any one character.
_ANY = None
#: Characters' weights, or :data:`_ANY`.
_Piece = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Wildcards:
    """A pattern, split into the pieces between its ``%``."""

    pieces: tuple[_Piece, ...]

    def matches(self, text: str) -> bool:
        """Whether the whole text matches the pattern; both in the same weights, one for each character."""
        first, *middle = self.pieces
        if not middle:
            return len(text) == len(first) and _fits(first, text, 0)
        last = middle.pop()
        end = len(text) - len(last)
        at = len(first)
        if at > end or not _fits(first, text, 0) or not _fits(last, text, end):
            return False
        for piece in middle:
            at = _find(piece, text, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True


def _fits(piece: _Piece, text: str, at: int) -> bool:
    return all(wanted is _ANY or wanted == text[at + i] for i, wanted in enumerate(piece))


def _find(piece: _Piece, text: str, start: int, end: int) -> int:
    """The first position of ``piece`` between ``start`` and ``end``; -1 if there is none."""
    if _ANY not in piece:
        return text.find("".join(char for char in piece if char is not None), start, end)
    starts = range(start, end - len(piece) + 1)
    return next((at for at in starts if _fits(piece, text, at)), -1)


@lru_cache(maxsize=256)
def wildcards(pattern: str, escape: str, weigh: Callable[[str], str]) -> Wildcards:
    """A pattern of LIKE; ``weigh`` gives a character's weight."""
    pieces: list[list[str | None]] = [[]]
    i = 0
    while i < len(pattern):
        char = pattern[i]
        if char == escape and i + 1 < len(pattern):
            i += 1
            pieces[-1].append(weigh(pattern[i]))
        elif char == "%":
            pieces.append([])
        else:
            pieces[-1].append(_ANY if char == "_" else weigh(char))
        i += 1
    return Wildcards(tuple(map(tuple, pieces)))
