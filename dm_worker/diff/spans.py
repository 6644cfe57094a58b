"""Converts ranges of keys into text for the state table, and keys into text for operators. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dm_worker.comparison.outcome import Difference
from dm_worker.comparison.pair import KeyRange

#: A key is shown up to this many characters.
_SHOWN = 200


def span_of(key_range: KeyRange) -> str:
    """The text from which :func:`range_of` reads the range."""
    ends = [_texts(key_range.lower), _texts(key_range.upper)]
    return json.dumps([*ends, [_texts(point) for point in key_range.points]] if key_range.points else ends)


def range_of(span: str) -> KeyRange:
    lower, upper, *points = json.loads(span)
    return KeyRange(_literals(lower), _literals(upper), *(tuple(map(_literals, found)) for found in points))


def key_text(difference: Difference, *, redact: bool = False) -> str:
    """The kind and the key of a row; of a row without a key, its values, unless they are to be hidden."""
    values = difference.key or (() if redact else difference.upstream or difference.target or ())
    text = f"{difference.kind.value} ({', '.join(readable(value) for value in values)})"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def readable(literal: bytes) -> str:
    """A literal as text: its bytes are those of a character set, or escaped where they are not UTF-8."""
    return literal.decode("utf-8", "backslashreplace")


def _texts(literals: Sequence[bytes]) -> list[str]:
    return [literal.decode("latin-1") for literal in literals]


def _literals(texts: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(text.encode("latin-1") for text in texts)
