"""Hazard: a permanent error of a server is retried for ever, or a passing one stops a task."""

from __future__ import annotations

import pymysql
import pytest

from pkg.mysql.connection import classify


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
