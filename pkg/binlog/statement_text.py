"""A statement's text from the bytes that a client sent. Pure.

The server finds tokens in the bytes by the rules of the session's charset, and then converts their content. Later
readers and the target know only Unicode's rules: so blanks that only this charset has become spaces, and symbols that
are letters in this charset become letters where the server treats them as letters.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from pkg.binlog.charsets import decode_text

#: Bits of sql_mode that determine where a quote ends.
_ANSI_QUOTES: Final = 1 << 2
_NO_BACKSLASH_ESCAPES: Final = 1 << 20
#: Charsets with a no-break space that their servers' lexers treat as a blank. In others it is part of a name.
BLANK_NBSP: Final = frozenset(
    {"armscii8", "cp1250", "cp852", "cp866", "dec8", "geostd8", "greek", "hebrew", "keybcs2"}
    | {"latin1", "latin2", "latin5", "latin7"}
)
_ESCAPED = r"{q}[^{q}\\]*(?:(?:\\.|{q}{q})[^{q}\\]*)*{q}"
_PLAIN = r"{q}[^{q}]*(?:{q}{q}[^{q}]*)*{q}"
_COMMENT = r"--(?=[\s\x00-\x1f\x7f\xa0]|\Z)[^\n]*|\#[^\n]*|/\*(?!M?!).*?\*/"
#: Symbols in an unquoted name that are letters in swe7; the server leaves the name unchanged.
_SWE7_NAME = r"[\w$]*[\[\]^{}~][\w$\[\]^{}~]*"
_ESCAPES = re.compile(r"\\(.)|[^\\]+", re.DOTALL)


def statement_text(data: bytes, charset: str, sql_mode: int) -> str:
    """The statement in Unicode, as the server understood it. Raises 11054 for bytes that are invalid in ``charset``."""
    modes = sql_mode & (_ANSI_QUOTES | _NO_BACKSLASH_ESCAPES)
    if charset == "swe7":
        return _swe7_tokens(modes).sub(lambda found: _from_swe7(found, modes), decode_text(data, "ascii"))
    text = decode_text(data, charset)
    if charset not in BLANK_NBSP or "\xa0" not in text:
        return text
    return _blanks(modes).sub(lambda found: found["kept"] or " ", text)


#: Charsets in which the byte of an ASCII quote or backslash may be the end of another character.
_ASCII_AS_TRAIL: Final = frozenset({"big5", "cp932", "gb18030", "gbk", "sjis"})


def outline(data: bytes, charset: str) -> str:
    """The certain part of a statement that is invalid in its charset: ASCII, and U+FFFD for each other byte; '' where
    ASCII bytes may have another meaning."""
    return "" if charset in _ASCII_AS_TRAIL else data.decode("ascii", "replace")


@cache
def _quotes(modes: int) -> tuple[str, str]:
    """The forms of a literal and of a quoted name."""
    form = _PLAIN if modes & _NO_BACKSLASH_ESCAPES else _ESCAPED
    literals, names = [form.format(q="'")], [_PLAIN.format(q="`")]
    if modes & _ANSI_QUOTES:
        names.append(_PLAIN.format(q='"'))
    else:
        literals.append(form.format(q='"'))
    return "|".join(literals), "|".join(names)


@cache
def _blanks(modes: int) -> re.Pattern[str]:
    return re.compile(f"(?P<kept>{'|'.join(_quotes(modes))}|{_COMMENT})|\xa0", re.DOTALL)


@cache
def _swe7_tokens(modes: int) -> re.Pattern[str]:
    literal, name = _quotes(modes)
    # A literal with an introducer is in that charset.
    kept = rf"(?P<kept>{_COMMENT}|_\w+\s*(?:{literal}))"
    form = f"{kept}|(?P<literal>{literal})|(?P<name>{name})|(?P<bare>{_SWE7_NAME})"
    return re.compile(form, re.DOTALL | re.ASCII)


def _from_swe7(found: re.Match[str], modes: int) -> str:
    text = found[0]
    if found["bare"]:
        return f"`{text}`"
    if found["kept"]:
        return text
    quote, body = text[0], text[1:-1]
    if found["literal"] and not modes & _NO_BACKSLASH_ESCAPES:
        return f"{quote}{_ESCAPES.sub(_unescaped_swe7, body)}{quote}"
    inner = body.replace(quote * 2, quote)
    # A backtick is a letter here, and no quote.
    return f"{quote}{_letters(inner) if quote == '`' else _letters(inner).replace(quote, quote * 2)}{quote}"


def _unescaped_swe7(found: re.Match[str]) -> str:
    escaped = found[1]
    if escaped is None:
        return _letters(found[0])
    if escaped == "\\":
        return _letters(escaped)
    # The backslash of \% and \_ stands for itself: it is a letter.
    return _letters(found[0]) if escaped in "%_" else f"\\{_letters(escaped)}"


def _letters(text: str) -> str:
    return decode_text(text.encode("ascii"), "swe7")
