"""The time of a DDL on servers with many tables: rows in other tables come between two statements.

Work that grows with the number of tables would show as the time of many statements.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from deploy.local.mysql import SQLServer
from tests.bench.binlog import end_of_binlog
from tests.bench.figures import Figure
from tests.bench.rig import Rig
from tests.bench.workloads import SCHEMA

#: Tables that get a row between two statements.
_ACTIVE = 100


def run(rig: Rig, tables: int, statements: int) -> None:
    start_tables(rig.source, tables)
    start_tables(rig.target, tables)
    start = end_of_binlog(rig.source)
    with rig.syncing(start) as running:
        begin = time.monotonic()
        rig.source.execute(*(f"INSERT INTO {SCHEMA}.t{n} VALUES (0)" for n in range(tables)))
        running.wait_synced()
        first = time.monotonic() - begin
        begin = time.monotonic()
        for number, statement in enumerate(_ddl(statements), 1):
            some = ((number * _ACTIVE + n) % tables for n in range(_ACTIVE))
            rig.source.execute(statement, *(f"INSERT INTO {SCHEMA}.t{n} VALUES ({number})" for n in some))
            running.wait_synced()
        seconds = (time.monotonic() - begin) / statements
    rig.check((f"{SCHEMA}.c", f"{SCHEMA}.t0"), "many tables")
    print(f"\n{tables:,} tables: their first rows {first:.0f} s, {statements} DDL of {seconds:.2f} s each", flush=True)
    work = f"DDL and a row in {_ACTIVE} of {tables:,} tables"
    rig.report.add(Figure("", work, "-", seconds, " s"))


def start_tables(server: SQLServer, tables: int) -> None:
    """Creates only ``tables`` small tables, and a parent with its child."""
    server.wipe()
    # A separate file for each table would take most of the time.
    server.execute(
        "SET GLOBAL innodb_file_per_table = 0",
        f"CREATE DATABASE {SCHEMA}",
        *(f"CREATE TABLE {SCHEMA}.t{n} (id INT PRIMARY KEY)" for n in range(tables)),
        f"CREATE TABLE {SCHEMA}.p (id INT PRIMARY KEY)",
        f"CREATE TABLE {SCHEMA}.c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {SCHEMA}.p (id))",
        "SET GLOBAL innodb_file_per_table = 1",
    )


def _ddl(count: int) -> Iterator[str]:
    """Columns, keys and names in turn; an even number of each leaves the table as it was."""
    turn = (
        "ALTER TABLE {0}.c ADD COLUMN x INT, ADD CONSTRAINT u UNIQUE (x)",
        "ALTER TABLE {0}.c DROP KEY u, DROP COLUMN x",
        "RENAME TABLE {0}.c TO {0}.d",
        "RENAME TABLE {0}.d TO {0}.c",
    )
    return (turn[number % len(turn)].format(SCHEMA) for number in range(count))
