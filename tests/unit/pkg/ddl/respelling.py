"""The corpus beside another spelling of it: both mean the same to the schema tracker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pkg import ddl
from pkg.errors import DMError
from pkg.schema_tracker import SchemaTracker, ServerDefaults
from tests.ddl_corpus import Flavor, Line, cases
from tests.unit.pkg.ddl.test_corpus_texts import parsed


@dataclass(frozen=True, slots=True)
class Respelt:
    """A line of the corpus, its other spelling, and the trackers that follow the one and the other."""

    line: Line
    statement: ddl.DDLStatement
    text: str
    before: SchemaTracker
    after: SchemaTracker


def respelt(flavor: Flavor, server: ServerDefaults, spell: Callable[[ddl.DDLStatement], str]) -> Iterator[Respelt]:
    """Every statement that is understood. Asserts that the other spelling has the same effect, and stays as it is."""
    for case in cases():
        before, after = SchemaTracker(server), SchemaTracker(server)
        for line in case.for_server(flavor):
            try:
                statement = parsed(line, flavor)
            except DMError:
                continue
            text = spell(statement)
            again = ddl.parse_dialect(text, statement.dialect, statement.default_schema)
            assert spell(again) == text, line.place
            assert (again.kind, again.tables) == (statement.kind, statement.tables), line.place
            assert _outcome(before, statement) == _outcome(after, again), (line.place, text)
            yield Respelt(line, statement, text, before, after)


def _outcome(tracker: SchemaTracker, statement: ddl.DDLStatement) -> int:
    """The code of the error, 0 for none."""
    try:
        tracker.apply(statement)
    except DMError as exc:
        return exc.code
    return 0
