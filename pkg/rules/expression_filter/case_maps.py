"""Case and weight of characters in both servers' utf8mb4_general_ci and latin1_swedish_ci.

``case_maps.bin`` has six maps, one after the other, compressed together. Each holds only the differences from the
character itself: the number of characters, two bytes a character, then two bytes a difference (modulo 65536), all
little-endian. They were read from WEIGHT_STRING, LOWER and UPPER of a real server, and tests compare them with one
(``tests/unit/pkg/rules/expression_filter/collation_data.py`` writes them).
Characters beyond U+FFFF all have the weight of U+FFFD, and no case.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from importlib import resources


def _maps(packed: bytes) -> Iterator[dict[int, int]]:
    raw = zlib.decompress(packed)
    at = 0
    while at < len(raw):
        (count,) = struct.unpack_from("<H", raw, at)
        numbers = struct.unpack_from(f"<{2 * count}H", raw, at + 2)
        pairs = zip(numbers[:count], numbers[count:], strict=True)
        yield {one: (one + delta) & 0xFFFF for one, delta in pairs}
        at += 2 + 4 * count


class _GeneralWeights(dict[int, int]):
    """For ``str.translate``: maps all characters beyond U+FFFF to one."""

    def __missing__(self, key: int) -> int:
        if key > 0xFFFF:
            return 0xFFFD
        raise LookupError(key)


_GENERAL, LOWER, UPPER, LATIN1_WEIGHTS, LATIN1_LOWER, LATIN1_UPPER = _maps(
    resources.files(__package__).joinpath("case_maps.bin").read_bytes()
)
#: For ``str.translate``; the latin1 maps need strings whose characters are the bytes.
GENERAL_WEIGHTS: dict[int, int] = _GeneralWeights(_GENERAL)
