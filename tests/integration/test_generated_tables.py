"""Whatever table the upstream has and whatever it writes there: the decoded rows are the same bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from tests.integration.binlog_replay import apply_changes, checksum, decode, events_between, here
from tests.integration.sql_values import value_for

S = TypeVar("S", bound=SQLServer)
_TEXT = ("utf8mb4", "utf8", "latin1", "gbk", "ascii", "ucs2", "big5", "sjis", "cp1251", "utf16")


@st.composite
def kinds(draw: st.DrawFn, flavor: str) -> str:
    """The SQL of one column type."""
    family = draw(st.sampled_from(_FAMILIES + (_ONLY_MARIADB if flavor == "mariadb" else ())))
    if family == "integer":
        width = draw(st.sampled_from(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")))
        return width + draw(st.sampled_from(("", " UNSIGNED", "(4) UNSIGNED ZEROFILL", "(20)")))
    if family == "decimal":
        precision = draw(st.integers(1, 65))
        scale = draw(st.integers(0, min(30, precision)))
        return f"DECIMAL({precision},{scale})" + draw(st.sampled_from(("", " UNSIGNED")))
    if family == "float":
        return draw(st.sampled_from(("FLOAT", "DOUBLE", "FLOAT(7,3)", "DOUBLE(15,4)")))
    if family == "bit":
        return f"BIT({draw(st.integers(1, 64))})"
    if family == "moment":
        return f"{draw(st.sampled_from(('TIME', 'DATETIME', 'TIMESTAMP')))}({draw(st.integers(0, 6))})"
    if family == "text":
        size = draw(st.sampled_from((1, 5, 63, 64, 85, 86, 127, 128, 255)))
        word = draw(
            st.sampled_from((f"CHAR({size})", f"VARCHAR({size})", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"))
        )
        return f"{word} CHARACTER SET {draw(st.sampled_from(_TEXT))}"
    if family == "bytes":
        size = draw(st.sampled_from((1, 7, 254, 255)))
        return draw(
            st.sampled_from((f"BINARY({size})", f"VARBINARY({size + 1})", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"))
        )
    if family == "members":
        word, most = draw(st.sampled_from((("ENUM", 300), ("SET", 64))))
        members = ",".join(f"'m{n}'" for n in range(draw(st.integers(1, most))))
        return f"{word}({members})"
    return family


_FAMILIES = ("integer", "decimal", "float", "bit", "moment", "text", "bytes", "members", "YEAR", "DATE", "GEOMETRY")
_ONLY_MARIADB = ("JSON", "UUID", "INET6", "INET4", "VARCHAR(300) COMPRESSED CHARACTER SET utf8mb4", "BLOB COMPRESSED")


#: Columns with their types and whether they may be NULL, a source of values, the number of rows.
Table = tuple[dict[str, tuple[str, bool]], Random, int]


@st.composite
def tables(draw: st.DrawFn, flavor: str) -> Table:
    made = draw(st.lists(st.tuples(kinds(flavor), st.booleans()), min_size=1, max_size=14))
    columns = {f"c{n}": column for n, column in enumerate(made)}
    return columns, Random(draw(st.integers(0, 1 << 32))), draw(st.integers(1, 8))


def _value(kind: str, nullable: bool, rnd: Random) -> str:
    while (value := value_for(kind, rnd)) == "NULL" and not nullable:
        pass
    return value


def _write(server: SQLServer, number: int, table: Table) -> None:
    columns, rnd, count = table
    body = ", ".join(f"{name} {kind} {'NULL' if null else 'NOT NULL'}" for name, (kind, null) in columns.items())

    def row() -> dict[str, str]:
        return {name: _value(kind, null, rnd) for name, (kind, null) in columns.items()}

    source = f"g.src{number}"
    names = ", ".join(("id", *columns))
    rows = ", ".join(f"({n}, {', '.join(row().values())})" for n in range(count))
    updates = (
        f"UPDATE {source} SET {', '.join(f'{name} = {value}' for name, value in row().items())} WHERE id = {n}"
        for n in range(0, count, 2)
    )
    server.execute(
        "SET SESSION sql_mode='ALLOW_INVALID_DATES', time_zone='-03:30'",
        f"DROP TABLE IF EXISTS {source}, g.dst{number}",
        f"CREATE TABLE {source} (id INT PRIMARY KEY, {body}) ENGINE=MyISAM",
        f"CREATE TABLE g.dst{number} LIKE {source}",
        f"INSERT INTO {source} ({names}) VALUES {rows}",
        *updates,
        f"UPDATE {source} SET id = id + 100 WHERE id % 3 = 0",
        f"DELETE FROM {source} WHERE id = 1",
    )


def _round_trip(server: SQLServer, made: list[Table]) -> None:
    """Several tables at once, for reading the binlog costs more than writing it."""
    start = here(server)
    for number, table in enumerate(made):
        _write(server, number, table)
    events = events_between(server, start, here(server).position)
    conn = server.connect()
    for number, (columns, *_) in enumerate(made):
        decoded = decode(server, events, "g", f"src{number}", key=[0])
        apply_changes(conn, f"g.dst{number}", ["id", *columns], ["id"], decoded.changes)
        assert checksum(conn, f"g.src{number}") == checksum(conn, f"g.dst{number}"), columns
    conn.close()


_FEW = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def maria(_mariadb_upstream: MariaDBServer) -> Iterator[MariaDBServer]:
    yield _with_schema(_mariadb_upstream)
    _mariadb_upstream.execute("SET GLOBAL binlog_row_metadata=DEFAULT")
    _mariadb_upstream.wipe()


@pytest.fixture(scope="module")
def mysql(_mysql_upstream: MySQLServer) -> Iterator[MySQLServer]:
    yield _with_schema(_mysql_upstream)
    _mysql_upstream.wipe()


def _with_schema(server: S) -> S:
    if not server.running():
        server.start()
    server.wipe()
    server.execute("CREATE DATABASE g")
    return server


@given(st.lists(tables("mariadb"), min_size=3, max_size=6), st.sampled_from(("NO_LOG", "MINIMAL", "FULL")))
@_FEW
def test_any_table_of_mariadb(maria: MariaDBServer, made: list[Table], metadata: str) -> None:
    maria.execute(f"SET GLOBAL binlog_row_metadata={metadata}")
    _round_trip(maria, made)


@given(st.lists(tables("mysql"), min_size=3, max_size=6))
@_FEW
def test_any_table_of_mysql(mysql: MySQLServer, made: list[Table]) -> None:
    _round_trip(mysql, made)
