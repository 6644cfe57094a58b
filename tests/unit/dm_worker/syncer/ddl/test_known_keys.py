"""Hazards: a key that a statement has changed stays unnoticed; a statement has all tables of a server read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.ddl.known_keys import ANY_TABLE, SHARE, KnownKeys, TableKeys
from pkg.mysql.names import TableId
from pkg.mysql.schema import ForeignKey

#: What it takes to read all (seconds).
TOOK = 3.0


def key(child: TableId, parent: TableId) -> ForeignKey:
    return ForeignKey(child, ("p",), parent, ("id",), acts=False)


class Server:
    """Tables with their keys, and a clock that runs while all of them are read."""

    def __init__(self, *, folds: bool = False) -> None:
        self.tables: dict[TableId, list[ForeignKey]] = {}
        self.folds = folds
        self.now = 0.0
        self.full = 0
        self.asked: list[set[TableId]] = []
        self.broken = False

    def folds_names(self) -> bool:
        return self.folds

    def everything(self, known: Collection[TableId]) -> TableKeys:
        self.full += 1
        self.now += TOOK
        return {table: list(keys) for table, keys in self.tables.items()}

    def some(self, tables: Collection[TableId]) -> TableKeys:
        if self.broken:
            raise ConnectionError
        self.asked.append(set(tables))
        there = ((table, self.spelled(table)) for table in tables)
        return {table: list(self.tables[own]) for table, own in there if own in self.tables}

    def spelled(self, table: TableId) -> TableId:
        """The server's own spelling of a name."""
        return next((own for own in self.tables if self.folds and folded(own) == folded(table)), table)

    # -- what statements do ---------------------------------------------------------------------------------------

    def rename(self, old: TableId, new: TableId) -> None:
        self.tables[new] = [replace(one, child=new) for one in self.tables.pop(old)]
        for keys in self.tables.values():
            keys[:] = [replace(one, parent=new) if one.parent == old else one for one in keys]

    def drop_schema(self, schema: str) -> None:
        for table in [table for table in self.tables if table[0] == schema]:
            del self.tables[table]


def folded(table: TableId) -> TableId:
    return table[0].lower(), table[1].lower()


names = st.tuples(st.sampled_from(["d", "E"]), st.sampled_from(["a", "B"]))
statements = st.lists(
    st.tuples(
        st.sampled_from(["create", "create", "drop", "alter", "rename", "rename", "drop schema"]),
        *(names, names, names),
        st.booleans(),
    ),
    max_size=30,
)


@given(statements, st.booleans())
def test_what_is_known_is_what_the_server_has(
    script: list[tuple[str, TableId, TableId, TableId, bool]], folds: bool
) -> None:
    server = Server(folds=folds)
    known = KnownKeys(server, lambda: server.now)
    known.read()
    for what, table, other, parent, reads in script:
        named = [table]
        if what == "create" and table not in server.tables:
            server.tables[table] = [key(table, parent)]
            named.append(parent)
        elif what == "drop":
            server.tables.pop(table, None)
        elif what == "alter" and table in server.tables:
            server.tables[table] = [key(table, parent), key(table, other)]
        elif what == "rename" and table in server.tables and other not in server.tables:
            server.rename(table, other)
            named.append(other)
        elif what == "drop schema":
            server.drop_schema(table[0])
            named = [(table[0], "")]
        # A statement may write names differently than the server.
        known.changed([(schema.swapcase(), name.swapcase()) for schema, name in named] if folds else named)
        if reads:
            check(known, server)
    check(known, server)


def check(known: KnownKeys, server: Server) -> None:
    spelled = folded if server.folds else lambda table: table
    assert known.read() == {spelled(table): keys for table, keys in server.tables.items()}
    assert all(known.has(table) for table in server.tables)
    assert not known.has(("d", "z"))


def with_tables(count: int) -> tuple[Server, KnownKeys]:
    server = Server()
    server.tables = {("d", f"t{n}"): [] for n in range(count)}
    server.tables["d", "c"] = [key(("d", "c"), ("d", "p"))]
    known = KnownKeys(server, lambda: server.now)
    known.read()
    return server, known


def test_a_statement_has_only_its_tables_read_and_those_with_keys_to_them() -> None:
    server, known = with_tables(1000)
    known.changed([("d", "p"), ("d", "t1")])
    known.read()
    known.read()
    assert (server.full, server.asked) == (1, [{("d", "p"), ("d", "t1"), ("d", "c")}])


def test_all_is_read_again_where_that_takes_a_small_share_of_the_time() -> None:
    server, known = with_tables(10)
    server.tables["d", "made by hand"] = []
    server.now += TOOK / SHARE - 1
    known.changed([("d", "t1")])
    assert ("d", "made by hand") not in known.read()
    server.now += 1
    known.changed([("d", "t1")])
    assert ("d", "made by hand") in known.read()


@pytest.mark.parametrize("named", [[ANY_TABLE], [("d", "")], [("d", f"t{n}") for n in range(60)]])
def test_all_is_read_where_that_takes_less_than_one_by_one(named: list[TableId]) -> None:
    server, known = with_tables(100)
    known.changed(named)
    known.read()
    assert (server.full, server.asked) == (2, [])


def test_what_could_not_be_read_is_read_the_next_time() -> None:
    server, known = with_tables(10)
    del server.tables["d", "t1"]
    known.changed([("d", "t1")])
    server.broken = True
    with pytest.raises(ConnectionError):
        known.read()
    server.broken = False
    assert ("d", "t1") not in known.read()


def test_nothing_is_asked_before_the_first_reading() -> None:
    server = Server()
    KnownKeys(server).changed([ANY_TABLE])
    assert (server.full, server.asked) == (0, [])
