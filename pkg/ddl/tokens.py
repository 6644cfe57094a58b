"""The tokenizer: MySQL's and MariaDB's lexical rules, with the offsets of every token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pkg.ddl.failure import parse_error

TokenKind = Literal["word", "name", "string", "number", "bits", "op", "end"]


class Token(NamedTuple):
    """``text`` is the source text; ``start``/``end`` are its offsets in characters. ``word`` is the word in upper case,
    '' for other tokens. Words with letters that no keyword has stay unchanged: some of these letters have a keyword's
    as their capitals. A *word* is a keyword or an unquoted name, a *name* a quoted one, *bits* a hex or bit literal in
    any form.
    """

    kind: TokenKind
    text: str
    start: int
    end: int
    word: str = ""


@dataclass(frozen=True, slots=True)
class SessionDefaults:
    """A session's defaults for incomplete definitions; None and '' where its event does not have them.

    ``explicit_timestamp`` is explicit_defaults_for_timestamp, ``utf8mb4_collation`` MySQL 8's collation for CHARACTER
    SET utf8mb4 without one (default_collation_for_utf8mb4), ``charset_collations`` MariaDB's for charsets
    (character_set_collations), ``server_collation`` the id of a new schema's (collation_server). ``if_exists``: MariaDB
    implied IF EXISTS (sql_if_exists).
    """

    explicit_timestamp: bool | None = None
    utf8mb4_collation: str = ""
    server_collation: int | None = None
    charset_collations: tuple[tuple[str, str], ...] = ()
    if_exists: bool = False

    def collation_of(self, charset: str) -> str:
        """The session's collation for a charset without one; '' when the server decides."""
        named = charset.lower()
        known = dict(self.charset_collations).get("utf8mb3" if named == "utf8" else named, "")
        return known or (self.utf8mb4_collation if named == "utf8mb4" else "")


#: A session without known settings.
NO_DEFAULTS = SessionDefaults()


@dataclass(frozen=True, slots=True)
class Dialect:
    """The settings that change how a text is parsed: some of the session's, and the family of the server that ran it.

    ``flavor`` is mysql, mariadb or '' (unknown: every executable comment counts as executed). ``version`` is the
    server's in the form of such comments (101106 for 10.11.6), 0 when unknown. ``folds_names``: that server keeps names
    of schemas and tables in lower case (``lower_case_table_names`` is not 0).
    """

    ansi_quotes: bool = False
    no_backslash_escapes: bool = False
    real_as_float: bool = False
    oracle: bool = False
    maxdb: bool = False
    flavor: str = ""
    version: int = 0
    folds_names: bool = False
    session: SessionDefaults = NO_DEFAULTS

    @classmethod
    def of(cls, sql_mode: str, flavor: str = "", version: tuple[int, int, int] | None = None) -> Dialect:
        modes = {mode.strip().upper() for mode in sql_mode.split(",")}
        # @@sql_mode lists the parts of the combined modes, but not when they are set in a configuration file.
        ansi = bool(modes & {"ANSI", "ORACLE", "MSSQL", "DB2", "MAXDB", "POSTGRESQL"})
        return cls(
            ansi_quotes=ansi or "ANSI_QUOTES" in modes,
            no_backslash_escapes="NO_BACKSLASH_ESCAPES" in modes,
            real_as_float="ANSI" in modes or "REAL_AS_FLOAT" in modes,
            oracle="ORACLE" in modes,
            maxdb="MAXDB" in modes,
            flavor=flavor,
            version=version[0] * 10000 + version[1] * 100 + version[2] if version else 0,
        )

    def under(self, sql_mode: str, session: SessionDefaults) -> Dialect:
        """The same server with another session."""
        other = Dialect.of(sql_mode, self.flavor)
        return replace(other, version=self.version, folds_names=self.folds_names, session=session)


#: A session of an unknown server with MySQL's default quoting.
DEFAULT_DIALECT = Dialect()

#: All characters between tokens, except comments. Unicode has more blanks: here they are letters of a name.
BLANKS = " \t\n\v\f\r"
_WORD = r"[\w$\u0080-\U0010ffff]+"
_TEMPLATE = r"""
  (?P<blank>\s+|--(?=[\x00-\x20\x7f]|\Z)[^\n]*|\#[^\n]*|/\*(?!M?!).*?\*/)
| (?P<open>/\*(?P<maria>M?)!(?P<version>\d{{5,6}})?)
| (?P<close>\*/)
| (?P<name>`[^`]*(?:``[^`]*)*`{ansi_name})
| (?P<string>{string})
| (?P<bits>[xXbB]'[0-9A-Fa-f]*'|0x[0-9A-Fa-f]+(?![\w$])|0b[01]+(?![\w$]))
| (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w$]))
| (?P<word>{word})
| (?P<op>[^\s`'"])
"""
# Runs of plain characters are read at once, so that megabytes of a literal cost milliseconds.
_ESCAPED = r"""{q}[^{q}\\]*(?:(?:\\.|{q}{q})[^{q}\\]*)*{q}"""
_PLAIN = r"""{q}[^{q}]*(?:{q}{q}[^{q}]*)*{q}"""


