"""Hazard: MySQL's JSON documents lose the SQL types of their values in a dump, or what it logs of an update in part is
applied as another update.

The oracle is the server: what its binlog or its rows become must be what it has.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.local.mysql import MySQLServer
from deploy.local.process import up
from dm_worker.dumper.insert_statements import statements
from dm_worker.dumper.json_types import TypedDocuments
from dm_worker.table_reads.column_literals import introducer_of, kind_of, select_expression
from dm_worker.table_reads.row_stream import stream
from pkg.binlog import constants as c
from pkg.mysql.schema import Column
from tests.harness.versions import MYSQL_TRIED
from tests.integration.binlog_replay import SESSION, apply_changes, decode, events_between, here

VERSIONS = [version for version in MYSQL_TRIED if version >= "8"]
KEYS = ["a", "b", "key", "k 1", 'q"uote', "it's", "é", "日本", "", "$", "a.b", "[0]", "back\\slash", "x" * 70, "\t"]
_TYPED = ["CAST('12.50' AS DECIMAL(9,3))", "CAST('2024-02-29' AS DATE)", "CAST('-12:13:14.5' AS TIME(6))",
          "CAST('2024-02-29 01:02:03.000004' AS DATETIME(6))", "CAST(18446744073709551615 AS UNSIGNED)",
          "1.5e0", "1e300", "TRUE", "NULL", "-32769", "70000", "''", "'é日😀'", "REPEAT('y', 300)",
          "JSON_ARRAY(CAST('7.0' AS DECIMAL(3,1)), 1)"]  # fmt: skip


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[MySQLServer]:
    one = MySQLServer(version=request.param, extra=["--binlog-row-value-options=PARTIAL_JSON"])
    with up(one):
        yield one


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _document(rnd: random.Random, depth: int = 0) -> Any:
    kind = rnd.randrange(9 if depth < 4 else 6)
    if kind >= 6 or depth == 0:
        if kind % 2:
            return {key: _document(rnd, depth + 1) for key in rnd.sample(KEYS, rnd.randrange(6))}
        return [_document(rnd, depth + 1) for _ in range(rnd.randrange(6))]
    scalars = [None, True, rnd.randrange(-9, 9), rnd.randrange(-(2**62), 2**62), rnd.random(), "t" * rnd.randrange(200)]
    return scalars[kind]


def _path(rnd: random.Random, document: Any) -> str:
    """A place in the document, or near one."""
    path = "$"
    while True:
        if isinstance(document, dict):
            key = rnd.choice([*document, rnd.choice(KEYS)])
            path += "." + json.dumps(key, ensure_ascii=False)
            document = document.get(key)
        elif isinstance(document, list):
            number = rnd.randrange(len(document) + 2)
            last = f"last-{number}" if number else "last"
            path += f"[{number}]" if rnd.random() < 0.7 else f"[{last}]"
            document = document[number] if number < len(document) else None
        if not isinstance(document, (dict, list)) or rnd.random() < 0.3:
            return path


def _changed(rnd: random.Random, column: str, document: Any) -> str:
    """An expression that MySQL may log in part."""
    expression = column
    for _ in range(rnd.randrange(1, 4)):
        places = [_quoted(path) for path in (_path(rnd, document) for _ in range(rnd.randrange(1, 3))) if path != "$"]
        places = places or [_quoted("$.a")]
        if rnd.random() < 0.3:
            expression = f"JSON_REMOVE({expression}, {', '.join(places)})"
            continue
        name = rnd.choice(["JSON_SET", "JSON_SET", "JSON_REPLACE"])
        value = rnd.choice([*_TYPED, f"CAST({_quoted(json.dumps(_document(rnd)))} AS JSON)"])
        expression = f"{name}({expression}, {', '.join(f'{place}, {value}' for place in places)})"
    return expression


def _write(server: MySQLServer, seed: int) -> None:
    rnd = random.Random(seed)
    conn = server.connect()
    with conn.cursor() as cursor:
        documents = [_document(rnd) for _ in range(40)]
        for number, document in enumerate(documents):
            text = _quoted(json.dumps(document, ensure_ascii=False))
            cursor.execute(f"INSERT INTO d.src VALUES ({number}, {text}, 'x', {text}, NULL, 1.5)")
        for turn in range(400):
            number = rnd.randrange(len(documents))
            cursor.execute(f"SELECT j, k FROM d.src WHERE id = {number}")
            first, second = (json.loads(text) if text else None for text in cursor.fetchone())
            sets = []
            if turn % 5:
                sets.append(f"j = {_changed(rnd, 'j', first)}")
            if turn % 3 == 0:
                sets.append(f"k = {_changed(rnd, 'k', second)}")
            if turn % 11 == 0:
                sets.append(rnd.choice(["k = NULL", "l = j", "l = CAST('[1, 2]' AS JSON)", "v = CONCAT(v, 'y')"]))
            where = "id" if turn % 20 else "id + 1 - 1"
            cursor.execute(f"UPDATE d.src SET {', '.join(sets) or 'n = n + 1'} WHERE {where} = {number}")
            if turn % 11 == 1:
                cursor.execute("UPDATE d.src SET k = '[]' WHERE k IS NULL")
        cursor.execute(f"UPDATE d.src SET j = {_changed(rnd, 'j', {})} WHERE JSON_TYPE(j) = 'OBJECT'")
    conn.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_updates_in_part_give_the_rows_that_the_server_has(server: MySQLServer, seed: int) -> None:
    server.wipe()
    table = "(id INT PRIMARY KEY, j JSON, v VARCHAR(500), k JSON, l JSON, n DOUBLE)"
    server.execute("CREATE DATABASE d", f"CREATE TABLE d.src {table}", f"CREATE TABLE d.dst {table}")
    start = here(server)
    _write(server, seed)
    events = events_between(server, start, here(server).position)
    assert sum(event.type == c.PARTIAL_UPDATE_ROWS_EVENT for event in events) > 200
    decoded = decode(server, events, "d", "src", key=[0])
    conn = server.connect()
    apply_changes(conn, "d.dst", ["id", "j", "v", "k", "l", "n"], ["id"], decoded.changes)
    conn.close()
    # The images before are the server's own, and say what the update before them must have made.
    known: dict[bytes, list[bytes]] = {}
    for _, before, after in decoded.images:
        assert before is None or before == known[before[0]]
        assert after is not None
        known[after[0]] = after
    shown = "SELECT id, CAST(j AS CHAR), v, CAST(k AS CHAR), CAST(l AS CHAR), n FROM d.{} ORDER BY id"
    assert server.execute(SESSION, shown.format("dst")) == server.execute(SESSION, shown.format("src"))
    types = "SELECT id, JSON_TYPE(j), JSON_STORAGE_SIZE(CAST(CAST(j AS CHAR) AS JSON)) FROM d.{} ORDER BY id"
    assert server.execute(types.format("dst")) == server.execute(types.format("src"))


def _types(statement: bytes) -> bytes:
    """An expression for a document without the precision of its decimals, which their text does not tell."""
    return re.sub(rb"DECIMAL\(\d+,", b"DECIMAL(", statement)


@pytest.mark.parametrize("backslash", [True, False])
def test_a_dump_keeps_the_types_of_all_values(server: MySQLServer, backslash: bool) -> None:
    server.wipe()
    server.execute("CREATE DATABASE d", "CREATE TABLE d.src (id INT, j JSON)", "CREATE TABLE d.dst LIKE d.src")
    rnd = random.Random(7)
    start = here(server)
    rows = ["NULL", "'null'", "'{}'", "'[]'", *(f"JSON_EXTRACT(JSON_ARRAY({value}), '$[0]')" for value in _TYPED)]
    for _ in range(200):
        document = _document(rnd)
        text = f"CAST({_quoted(json.dumps(document))} AS JSON)"
        rows.append(_changed(rnd, text, document) if rnd.random() < 0.8 else text)
    server.execute(*(f"INSERT INTO d.src VALUES ({number}, {row})" for number, row in enumerate(rows)))
    columns = [Column("id", "int", "int"), Column("j", "json", "json")]
    plain = statements(
        [kind_of(column, json_types=True) for column in columns],
        [introducer_of(column, json_types=True) for column in columns],
        b"INSERT INTO d.dst VALUES\n",
        20_000,
        backslash=backslash,
    )
    consumer = TypedDocuments(plain, backslash=backslash)
    conn = server.connect()
    fields = ",".join(select_expression(column, json_types=True) for column in columns)
    pieces = [piece for found, _ in stream(conn, f"SELECT {fields} FROM d.src", lambda _: consumer) for piece in found]
    written_text = b"".join(piece for _, piece in pieces + consumer.finish())
    with conn.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = %s", ("" if backslash else "NO_BACKSLASH_ESCAPES",))
        for one in written_text.split(b";\n")[:-1]:
            cursor.execute(one)
    conn.close()
    events = events_between(server, start, here(server).position)
    read, written = (
        {after[0]: _types(after[1]) for _, _, after in decode(server, events, "d", name, key=[0]).images if after}
        for name in ("src", "dst")
    )
    assert written == read
    assert len(read) == len(rows)
    assert sum(b"CAST(" in literal for literal in read.values()) > 80
