"""Tables of every type, each as key, unique key and plain column, with and without a key, and what is done to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.local.mysql import SQLServer
from tests.tidb.types import CASES, TypeCase

#: So that every value gets in, and floats and zero dates stay what they are.
_SESSION = ("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+00:00'",)
#: Columns of one wide table.
_WIDTH = 20


@dataclass(frozen=True, slots=True)
class ValueTable:
    """A table, in the upstream's words and in the target's; ``columns`` are names and cases."""

    name: str
    here: str
    there: str
    columns: Sequence[tuple[str, TypeCase]]


def tables(flavor: str) -> list[ValueTable]:
    cases = [case for case in CASES if case.only in ("", flavor)]
    found = [_alone(f"{kind}_{case.name}", case, kind) for case in cases if case.key for kind in ("p", "u")]
    for first in range(0, len(cases), _WIDTH):
        part = [(f"c_{case.name}", case) for case in cases[first : first + _WIDTH]]
        found += [_wide(f"i_{first}", part, "PRIMARY KEY (id)"), _wide(f"n_{first}", part, "KEY (id)")]
    return found


def _wide(name: str, part: Sequence[tuple[str, TypeCase]], key: str) -> ValueTable:
    here = ", ".join(f"{column} {case.here}" for column, case in part)
    there = ", ".join(f"{column} {case.target}" for column, case in part)
    return ValueTable(name, f"id INT NOT NULL, x INT, {here}, {key}", f"id INT NOT NULL, x INT, {there}, {key}", part)


def _alone(name: str, case: TypeCase, kind: str) -> ValueTable:
    def body(type_: str) -> str:
        if kind == "p":
            return f"v {type_.removesuffix(' NULL')} NOT NULL, n INT, PRIMARY KEY ({case.key})"
        return f"n INT PRIMARY KEY, v {type_}, UNIQUE KEY k ({case.key})"

    return ValueTable(name, body(case.here), body(case.target), [("v", case)])


def create(server: SQLServer, schema: str, made: Sequence[ValueTable], *, target: bool) -> None:
    server.execute(
        f"CREATE DATABASE {schema} CHARACTER SET utf8mb4",
        f"USE {schema}",
        *_SESSION,
        *(f"CREATE TABLE {one.name} ({one.there if target else one.here})" for one in made),
    )


def fill(server: SQLServer, schema: str, made: Sequence[ValueTable]) -> None:
    """Each value in a row of its own."""
    server.execute(f"USE {schema}", *_SESSION, *(text for one in made for text in _inserts(one)))


def _inserts(table: ValueTable, offset: int = 0) -> Iterator[str]:
    (name, case), *others = table.columns
    if not others and name == "v":
        rows = (f"({value},{n})" for n, value in enumerate(case.values, offset))
        yield f"INSERT IGNORE INTO {table.name} (v, n) VALUES {','.join(rows)}"
        if table.name.startswith("u_"):
            yield f"INSERT INTO {table.name} (v, n) VALUES (NULL, {offset + 100})"
        return
    longest = max(len(case.values) for _, case in table.columns)
    for n in range(longest):
        values = ",".join(case.values[n % len(case.values)] for _, case in table.columns)
        yield f"INSERT INTO {table.name} VALUES ({offset + n},0,{values})"
    yield f"INSERT INTO {table.name} (id) VALUES ({offset + 100})"


def change(server: SQLServer, schema: str, made: Sequence[ValueTable]) -> None:
    """Updates, deletes, changed keys, and rows that go and come again within one batch."""
    server.execute(f"USE {schema}", *_SESSION, *(text for one in made for text in _changes(one)))


def _changes(table: ValueTable) -> Iterator[str]:
    name, kind = table.name, table.name[0]
    if kind in "in":
        # Other values in all columns, by way of the rows that have them.
        moved = ",".join(f"a.{column} = b.{column}" for column, _ in table.columns)
        yield f"UPDATE {name} a JOIN {name} b ON b.id = a.id + 1 SET a.x = 1, {moved} WHERE a.id % 3 = 0"
        yield f"DELETE FROM {name} WHERE id % 5 = 1"
        yield f"CREATE TEMPORARY TABLE aside SELECT * FROM {name} WHERE id % 5 = 2"
        yield f"DELETE FROM {name} WHERE id % 5 = 2"
        yield f"INSERT INTO {name} SELECT * FROM aside"
        yield "DROP TEMPORARY TABLE aside"
        yield f"UPDATE {name} SET x = 7 WHERE id % 5 = 3"
        return
    if kind == "p":
        yield f"UPDATE {name} SET n = n + 1000 WHERE n % 2 = 1"
        yield f"DELETE FROM {name} WHERE n % 3 = 2"
    else:
        yield f"UPDATE {name} SET v = NULL WHERE n = 1"
        yield f"DELETE FROM {name} WHERE n = 2"
    value = table.columns[0][1].values[0]
    yield f"DELETE FROM {name} WHERE n = 0"
    yield f"INSERT IGNORE INTO {name} (v, n) VALUES ({value}, 5000)"
    yield f"UPDATE {name} SET n = n + 200 WHERE n = 100 OR n = 3"


def differences(upstream: SQLServer, target: SQLServer, schema: str, made: Sequence[ValueTable]) -> list[str]:
    """What each server says of tables that differ."""
    found = []
    one, other = upstream.connect(database=schema), target.connect(database=schema)
    try:
        for table in made:
            here, there = _rows(one, table), _rows(other, table)
            if here != there:
                cells = [
                    (case.name, one[0], one[i], other[i])
                    for one, other in zip(here, there, strict=False)
                    for i, (_, case) in enumerate(table.columns, 1)
                    if one[0] == other[0] and one[i] != other[i]
                ]
                found.append(f"{table.name}: {len(here)} and {len(there)} rows, {ascii(cells or (here, there))[:600]}")
    finally:
        one.close()
        other.close()
    return found


def _rows(conn: Any, table: ValueTable) -> list[tuple[Any, ...]]:
    number = "n" if table.columns[0][0] == "v" else "id * 10000 + x"
    shown = [f"{case.read.replace('v', name, 1) if name != 'v' else case.read}" for name, case in table.columns]
    with conn.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT {number}, {', '.join(shown)} FROM {table.name}")
        rows = [
            (row[0], *(_plain(value, case) for value, (_, case) in zip(row[1:], table.columns, strict=True)))
            for row in cursor.fetchall()
        ]
    return sorted(rows, key=repr)


def _plain(value: Any, case: TypeCase) -> Any:
    if value is None:
        return None
    if case.json:
        return repr(json.loads(value))
    if isinstance(value, float):
        # TiDB has no negative zero.
        return (value + 0.0).hex()
    return str(value)
