"""The value of an SQL literal, in the forms that row decoders and dump tools write. Pure."""

from __future__ import annotations

import re
from binascii import unhexlify
from dataclasses import dataclass

_FORM = re.compile(
    rb"""(?:_(?P<charset>\w+)\s*)?(?:
        (?P<quote>['"])(?P<inner>.*)(?P=quote)
        | x'(?P<hex>[0-9a-f]*)' | 0x(?P<digits>[0-9a-f]+) | b'(?P<bits>[01]*)'
    )|(?P<bare>[-+.0-9e]+)""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_QUOTED_PART = re.compile(rb"""\\(.)|''|""|'""", re.DOTALL)
_ESCAPED = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a"}
_TOKEN = re.compile(rb"'(?:[^'\\]|\\.)*'|[(),]|[^'(),]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LiteralText:
    """The bytes of a literal; ``charset``: that of its introducer, '' for the session's."""

    data: bytes
    charset: str = ""


def literal_text(literal: bytes) -> LiteralText | None:
    """None for NULL. Raises ``ValueError`` for an expression."""
    if literal.upper() == b"NULL":
        return None
    match = _FORM.fullmatch(literal)
    if match is None:
        raise ValueError("not a plain literal")
    charset = (match["charset"] or b"").decode("ascii", "replace").lower()
    if match["bare"] is not None:
        return LiteralText(literal)
    if match["quote"] is not None:
        return LiteralText(unquoted(match["inner"], match["quote"]), charset)
    if match["bits"] is not None:
        return LiteralText(b"%d" % int(match["bits"] or b"0", 2))
    digits = match["hex"] if match["hex"] is not None else match["digits"]
    return LiteralText(unhexlify(digits if len(digits) % 2 == 0 else b"0" + digits), charset)


def unquoted(inner: bytes, quote: bytes) -> bytes:
    """The bytes of a string literal; ``\\%`` and ``\\_`` keep their backslash."""

    def meant(part: re.Match[bytes]) -> bytes:
        escaped = part[1]
        if escaped is None:
            return part[0][:1] if part[0] == quote * 2 else part[0]
        return b"\\" + escaped if escaped in b"%_" else _ESCAPED.get(escaped, escaped)

    return _QUOTED_PART.sub(meant, inner)


def split_tuple(row: bytes) -> list[bytes]:
    """The literals of an SQL tuple from the row decoder, or of a list of them without parentheses."""
    inner = row[1:-1] if row[:1] == b"(" else row
    found: list[list[bytes]] = [[]]
    depth = 0
    for token in _TOKEN.findall(inner):
        if token == b"," and depth == 0:
            found.append([])
            continue
        depth += (token == b"(") - (token == b")")
        found[-1].append(token)
    return [b"".join(parts) for parts in found]
