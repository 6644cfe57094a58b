"""Hazard: a statement of the corpus is parsed, classified or rewritten wrongly for one family of servers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkg.ddl import DDLStatement, parse, rewrite, split, split_alter
from pkg.ddl.statement import ChangeColumn, NoStructure
from pkg.errors import Code, DMError
from pkg.mysql.names import qualified, quote
from pkg.rules.binlog_filter.events import EVENT_TYPES
from tests.ddl_corpus import FLAVORS, Flavor, Line, cases, named_types, statements
from tests.sweeps import examples

_BY_STATEMENT = ("refused", "temporary")


def modes_of(flavor: Flavor) -> dict[str, str]:
    """Position of a line → the sql_mode that its session has there."""
    found: dict[str, str] = {}
    for case in cases():
        mode = ""
        for line in case.for_server(flavor):
            setting = re.fullmatch(r"SET sql_mode = '(.*)'", line.sql)
            mode = setting[1] if setting and line.expected == "session" else mode
            found[line.place] = mode
    return found


NEWEST: dict[Flavor, tuple[int, int, int]] = {"mariadb": (11, 8, 0), "mysql": (8, 4, 0)}
MODES = {flavor: modes_of(flavor) for flavor in FLAVORS}


def parsed(line: Line, flavor: Flavor) -> DDLStatement:
    mode = MODES[flavor][line.place]
    return parse(line.sql, sql_mode=mode, default_schema="d", flavor=flavor, version=NEWEST[flavor])


def lines(flavor: Flavor) -> list[Line]:
    """Those whose text is what the binlog holds, and understood."""
    return [
        line
        for line in statements(flavor)
        if not line.expected.startswith("logged as ") and line.expected not in _BY_STATEMENT
    ]


def test_the_corpus_is_as_large_as_it_has_to_be() -> None:
    for flavor in FLAVORS:
        assert len({line.sql for line in statements(flavor)}) >= 400
    refused = [line for flavor in FLAVORS for line in statements(flavor) if line.expected == "refused"]
    assert len({line.sql for line in refused}) <= 15


def test_every_event_type_that_a_mysql_statement_can_have_is_in_the_corpus() -> None:
    found = {name for flavor in FLAVORS for line in lines(flavor) for name in line.expected.split(" + ")}
    # What is written by its second name, and what only TiDB has.
    others = {"insert", "update", "delete"}
    others |= {"split table partition", "recover table", "alter ttl info", "alter ttl remove", "multi schema change"}
    assert EVENT_TYPES - found == others | {"create view", "drop view"}


@pytest.mark.parametrize("flavor", FLAVORS)
def test_types_that_need_no_structure(flavor: Flavor) -> None:
    for line in lines(flavor):
        statement = parsed(line, flavor)
        # What a change of a column is called depends on the column as it was; such a part may have no name of its own.
        if not any(isinstance(action, ChangeColumn) for action in statement.actions):
            # Nor does a statement tell which index is unique.
            expected = line.expected.replace("drop unique key", "drop index")
            assert " + ".join(named_types(statement)) == expected, f"{line.place}: {line.sql}"


@pytest.mark.parametrize("flavor", FLAVORS)
def test_what_is_refused_stops_with_the_text_the_location_and_a_way_out(flavor: Flavor) -> None:
    for line in statements(flavor):
        if line.expected == "refused":
            with pytest.raises(DMError) as caught:
                parsed(line, flavor)
            assert caught.value.kind is Code.SyncerParseDDL, line.place
            assert line.sql in caught.value.message
            assert caught.value.workaround


NAMES = st.text(min_size=1, max_size=6).filter(lambda name: "\0" not in name)
REWRITTEN = [(flavor, line) for flavor in FLAVORS for line in lines(flavor) if line.expected != "skip"]


@given(st.sampled_from(REWRITTEN), NAMES, NAMES)
@settings(max_examples=examples(150))
def test_rewriting_changes_names_and_guards_alone(which: tuple[Flavor, Line], schema: str, table: str) -> None:
    flavor, line = which
    statement = parsed(line, flavor)
    again = rewrite(statement, lambda s, t: (schema, t and table), target_flavor=flavor)
    names = "|".join(map(re.escape, (qualified(schema, table), quote(schema))))
    marks = [(ref.start, ref.end, f"(?:{names}) ?") for ref in statement.refs]
    marks += [(start, end, "") for start, end in statement.cuts]
    # Not every server knows DROP INDEX IF EXISTS.
    guarded = statement.guard >= 0 and (statement.kind != "drop index" or flavor == "mariadb")
    marks += [(statement.guard, statement.guard, "IF (?:NOT )?EXISTS ")] if guarded else []
    pattern, at = "", 0
    for start, end, text in sorted(marks):
        pattern += re.escape(line.sql[at:start]) + text
        at = end
    assert re.fullmatch(pattern + re.escape(line.sql[at:]), again, re.DOTALL), (line.place, again)


def subjects(statement: DDLStatement) -> list[tuple[str, str]]:
    return [(ref.schema, ref.table) for ref in statement.refs if ref.role == "subject"]


@pytest.mark.parametrize("flavor", FLAVORS)
def test_parts_are_statements_of_their_own(flavor: Flavor) -> None:
    """Each is understood, about one table or pair, and they have the whole's actions in order."""
    for line in lines(flavor):
        whole = parsed(line, flavor)
        if whole.temporary:
            continue  # it has names, and nothing for the target
        parts = split(whole)
        assert [name for part in parts for name in subjects(part)] == subjects(whole), line.place
        assert all(len(subjects(part)) <= 1 for part in parts), line.place
        steps = split_alter(whole)
        if len(steps) > 1:
            done = [a for step in steps for a in step.actions if not (isinstance(a, NoStructure) and a.modifier)]
            wanted = [a for a in whole.actions if not (isinstance(a, NoStructure) and a.modifier)]
            assert [type(a) for a in done] == [type(a) for a in wanted], line.place
