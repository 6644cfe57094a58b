"""Values in the forms of the server, written from their descriptions."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

_PACKED = {0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 6: 3, 7: 4, 8: 4, 9: 4}


def pack_decimal(text: str, precision: int, scale: int) -> bytes:
    """The server's encoding, written from its description."""
    negative, digits = text.startswith("-"), text.lstrip("-").replace(".", "")
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    out = b""
    head = len(whole) % 9
    for part in ([whole[:head]] if head else []) + [whole[i : i + 9] for i in range(head, len(whole), 9)]:
        out += int(part).to_bytes(_PACKED[len(part)], "big")
    for part in [fraction[i : i + 9] for i in range(0, len(fraction), 9)]:
        out += int(part).to_bytes(_PACKED[len(part)], "big")
    out = bytes([out[0] ^ 0x80]) + out[1:]
    return bytes(byte ^ 0xFF for byte in out) if negative else out


_INLINE_SMALL, _INLINE_LARGE = (4, 5, 6), (4, 5, 6, 7, 8)


def _length(number: int) -> bytes:
    out = b""
    while True:
        low, number = number & 0x7F, number >> 7
        if not number:
            return out + bytes([low])
        out += bytes([low | 0x80])


def _scalar(value: Any) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return 4, bytes([{None: 0, True: 1, False: 2}[value]])
    if isinstance(value, str):
        return 12, _length(len(value.encode())) + value.encode()
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    for kind, form, low, high in (
        (5, "<h", -(1 << 15), (1 << 15) - 1), (7, "<i", -(1 << 31), (1 << 31) - 1), (9, "<q", -(1 << 63), (1 << 63) - 1)
    ):  # fmt: skip
        if low <= value <= high:
            return kind, struct.pack(form, value)
    return 10, struct.pack("<Q", value)


def _encode(value: Any, large: bool) -> tuple[int, bytes]:
    """The server's encoding, written from its description; ``large`` uses 4-byte offsets."""
    if not isinstance(value, (dict, list)):
        return _scalar(value)
    width, form = (4, "<I") if large else (2, "<H")
    keys = sorted(value, key=lambda key: (len(key.encode()), key.encode())) if isinstance(value, dict) else []
    items = [value[key] for key in keys] if isinstance(value, dict) else value
    head = 2 * width + len(keys) * (width + 2) + len(items) * (1 + width)
    heap, key_part, value_part = b"", b"", b""
    for key in keys:
        key_part += struct.pack(form, head + len(heap)) + struct.pack("<H", len(key.encode()))
        heap += key.encode()
    for item in items:
        kind, body = _encode(item, large)
        if kind in (_INLINE_LARGE if large else _INLINE_SMALL):
            value_part += bytes([kind]) + body.ljust(width, b"\0")
        else:
            value_part += bytes([kind]) + struct.pack(form, head + len(heap))
            heap += body
    size = head + len(heap)
    kind = (1 if large else 0) if isinstance(value, dict) else (3 if large else 2)
    return kind, struct.pack(form, len(items)) + struct.pack(form, size) + key_part + value_part + heap


def encoded_document(value: Any, large: bool) -> bytes:
    kind, body = _encode(value, large)
    return bytes([kind]) + body


keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


def opaque(kind: int, value: bytes) -> bytes:
    return bytes([15, kind]) + _length(len(value)) + value


def _array_of(values: list[bytes]) -> bytes:
    """Values that are kept after the entries."""
    at, entries, heap = 4 + 3 * len(values), b"", b""
    for value in values:
        entries += value[:1] + struct.pack("<H", at + len(heap))
        heap += value[1:]
    return bytes([2]) + struct.pack("<HH", len(values), at + len(heap)) + entries + heap


TYPED = _array_of(
    [
        opaque(246, bytes([10, 2]) + pack_decimal("-00000123.40", 10, 2)),
        opaque(246, bytes([3, 0]) + pack_decimal("007", 3, 0)),
        opaque(12, struct.pack("<q", ((2024 * 13 + 2) << 5 | 29) << 41 | (23 << 12 | 59 << 6 | 58) << 24 | 5)),
        opaque(10, struct.pack("<q", ((2024 * 13 + 12) << 5 | 31) << 41)),
        opaque(11, struct.pack("<q", -((8 << 12 | 7 << 6 | 6) << 24 | 500000))),
        bytes([12, 7]) + b"it's \\\"",
        bytes([11]) + struct.pack("<d", 2.0),
        encoded_document({"ä'": None, "t": True}, False),
    ]
)
TYPED_SCALAR = opaque(246, bytes([3, 1]) + pack_decimal("01.5", 3, 1))
