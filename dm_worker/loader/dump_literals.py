"""Literals of dump files in the forms that column mapping accepts: dump tools write more forms. Pure."""

from __future__ import annotations

import re

from pkg.binlog.charsets import decode_text
from pkg.mysql.literal_text import unquoted
from pkg.rules.column_mapping import Affix, Transform

#: Sessions with these charsets write Unicode text unchanged.
UTF8 = frozenset({"utf8mb4", "utf8", "utf8mb3"})
_STRING = re.compile(rb"""(?:_binary\s*)?(?P<quote>['"])(?P<inner>.*)(?P=quote)""", re.DOTALL | re.IGNORECASE)
_QUOTED_PART = re.compile(rb"""\\(.)|''|""|'""", re.DOTALL)


def plain_literal(literal: bytes, transform: Transform, charset: str, *, text_by_bytes: bool = True) -> bytes:
    """A dump file's literal in a form that the transform accepts; dump tools write more forms than the row decoder.

    ``charset`` is the session's, the charset of its strings. Without ``text_by_bytes`` the target takes only UTF-8
    text. Raises 11054 for bytes that are invalid in their charset, which matters only in that case.
    """
    if literal[:1] not in b"'\"_nN":
        return literal
    if literal.upper() == b"NULL":
        return b"NULL"
    match = _STRING.fullmatch(literal)
    if match is None:
        return literal
    quote = match["quote"]
    if literal[:1] == b"_":
        return b"x'%b'" % unquoted(match["inner"], quote).hex().encode()
    if isinstance(transform, Affix) and charset not in UTF8:
        raw = unquoted(match["inner"], quote)
        # After SET NAMES binary a column takes the bytes unchanged: they are in its own charset.
        written = transform.charset if charset == "binary" else charset
        if not text_by_bytes and written not in UTF8 | {"", "binary"}:
            written, raw = "utf8mb4", decode_text(raw, written).encode()
        return b"_%b x'%b'" % (written.encode(), raw.hex().encode())
    return literal if quote == b"'" else b"'%b'" % _requoted(match["inner"])


def _requoted(inner: bytes) -> bytes:
    """The content of a string in double quotes, for one in single quotes."""

    def meant(part: re.Match[bytes]) -> bytes:
        if part[0] == b'""':
            return b'"'
        return part[0].replace(b"'", b"''") if part[1] is None else part[0]

    return _QUOTED_PART.sub(meant, inner)
