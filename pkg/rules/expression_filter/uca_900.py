"""Weights of characters in MySQL 8's utf8mb4_0900_ai_ci: the first level of Unicode's collation in version 9.0.

``uca_900.bin`` has them, read from WEIGHT_STRING of a real server; tests compare them with one
(``tests/unit/pkg/rules/expression_filter/collation_data.py`` writes it).
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from pkg.mysql.collation_weights import NEAR, TAGS, CollationWeights, weights


class _UcaWeights(dict[int, str]):
    """For ``str.translate``: a character's weights, each as a character; empty for an ignored character."""

    def __missing__(self, key: int) -> str:
        self[key] = "".join(map(chr, _units(key)))
        return self[key]


def _units(point: int) -> tuple[int, ...]:
    if point >= NEAR and point not in TAGS:
        # Unassigned and private characters, each with its own weight.
        return 0xFBC0 + (point >> 15), point & 0x7FFF | 0x8000
    raw = _table()[NEAR + point - TAGS.start if point >= NEAR else point]
    return tuple(int.from_bytes(raw[i : i + 2], "big") for i in range(0, len(raw), 2))


@cache
def _table() -> tuple[bytes, ...]:
    packed = resources.files(__package__).joinpath("uca_900.bin").read_bytes()
    return weights(CollationWeights("utf8mb4_0900_ai_ci", packed))


class _Letters(dict[int, int]):
    """For ``str.translate``: one character for all with the same weight."""

    def __init__(self) -> None:
        super().__init__()
        self._first: dict[str, int] = {}

    def __missing__(self, key: int) -> int:
        self[key] = self._first.setdefault(WEIGHTS[key], key)
        return self[key]


WEIGHTS = _UcaWeights()
LETTERS = _Letters()
