"""Rows by LOAD DATA LOCAL: the server reads them with a third less work than an INSERT.

The rows are sent as SQL tuples (``(1,'a'),(2,NULL)``); the statement's FIELDS and LINES describe them. LOCAL turns
errors into warnings and skips rows whose keys exist, so a load counts only when the server's answer
proves that every row was stored exactly (:func:`exact`). Otherwise the transaction is rolled back and repeated with
INSERT, which reports the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql import driver
from pkg.mysql.driver import ServerAnswer, answer_of
from pkg.mysql.names import qualified, quote
from pkg.mysql.pipeline import send

#: Fewer rows are not worth the extra round trip of a load.
LEAST_ROWS = 1000
#: Bytes of rows in one packet.
_CHUNK = 1024 * 1024
_SHAPE = (
    b" CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\\'' ESCAPED BY '\\\\'"
    b" LINES STARTING BY '(' TERMINATED BY '),' "
)
_COUNTS = re.compile(r"Records: (\d+)  Deleted: (\d+)  Skipped: (\d+)  Warnings: (\d+)")


def statement(plan: TablePlan, *, replace: bool) -> bytes:
    """The LOAD statement of a plan's rows; ``replace``: they replace rows with the same keys."""
    columns = ",".join(quote(name) for name in plan.write_names)
    verb = "REPLACE " if replace else ""
    head = f"LOAD DATA LOCAL INFILE 'rows' {verb}INTO TABLE {qualified(*plan.target)}".encode()
    return head + _SHAPE + f"({columns})".encode()


def load(conn: Connection[Any], text: bytes, bodies: Iterable[bytes]) -> ServerAnswer:
    """Runs a LOAD statement whose rows are ``bodies``, SQL tuples joined by commas. Raises the driver's exceptions.

    The connection must have been opened with ``local_data``. It never opens a file: it sends these rows, and only
    here, whatever name the server asks for.
    """
    driver.number_next(conn, send(conn, text))
    request = driver.read_packet(conn)
    if not request.is_load_local_packet():
        raise pymysql.err.InternalError(0, "the server did not ask for the rows of a LOAD DATA LOCAL")
    for body in bodies:
        view = memoryview(body)
        for start in range(0, len(view), _CHUNK):
            driver.write_packet(conn, bytes(view[start : start + _CHUNK]))
        driver.write_packet(conn, b",")
    driver.write_packet(conn, b"")
    return answer_of(driver.read_packet(conn))


def exact(answer: ServerAnswer, count: int) -> bool:
    """Whether the answer proves that ``count`` rows were stored, none of them altered or left out."""
    found = _COUNTS.search(answer.info)
    if found is None or answer.warnings:
        return False
    records, _, skipped, warnings = map(int, found.groups())
    return records == count and not skipped and not warnings