def _lexer(dialect: Dialect) -> re.Pattern[str]:
    form = _PLAIN if dialect.no_backslash_escapes else _ESCAPED
    strings = [form.format(q="'")] + ([] if dialect.ansi_quotes else [form.format(q='"')])
    ansi_name = "|" + _PLAIN.format(q='"') if dialect.ansi_quotes else ""
    text = _TEMPLATE.format(ansi_name=ansi_name, string="|".join(strings), word=_WORD)
    return re.compile(text, re.VERBOSE | re.DOTALL | re.ASCII)


_LEXERS = {
    (ansi, plain): _lexer(Dialect(ansi_quotes=ansi, no_backslash_escapes=plain))
    for ansi in (False, True)
    for plain in (False, True)
}
_BARE_WORD = re.compile(_WORD, re.ASCII)
# MariaDB ignores comments for versions that only MySQL has.
_MYSQL_ONLY = range(50700, 100000)


def tokenize(sql: str, dialect: Dialect) -> list[Token]:
    """All tokens, an ``end`` token last. Raises a 36067 error for an unclosed quote or comment."""
    tokens = list(_scan(sql, dialect))
    tokens.append(Token("end", "", len(sql), len(sql)))
    return tokens


def _scan(sql: str, dialect: Dialect) -> Iterator[Token]:
    lexer = _LEXERS[dialect.ansi_quotes, dialect.no_backslash_escapes]
    at = 0
    executing = 0
    previous = Token("op", "", -1, -1)
    while at < len(sql):
        match = lexer.match(sql, at)
        if match is None:
            raise parse_error(sql, at, "a quote or comment that is not closed")
        kind = match.lastgroup or ""
        if match["open"] is not None:
            skipped = _skipped_comment(match, dialect)
            at = _comment_end(sql, at) if skipped else match.end()
            executing += not skipped
            continue
        if kind == "close" and executing:
            executing -= 1
        elif kind != "blank":
            token = _token(kind, match, previous)
            yield token
            previous = token
            at = token.end
            continue
        at = match.end()
    if executing:
        raise parse_error(sql, len(sql), "a comment that is not closed")


def _skipped_comment(match: re.Match[str], dialect: Dialect) -> bool:
    version = int(match["version"] or 0)
    if match["maria"] and dialect.flavor == "mysql":
        return True
    if not match["maria"] and dialect.flavor == "mariadb" and version in _MYSQL_ONLY:
        return True
    return 0 < dialect.version < version


def _comment_end(sql: str, at: int) -> int:
    end = sql.find("*/", at)
    if end < 0:
        raise parse_error(sql, at, "a comment that is not closed")
    return end + 2


def _token(kind: str, match: re.Match[str], previous: Token) -> Token:
    text, start, end = match[0], match.start(), match.end()
    adjacent = previous.end == start
    if kind == "close":
        return Token("op", text[0], start, start + 1)
    if kind == "number" and adjacent and text[0] == "." and previous.kind in ("word", "name"):
        return Token("op", ".", start, start + 1)
    if kind == "number" and adjacent and previous.text == ".":
        # After "schema." a name may begin with a digit, or even consist of digits.
        word = _BARE_WORD.match(match.string, start)
        if word is not None:
            return _word(word[0], start)
    if kind == "word":
        return _word(text, start)
    return Token(kind, text, start, end)  # type: ignore[arg-type]


def _word(text: str, start: int) -> Token:
    return Token("word", text, start, start + len(text), text.upper() if text.isascii() else text)


def word_set(text: str) -> frozenset[str]:
    """The words of a text, for comparison with :attr:`Token.word`."""
    return frozenset(text.split())


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def name_value(token: Token) -> str:
    """The name in a ``word`` or ``name`` token."""
    if token.kind == "word":
        return token.text
    quote = token.text[0]
    return token.text[1:-1].replace(quote * 2, quote)


def string_value(token: Token, dialect: Dialect) -> str:
    """The content of a ``string`` token."""
    quote = token.text[0]
    body = token.text[1:-1]
    if dialect.no_backslash_escapes:
        return body.replace(quote * 2, quote)
    return re.sub(rf"\\(.)|{quote}{quote}", lambda m: _unescape(m[1]) if m[1] else quote, body, flags=re.DOTALL)


def _unescape(char: str) -> str:
    # \% and \_ keep their backslash: it has a meaning only in LIKE.
    return "\\" + char if char in "%_" else _ESCAPES.get(char, char)
