"""Hazard: a permanent error of a server is retried for ever, or a passing one stops a task."""

from __future__ import annotations

import pymysql
import pytest

from pkg.mysql.connection import classify, is_retryable


@pytest.mark.parametrize(
    ("number", "text", "passes"),
    [
        (1213, "Deadlock found", True),
        (8501, "TiDB says so", True),
        (9007, "Write conflict", True),
        (1105, "Information schema is changed during the execution", True),
        (1105, "unknown error", False),
        (1062, "Duplicate entry", False),
    ],
)
def test_what_passes_by_itself_is_tried_again(number: int, text: str, passes: bool) -> None:
    assert classify(pymysql.err.OperationalError(number, text), scope="downstream").retryable is passes


@pytest.mark.parametrize(
    ("number", "text", "expected"),
    [
        (1213, "Deadlock found when trying to get lock; try restarting transaction", True),
        (1205, "Lock wait timeout exceeded; try restarting transaction", True),
        (1290, "The MariaDB server is running with the --read-only option so it cannot execute this statement", True),
        (1290, "The MySQL server is running with the --super-read-only option so it cannot execute this", True),
        (1290, "The MySQL server is running with the --skip-grant-tables option so it cannot execute this", False),
        (1040, "Too many connections", True),
        (1053, "Server shutdown in progress", True),
        (8005, "Write conflict, txnStartTS is stale", True),
        (9005, "Region is unavailable", True),
        (1105, "Information schema is changed during the execution of the statement", True),
        (1105, "unsupported modify column", False),
        (1062, "Duplicate entry", False),
        (1153, "Got a packet bigger than 'max_allowed_packet' bytes", False),
        (8025, "entry too large", False),
    ],
)
def test_only_what_may_pass_by_itself_is_tried_again(number: int, text: str, expected: bool) -> None:
    assert is_retryable(pymysql.err.OperationalError(number, text)) is expected
