"""Hazard: a permanent error of a server is retried forever, or a passing one stops a task."""

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
        (1105, "tikv aborts txn: Error(Txn(Error(Mvcc(Error(PessimisticLockNotFound", True),
        (1105, "pessimistic lock not found, start_ts:1 key:[]", True),
        (1105, "rpc error: code = Unavailable desc = keepalive watchdog timeout", True),
        (1105, "context canceled", True),
        (8020, "Table 't' was locked in WRITE by server", True),
        (8022, "Error: KV error safe to retry", True),
        (8024, "invalid transaction", True),
        (8028, "Information schema is changed during the execution of the statement", True),
        (8113, "Schema has changed", True),
        (8120, "Can not get start ts", True),
        (8176, "Your query has been cancelled due to exceeding the allowed memory limit for the tidb-server", True),
        (8229, "TTL manager has timed out, pessimistic locks may expire", True),
        (8245, "column a id 1 does not exist, this column may have been updated by other DDL ran in parallel", True),
        (8252, "Exceeded resource group quota limitation", True),
        (9008, "Store token is up to the limit, store id = 1", True),
        (9011, "TiKV max timestamp is not synced", True),
        (8004, "Transaction is too large, size: 104857601", False),
        (8141, "assertion failed: key: 01, assertion: NotExist", False),
        (8175, "Your query has been cancelled due to exceeding the allowed memory limit for a single SQL", False),
        (8253, "Query execution was interrupted, identified as runaway query", False),
        (1062, "Duplicate entry", False),
        (1153, "Got a packet bigger than 'max_allowed_packet' bytes", False),
        (8025, "entry too large", False),
    ],
)
def test_only_what_may_pass_by_itself_is_tried_again(number: int, text: str, expected: bool) -> None:
    assert is_retryable(pymysql.err.OperationalError(number, text)) is expected
