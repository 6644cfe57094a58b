"""The server's packed decimals (nine digits in four bytes) as exact text. Pure."""

from __future__ import annotations

from collections.abc import Callable

#: Left-over digits → the bytes that they take.
_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_size(precision: int, scale: int) -> int:
    """How many bytes DECIMAL(precision, scale) takes."""
    whole = precision - scale
    return whole // 9 * 4 + _BYTES[whole % 9] + scale // 9 * 4 + _BYTES[scale % 9]


def decimal_decoder(precision: int, scale: int) -> Callable[[bytes], bytes]:
    """A function from the packed bytes to text such as ``-12.50``."""
    groups = _groups(precision, scale)
    size = decimal_size(precision, scale)
    sign_bit = 1 << (8 * size - 1)
    ones = (1 << (8 * size)) - 1
    unit = 10**scale

    def decode(raw: bytes) -> bytes:
        value = int.from_bytes(raw, "big") ^ sign_bit
        # The sign bit is flipped so that bytes compare like numbers; negative ones are inverted as a whole.
        negative = bool(value & sign_bit)
        if negative:
            value ^= ones
        number = 0
        for shift, mask, factor in groups:
            number += (value >> shift & mask) * factor
        sign = b"-" if negative else b""
        if not scale:
            return b"%b%d" % (sign, number)
        whole, fraction = divmod(number, unit)
        return b"%b%d.%0*d" % (sign, whole, scale, fraction)

    return decode


def _groups(precision: int, scale: int) -> list[tuple[int, int, int]]:
    """Shift, mask and decimal factor of every group of digits."""
    whole = precision - scale
    widths = ([whole % 9] if whole % 9 else []) + [9] * (whole // 9) + [9] * (scale // 9)
    widths += [scale % 9] if scale % 9 else []
    bits, digits = 8 * decimal_size(precision, scale), precision
    groups = []
    for width in widths:
        length = 8 * _BYTES[width]
        bits -= length
        digits -= width
        groups.append((bits, (1 << length) - 1, 10**digits))
    return groups
