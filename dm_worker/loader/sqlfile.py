"""Statements of a dump file: where they end, and what they are. Pure but for reading the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal

from pkg import errors

StatementKind = Literal["rows", "session", "skip"]
#: First read, in bytes; doubled while a statement does not end.
_PIECE = 1 << 20
#: A statement larger than this is taken for a broken file.
_MAX_STATEMENT = 1 << 30

# A statement up to its semicolon. Each alternative matches in one way only, and the lookahead keeps what it matched
# (Python 3.11.2, Debian's, has possessive quantifiers that match wrongly): a piece that stops within a string or a
# comment fails at once. A comment's or string's start alone never matches: its end may lie in the next piece.
_PLAIN = rb"""[^'"`;/\#-]*"""
_COMMENT = rb"/\*[^*]*(?:\*(?!/)[^*]*)*\*/"
_SPECIAL = rb"""(?:'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'(?!') | "[^"\\]*(?:(?:\\.|"")[^"\\]*)*"(?!") | `[^`]*`
       | --(?=[\s\x00])[^\n]*\n | \#[^\n]*\n | %(comment)s | -(?=[^-]) | --(?=[^\s\x00]) | /(?=[^*]))"""
_STATEMENT = re.compile(
    rb"(?=(%(plain)s(?:%(special)s%(plain)s)*))\1;" % {b"plain": _PLAIN, b"special": _SPECIAL % {b"comment": _COMMENT}},
    re.DOTALL | re.VERBOSE,
)
_BLANK = re.compile(
    rb"(?:\s+|--(?:[\s\x00][^\n]*)?(?:\n|\Z)|\#[^\n]*(?:\n|\Z)|(?!/\*M?!)" + _COMMENT + rb")*", re.DOTALL
)
_NAME = rb"(?:`((?:[^`]|``)+)`|([\w$\x80-\xff]+))"
_INSERT = re.compile(
    rb"(INSERT|REPLACE)\s+(?:IGNORE\s+)?(?:INTO\s+)?(?:" + _NAME + rb"\s*\.\s*)?" + _NAME, re.IGNORECASE
)
_SESSION = re.compile(rb"(?:/\*M?!\d*\s*)?SET\s", re.IGNORECASE)
#: mysqldump's hints to the server; those that would end a transaction must not be sent within one.
_HINT = re.compile(
    rb"(?:LOCK|UNLOCK)\s+TABLES|/\*!\d*\s*ALTER\s+TABLE\s.*(?:DISABLE|ENABLE)\s+KEYS\s*\*/", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Statement:
    """``text`` without its semicolon; ``end`` is the offset behind it, ``head`` the length of INSERT INTO <table>."""

    kind: StatementKind
    text: bytes
    end: int
    head: int = 0
    table: str = ""


def read_statements(file: BinaryIO, offset: int, name: str) -> Iterator[Statement]:
    """The statements from ``offset`` (0 or an earlier ``end``) on, holding about one of them in memory.

    Raises DMError 34006 for a statement that is none of a data file's, or that the file breaks off.
    """
    file.seek(offset)
    buffer = b""
    pos, ask = 0, _PIECE
    while True:
        match = _STATEMENT.match(buffer, pos)
        if match is not None:
            ask = _PIECE
            yield _classify(buffer[pos : match.end() - 1], offset + match.end(), name)
            pos = match.end()
            continue
        data = file.read(ask)
        if not data:
            break
        offset += pos
        buffer = buffer[pos:] + data
        pos, ask = 0, min(2 * ask, _MAX_STATEMENT)
        if len(buffer) > _MAX_STATEMENT:
            raise _broken(name, offset, "a statement is larger than 1 GiB")
    rest = buffer[pos:]
    if _blank(rest) < len(rest):
        raise _broken(name, offset + pos, "the file ends within a statement")


def _blank(text: bytes) -> int:
    """How many bytes of white space and plain comments ``text`` begins with."""
    match = _BLANK.match(text)
    return match.end() if match else 0


def _classify(text: bytes, end: int, name: str) -> Statement:
    text = text[_blank(text) :]
    match = _INSERT.match(text)
    if match is not None:
        quoted, plain = match[4], match[5]
        table = quoted.replace(b"``", b"`") if quoted is not None else plain
        return Statement("rows", text, end, match.end(), table.decode())
    if _SESSION.match(text):
        return Statement("session", text, end)
    if not text or _HINT.match(text):
        return Statement("skip", text, end)
    raise _broken(name, end, f"{text[:60].decode(errors='replace')!r} is neither INSERT, REPLACE nor SET")


def first_statement(text: str) -> str:
    """A schema file's CREATE statement, without session statements and the semicolon; '' when it has none."""
    data = text.encode()
    pos = 0
    while pos < len(data):
        match = _STATEMENT.match(data, pos)
        end = match.end() - 1 if match else len(data)
        statement = data[pos:end]
        statement = statement[_blank(statement) :]
        if statement and not _SESSION.match(statement):
            return statement.decode().strip()
        pos = end + 1
    return ""


def _broken(name: str, offset: int, why: str) -> errors.DMError:
    return errors.new(
        "LoadUnitParseStatement",
        f"cannot read dump file {name} at byte {offset}: {why}",
        workaround="Check that the file is a whole data file of dumpling or mydumper; otherwise dump again.",
    )
