"""The corpus: statements that change tables, with what must become of them. See ``README.md`` beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pkg.ddl import DDLStatement
from pkg.mysql.schema import TableInfo
from pkg.rules.binlog_filter.classify import event_types, spec_types

Flavor = Literal["mariadb", "mysql"]
Version = tuple[int, int, int]
FLAVORS: tuple[Flavor, ...] = ("mariadb", "mysql")
#: Lines of these kinds prepare the session or the rows; they are no statements of the corpus.
PREPARATIONS = frozenset({"session", "charset", "rows"})

_LINE = re.compile(r"(?:\[([^\]]+)\] )?([a-z +]+): (.*)", re.DOTALL)
_TITLE = re.compile(r"(.*?)(?: \[([^\]]+)\])?")
_VERSION = r"(\d+)\.(\d+)(?:\.(\d+))?"
_MARK = re.compile(rf"(mariadb|mysql)(?: {_VERSION})?(?: before {_VERSION})?")
_FIRST: Version = (0, 0, 0)
_NEVER: Version = (1000, 0, 0)


@dataclass(frozen=True, slots=True)
class Mark:
    """Who knows a statement: families of servers, each from a version on and up to the one that no longer does."""

    known: tuple[tuple[str, Version, Version], ...] = (("mariadb", _FIRST, _NEVER), ("mysql", _FIRST, _NEVER))

    def allows(self, flavor: Flavor, version: Version | None = None) -> bool:
        """Whether that server knows it; some version of the family when none is given."""
        return any(name == flavor and (version is None or first <= version < end) for name, first, end in self.known)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a case. ``expected`` is what stands before the colon; ``place`` is file:line."""

    expected: str
    sql: str
    mark: Mark
    place: str

    @property
    def counts(self) -> bool:
        return self.expected not in PREPARATIONS


@dataclass(frozen=True, slots=True)
class Case:
    """Statements that follow each other, beginning in an empty schema."""

    title: str
    group: str
    mark: Mark
    lines: tuple[Line, ...]

    def for_server(self, flavor: Flavor, version: Version | None = None) -> list[Line]:
        if not self.mark.allows(flavor, version):
            return []
        return [line for line in self.lines if line.mark.allows(flavor, version)]


@cache
def cases() -> tuple[Case, ...]:
    """All cases, in the order of the files' names."""
    return tuple(case for path in sorted(Path(__file__).parent.glob("*.txt")) for case in _read(path))


def statements(flavor: Flavor) -> Iterator[Line]:
    """All statements that some version of that family knows."""
    return (line for case in cases() for line in case.for_server(flavor) if line.counts)


def named_types(statement: DDLStatement, before: TableInfo | None = None, after: TableInfo | None = None) -> list[str]:
    """How the corpus writes the event types of a statement's parts: each by its last name, the plain ones left out."""
    if statement.kind == "alter table":
        parts = [spec_types(statement, spec, before, after) for spec in statement.specs]
        return [types[-1] for types in parts if types != ("alter table",)] or ["alter table"]
    return [(event_types(statement, before, after) or ("skip",))[-1]]


def _read(path: Path) -> Iterator[Case]:
    title, mark = "", Mark()
    lines: list[Line] = []
    for number, text in _logical_lines(path):
        place = f"{path.name}:{number}"
        if not text.startswith("== "):
            lines.append(_line(text, place))
            continue
        if title:
            yield Case(title, path.stem, mark, tuple(lines))
        found = _TITLE.fullmatch(text[3:])
        assert found is not None, f"{place}: {text}"
        title, mark, lines = found[1], _mark(found[2], place), []
    yield Case(title, path.stem, mark, tuple(lines))


def _logical_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with those that continue them, which are indented; without comments and empty ones."""
    held: list[str] = []
    start = 0
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if text.startswith("  "):
            held.append(text[2:])
            continue
        if held:
            yield start, "\n".join(held)
        held, start = ([text], number) if text and not text.startswith("#") else ([], number)
    if held:
        yield start, "\n".join(held)


def _line(text: str, place: str) -> Line:
    found = _LINE.fullmatch(text)
    assert found is not None, f"{place}: neither a statement nor a title: {text}"
    return Line(found[2], found[3], _mark(found[1], place), place)


def _mark(text: str | None, place: str) -> Mark:
    """``mariadb 10.6, mysql 5.7 before 8.0.11`` → the families and their versions."""
    if text is None:
        return Mark()
    found = [_MARK.fullmatch(each) for each in text.split(", ")]
    assert all(found), f"{place}: [{text}] is no server"
    return Mark(
        tuple(
            (each[1], _version(each.groups()[1:4], _FIRST), _version(each.groups()[4:], _NEVER))
            for each in found
            if each
        )
    )


def _version(numbers: tuple[str | None, ...], otherwise: Version) -> Version:
    major, minor, patch = numbers
    return otherwise if major is None else (int(major), int(minor or 0), int(patch or 0))
