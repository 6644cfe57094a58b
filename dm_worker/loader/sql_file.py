"""Reads the statements of a dump file, with their ends and kinds. No I/O except for reading the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal

from pkg import errors
from pkg.errors import Code
from pkg.native import load

FileStatementKind = Literal["rows", "session", "skip"]
#: Bytes per read; for a larger statement, a quarter of the part that was read.
_PIECE = 1 << 20
#: A larger statement counts as a broken file.
_MAX_STATEMENT = 1 << 30

# A statement up to its semicolon. Each alternative matches in one way only, and the lookahead keeps what it matched
# (Python 3.11.2, Debian's, has possessive quantifiers that match wrongly): a piece that stops within a string or a
# comment fails at once. A comment's or string's start alone never matches: its end may lie in the next piece.
_PLAIN = rb"""[^'"`;/\#-]*"""
_COMMENT = rb"/\*[^*]*(?:\*(?!/)[^*]*)*\*/"
#: Parts of a statement in which a separator does not count.
SPECIAL = rb"""(?:'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'(?!') | "[^"\\]*(?:(?:\\.|"")[^"\\]*)*"(?!") | `[^`]*`
       | --(?=[\s\x00])[^\n]*\n | \#[^\n]*\n | %(comment)s | -(?=[^-]) | --(?=[^\s\x00]) | /(?=[^*]))""" % {
    b"comment": _COMMENT
}
_STATEMENT = re.compile(
    rb"(?=(%(plain)s(?:%(special)s%(plain)s)*))\1;" % {b"plain": _PLAIN, b"special": SPECIAL},
    re.DOTALL | re.VERBOSE,
)
#: A comment for version 99.99.99 runs nowhere: mariadb-dump's files begin with one.
_BLANK = re.compile(
    rb"(?:\s+|--(?:[\s\x00][^\n]*)?(?:\n|\Z)|\#[^\n]*(?:\n|\Z)|(?!/\*M?!(?!999999))" + _COMMENT + rb")*", re.DOTALL
)
_NAME = rb"(?:`((?:[^`]|``)+)`|([\w$\x80-\xff]+))"
_PLAIN_NAME = rb"`(?:[^`]|``)+`|[\w$\x80-\xff]+"
#: The text between an INSERT's table and its rows. Group 1 is the column list, if there is one.
BEFORE_ROWS = re.compile(rb"\s*(?:\(((?:\s*(?:%b)\s*,?)+)\)\s*)?VALUES?\s*(?=\()" % _PLAIN_NAME, re.IGNORECASE)
_COLUMN = re.compile(_PLAIN_NAME)
_INSERT = re.compile(
    rb"(INSERT|REPLACE)\s+(?:IGNORE\s+)?(?:INTO\s+)?(?:" + _NAME + rb"\s*\.\s*)?" + _NAME, re.IGNORECASE
)
_SESSION = re.compile(rb"(?:/\*M?!\d*\s*)?SET\s", re.IGNORECASE)
#: mysqldump's hints to the server; some would end a transaction and must not be sent within one.
_HINT = re.compile(
    rb"(?:LOCK|UNLOCK)\s+TABLES|/\*!\d*\s*ALTER\s+TABLE\s.*(?:DISABLE|ENABLE)\s+KEYS\s*\*/", re.IGNORECASE | re.DOTALL
)


def _python_statement_end(text: bytes | bytearray, start: int) -> int:
    """The index of the semicolon that ends the statement at ``start``, -1 without one."""
    match = _STATEMENT.match(text, start)
    return match.end() - 1 if match else -1


_NATIVE = load("sqlscan")
_statement_end = _python_statement_end if _NATIVE is None else _NATIVE.statement_end


@dataclass(frozen=True, slots=True)
class FileStatement:
    """``text`` without its semicolon; ``end`` is the offset after it, ``head`` the length of INSERT INTO <table>.

    The text is a view of the reader's memory: it is valid until the next statement is read.
    """

    kind: FileStatementKind
    text: memoryview
    end: int
    head: int = 0
    table: str = ""


def read_statements(file: BinaryIO, offset: int, name: str) -> Iterator[FileStatement]:
    """The statements from ``offset`` (0 or an earlier ``end``) on, with at most 1.5 times one of them in memory.

    Raises DMError 34006 for a statement that does not belong in a data file, or an incomplete one.
    """
    file.seek(offset)
    buffer = bytearray()
    pos = 0
    while True:
        stop = _statement_end(buffer, pos)
        if stop >= 0:
            statement = _classify(buffer, pos, stop, offset, name)
            yield statement
            statement.text.release()
            pos = stop + 1
            continue
        offset += pos
        del buffer[:pos]
        pos = 0
        data = file.read(max(_PIECE, len(buffer) // 4))
        if not data:
            break
        buffer += data
        del data
        if len(buffer) > _MAX_STATEMENT:
            raise _broken(name, offset, "a statement is larger than 1 GiB")
    if _blank(buffer, 0, len(buffer)) < len(buffer):
        raise _broken(name, offset, "the file ends within a statement")


def _blank(text: bytes | bytearray, start: int, stop: int) -> int:
    """The end of the white space and plain comments in ``text`` from ``start`` on."""
    match = _BLANK.match(text, start, stop)
    return match.end() if match else start


def _classify(buffer: bytearray, start: int, stop: int, offset: int, name: str) -> FileStatement:
    """The statement from ``start`` to ``stop`` in the buffer, which begins at ``offset`` of the file."""
    start, end = _blank(buffer, start, stop), offset + stop + 1
    text = memoryview(buffer)[start:stop]
    match = _INSERT.match(buffer, start, stop)
    if match is not None:
        quoted, plain = match[4], match[5]
        table = quoted.replace(b"``", b"`") if quoted is not None else plain
        return FileStatement("rows", text, end, match.end() - start, table.decode())
    if _SESSION.match(buffer, start, stop):
        return FileStatement("session", text, end)
    if start == stop or _HINT.match(buffer, start, stop):
        return FileStatement("skip", text, end)
    raise _broken(
        name, end, f"{bytes(text[:60]).decode(errors='replace')!r} is not an INSERT, REPLACE or SET statement"
    )


def first_statement(text: str) -> str:
    """A schema file's CREATE statement, without session statements and the semicolon; '' when it has none."""
    data = text.encode()
    pos = 0
    while pos < len(data):
        found = _statement_end(data, pos)
        end = found if found >= 0 else len(data)
        statement = data[_blank(data, pos, end) : end]
        if statement and not _SESSION.match(statement):
            return statement.strip().decode()
        pos = end + 1
    return ""


def column_names(listed: bytes) -> list[str]:
    """The names in a column list, unquoted."""
    names = (name.decode("utf-8", "replace") for name in _COLUMN.findall(listed))
    return [name[1:-1].replace("``", "`") if name[0] == "`" else name for name in names]


def column_list(names: Iterable[str]) -> bytes:
    """The names as a column list."""
    return b",".join(b"`%b`" % name.replace("`", "``").encode() for name in names)


def _broken(name: str, offset: int, why: str) -> errors.DMError:
    return errors.new(
        Code.LoadUnitParseStatement,
        f"cannot read dump file {name} at byte {offset}: {why}",
        workaround="Check that the file is a complete data file of dumpling or mydumper; otherwise dump again.",
    )
