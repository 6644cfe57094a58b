"""Collations with contractions: character sequences that a collation weighs as one. Pure.

A string's weights are those of its characters, except for its contractions, which have their own weights: in Czech
``ch`` is a letter after ``h``. Where the units of a string begin depends on the characters before them, so no table by
character gives the weights. But a table can give a *coarser* form: group weights into classes in which every
contraction has the form of its characters together. Then equal weights have equal forms, wherever the units begin.
:func:`coarse_weights` finds such classes, as fine as possible with little effort.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

Points = tuple[int, ...]

#: The weights of a contraction, and those of its characters one by one.
Unequal = tuple[bytes, bytes]

_UNIT = 2
_ASCII = (*range(0x41, 0x5B), *range(0x61, 0x7B))
_LATIN = (*_ASCII, *range(0xC0, 0x180))
_MARKS = range(0x300, 0x370)
#: Letters that take the marks of Unicode's common block.
_MARKED = (*_LATIN, *range(0x180, 0x250), *range(0x370, 0x530), *range(0x1E00, 0x2000))
_DOTS = (0xB7, 0x387, 0x27, 0x2019)
_KANA = (*range(0x3041, 0x3100), *range(0x31F0, 0x3200), *range(0xFF66, 0xFFA0))
#: Marks of length, repetition and voice: together with the repeated character, they may weigh as that.
_KANA_MARKS = (0x3005, 0x3031, 0x3032, *range(0x3099, 0x309F), *range(0x30FC, 0x30FF), 0xFF70, 0xFF9E, 0xFF9F)
#: Scripts whose vowel signs are before, around or after the letter: these four, and others of 128 code points each.
_WIDE = (range(0x600, 0x700), range(0xF00, 0x1000), range(0x1000, 0x10A0), range(0x1A00, 0x1B00))
_SCRIPTS = _WIDE + tuple(
    range(first, first + 0x80)
    for start, end in ((0x580, 0xF00), (0x1700, 0x1C80), (0xA800, 0xAC00), (0x11000, 0x11E00))
    for first in range(start, end, 0x80)
    if not any(first in wide for wide in _WIDE)
)
#: Vowels written before the letter after which they are spoken, and signs that form one vowel with another.
_LEADING = {
    0xE00: (*range(0xE40, 0xE45), 0xE4D),
    0xE80: (*range(0xEC0, 0xEC5), 0xECD),
    0x1980: tuple(range(0x19B5, 0x19BB)),
    0xAA80: tuple(range(0xAAB5, 0xAABD)),
}
#: Scripts whose whole syllables a language contracts: their weights are all ignored.
_SYLLABLES = {"myanmar": range(0x1000, 0x10A0)}


@lru_cache(maxsize=1)
def candidates() -> tuple[Points, ...]:
    """The pairs of characters that Unicode's default table or a language's rules may contract, the letter first."""
    pairs: dict[Points, None] = dict.fromkeys((a, b) for a in _LATIN for b in _LATIN)
    pairs |= dict.fromkeys((a, b) for a in _ASCII for b in _DOTS)
    pairs |= dict.fromkeys((a, b) for a in _MARKED for b in _MARKS if unicodedata.category(chr(a)) in ("Lu", "Ll"))
    pairs |= dict.fromkeys((a, b) for a in _KANA for b in _KANA_MARKS)
    for script in _SCRIPTS:
        pairs |= dict.fromkeys(_of_script(script))
    return tuple(pairs)


def _of_script(script: range) -> Iterator[Points]:
    marks = _marks(script)
    leading = _LEADING.get(script.start, ())
    for point in filter(_is_letter, script):
        yield from ((point, mark) for mark in marks)
        yield from ((vowel, point) for vowel in leading)


@lru_cache(maxsize=256)
def _marks(script: range) -> tuple[int, ...]:
    return tuple(point for point in script if unicodedata.category(chr(point))[0] == "M")


def longer(found: Iterable[Points]) -> list[Points]:
    """Sequences of one character more that may also be contractions if these are."""
    longer: dict[Points, None] = {}
    for points in found:
        head, *rest = points
        around: Sequence[int] = ()
        if head in _ASCII:
            around, behind = _ASCII, (*_ASCII, *_MARKS)
        elif head in _MARKED:
            behind = tuple(_MARKS)
        elif head in _KANA:
            behind = _KANA_MARKS
        else:
            around = behind = _marks(next(script for script in _SCRIPTS if head in script))
        longer |= dict.fromkeys((*points, point) for point in behind)
        longer |= dict.fromkeys((point, *points) for point in around)
        longer |= dict.fromkeys((head, point, *rest) for point in around)
    return list(longer)


def joined(points: Points, table: Sequence[bytes], known: Mapping[Points, bytes]) -> set[bytes]:
    """The possible weights of a sequence that is no contraction itself, for each way to split it into characters and
    ``known`` contractions."""
    found = {table[points[0]] + rest for rest in joined(points[1:], table, known)} if points else {b""}
    for size in range(2, len(points) + 1):
        weight = known.get(points[:size])
        if weight is not None:
            found |= {weight + rest for rest in joined(points[size:], table, known)}
    return found


def whole_script(collation: str) -> list[int]:
    """The letters and marks whose whole syllables a collation contracts; empty for most."""
    script = next((points for name, points in _SYLLABLES.items() if f"_{name}_" in collation), range(0))
    return list(filter(_is_letter, script))


def _is_letter(point: int) -> bool:
    """Whether it is a letter or a mark: digits weigh the same in all scripts."""
    return unicodedata.category(chr(point))[0] in "LM"


def coarse_weights(unequal: Iterable[Unequal], ignored: Iterable[bytes] = ()) -> Callable[[bytes], bytes]:
    """A function from weights to their coarser form, in which the two of each pair are equal.

    Weights are units of two bytes. The function maps each unit to another or to nothing, so that the form of a string
    is the concatenation of its parts' forms. ``ignored``: weights that are ignored.
    """
    pairs = [(_units(one), _units(other)) for one, other in dict.fromkeys(unequal)]
    classes = _Classes()
    for weight in ignored:
        for unit in _units(weight):
            classes.ignore(unit)
    often = Counter(unit for pair in pairs for weight in pair for unit in weight)
    changed = True
    while changed:
        changed = False
        for pair in pairs:
            one, other = _without_common_ends(*map(classes.form, pair))
            if not one and not other:
                continue
            changed = True
            if Counter(one) == Counter(other):
                # When a vowel and a consonant swap positions, the vowel is in more of the pairs.
                classes.ignore(max(one, key=lambda unit: (often[unit], unit)))
                continue
            for a, b in zip(one, other, strict=False):
                classes.join(a, b)
            shorter = min(len(one), len(other))
            for unit in (*one[shorter:], *other[shorter:]):
                classes.ignore(unit)
    return lambda weight: b"".join(classes.form(_units(weight)))


def _units(weight: bytes) -> list[bytes]:
    return [weight[at : at + _UNIT] for at in range(0, len(weight), _UNIT)]


def _without_common_ends(one: list[bytes], other: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    most = min(len(one), len(other))
    start = next((i for i in range(most) if one[i] != other[i]), most)
    one, other = one[start:], other[start:]
    most = min(len(one), len(other))
    end = next((i for i in range(most) if one[-1 - i] != other[-1 - i]), most)
    return one[: len(one) - end], other[: len(other) - end]


class _Classes:
    """Units that are treated as one, and ignored units."""

    def __init__(self) -> None:
        self._parent: dict[bytes, bytes] = {}
        self._ignored: set[bytes] = set()

    def form(self, units: Iterable[bytes]) -> list[bytes]:
        return [root for unit in units if (root := self._root(unit)) not in self._ignored]

    def join(self, one: bytes, other: bytes) -> None:
        first, second = sorted((self._root(one), self._root(other)))
        if first != second:
            self._parent[second] = first

    def ignore(self, unit: bytes) -> None:
        self._ignored.add(self._root(unit))

    def _root(self, unit: bytes) -> bytes:
        while (above := self._parent.get(unit, unit)) != unit:
            unit = above
        return unit
