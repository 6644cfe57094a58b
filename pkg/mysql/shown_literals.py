"""String literals in SHOW CREATE TABLE's output that the server cannot or does not show exactly. Pure.

MySQL and MariaDB keep this output in three-byte UTF-8: a longer character of a default, a comment, or an ENUM or SET
member is shown as ``?``. It contains defaults of binary columns as raw bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pkg.mysql.names import quote_string

_TOKEN = re.compile(rb"`((?:[^`]|``)*)`|'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(rb"\\(.)|''", re.DOTALL)
_ESCAPES = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"Z": b"\x1a"}


def doubtful_defaults(shown: bytes) -> list[str]:
    """The columns whose default may have a character that is shown as ``?``."""
    return [name for name, token in _defaults(shown) if b"?" in token[2] and _is_text(token[2])]


def as_text(shown: bytes, defaults: Mapping[str, str] | None = None) -> str:
    """The statement, which creates the same table. ``defaults``: the real defaults of columns."""
    known = defaults or {}
    replaced = {token.start(): known[name] for name, token in _defaults(shown) if name in known}

    def written(token: re.Match[bytes]) -> bytes:
        if token.start() in replaced:
            return quote_string(replaced[token.start()]).encode()
        if token[2] is None or _is_text(token[2]):
            return token[0]
        return b"x'" + _unescaped(token[2]).hex().encode() + b"'"

    return _TOKEN.sub(written, shown).decode()


def _defaults(shown: bytes) -> Iterator[tuple[str, re.Match[bytes]]]:
    """Each column's default that is a literal, with the column's name. A column has its own line."""
    name, end = "", 0
    for token in _TOKEN.finditer(shown):
        between = shown[end : token.start()]
        if between.endswith(b"\n  "):
            name = token[1].replace(b"``", b"`").decode()
        elif token[2] is not None and between.endswith(b" DEFAULT "):
            yield name, token
        end = token.end()


def _is_text(literal: bytes) -> bool:
    try:
        literal.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unescaped(literal: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]) if found[1] else b"'", literal)
