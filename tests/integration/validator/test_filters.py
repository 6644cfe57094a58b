"""Hazard: filters leave out changes, and the validation reports rows that are right, or misses rows that are lost."""

from __future__ import annotations

import random

import pytest

from deploy.local.mysql import MariaDBServer
from dm_worker.diff import sweep
from dm_worker.engine.engine import SparkEngine
from pkg.rules.model import ExpressionFilter
from tests.integration.syncer.support import subtask
from tests.integration.validator.support import QUICK, Validated, swept, validated
from tests.integration.validator.test_sweep import wait_round
from tests.integration.validator.test_validator import unapplied

FILTERS = (
    ExpressionFilter("d", "t", insert_value_expr="v = 'draft'"),
    ExpressionFilter("d", "t", update_old_value_expr="v = 'old'", update_new_value_expr="v = 'hidden'"),
    ExpressionFilter("d", "t", delete_value_expr="v = 'kept'"),
)
VALUES = ("draft", "old", "hidden", "kept", "new")
UNJUDGED = "1 rows were not compared: a filter may have left out earlier changes of them"


@pytest.fixture
def servers(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> tuple[MariaDBServer, MariaDBServer]:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), n INT DEFAULT 0)")
    return mariadb_upstream, target


def message(running: Validated) -> str:
    (table,) = running.validator.table_messages()
    return table.message


def test_rows_that_the_filters_keep_as_they_were_are_not_reported(
    servers: tuple[MariaDBServer, MariaDBServer], spark: SparkEngine
) -> None:
    upstream, target = servers
    cfg = subtask(upstream, target, validator=QUICK, expression_filters=FILTERS)
    with validated(cfg, spark) as running:
        upstream.execute(
            "INSERT INTO d.t (id, v) VALUES (1, 'kept'), (2, 'draft'), (3, 'old'), (4, 'new')",
            "UPDATE d.t SET v = 'hidden' WHERE id = 3",
            "DELETE FROM d.t WHERE id = 1",
        )
        running.wait_compared(upstream)
        assert (running.errors(), message(running)) == ([], "")
        # The target lacks row 2, so that its row 1 stays as it is.
        upstream.execute("UPDATE d.t SET id = 1, v = 'moved' WHERE id = 2")
        running.wait_compared(upstream)
        assert target.execute("SELECT id, v FROM d.t ORDER BY id") == [(1, "kept"), (3, "old"), (4, "new")]
        assert (running.errors(), message(running)) == ([], UNJUDGED)
        # What passes the filters is compared.
        with unapplied(running, target, "UPDATE d.t SET v = 'wrong' WHERE id = 3"):
            upstream.execute("UPDATE d.t SET n = 5, v = 'old' WHERE id IN (3, 4)")
            running.run.wait_synced(upstream)
        (one,) = running.wait_kinds("Column data not matched")
        assert '"id": "3"' in one.srcData


def test_a_lost_row_is_found_although_an_update_that_finds_no_row_may_be_right(
    servers: tuple[MariaDBServer, MariaDBServer], spark: SparkEngine
) -> None:
    upstream, target = servers
    cfg = subtask(upstream, target, validator=QUICK, expression_filters=FILTERS)
    with validated(cfg, spark) as running:
        with unapplied(running, target, "DELETE FROM d.t WHERE id = 5"):
            upstream.execute("INSERT INTO d.t (id, v) VALUES (5, 'new')", "UPDATE d.t SET n = 1 WHERE id = 5")
            running.run.wait_synced(upstream)
        (one,) = running.wait_kinds("Expected rows not exist")
        assert '"id": "5"' in one.srcData
        # A later UPDATE, which does not find it, does not hide it.
        upstream.execute("UPDATE d.t SET n = 2 WHERE id = 5")
        running.wait_compared(upstream)
        (one,) = running.errors()
        assert (one.message, '"n": "2"' in one.srcData) == ("found 2 times", True)


def changes(chance: random.Random, first: int, there: set[int]) -> list[str]:
    """Statements that insert new rows, from the key ``first`` on, and change, move and delete those that are
    ``there``."""
    found = []
    for key in range(first, first + 20):
        found.append(f"INSERT INTO d.t (id, v) VALUES ({key}, '{chance.choice(VALUES)}')")
        there.add(key)
        for row in chance.choices(sorted(there), k=3):
            change, value = chance.random(), chance.choice(VALUES)
            if change < 0.1:
                found.append(f"DELETE FROM d.t WHERE id = {row}")
                there.discard(row)
            elif change < 0.2 and row in there and row + 1000 not in there:
                found.append(f"UPDATE d.t SET id = {row + 1000}, v = '{value}' WHERE id = {row}")
                there.symmetric_difference_update({row, row + 1000})
            else:
                found.append(f"UPDATE d.t SET v = '{value}', n = n + 1 WHERE id = {row}")
    return found


def test_random_changes_under_filters_are_right(
    servers: tuple[MariaDBServer, MariaDBServer], spark: SparkEngine
) -> None:
    """New rows have new keys: the target would refuse the key of one that it has kept."""
    upstream, target = servers
    cfg = subtask(upstream, target, validator=QUICK, expression_filters=FILTERS)
    chance = random.Random(29)
    there: set[int] = set()
    with validated(cfg, spark) as running:
        for first in range(1, 401, 20):
            upstream.execute(*changes(chance, first, there))
        running.wait_compared(upstream)
        assert running.errors() == []
        # Of these the filters can leave out nothing, so all are certain.
        rows = range(5000, 5020)
        upstream.execute(*(f"INSERT INTO d.t (id, v) VALUES ({key}, 'new')" for key in rows))
        running.wait_compared(upstream)
        with unapplied(running, target, "DELETE FROM d.t WHERE id = 5003"):
            upstream.execute(*(f"INSERT INTO d.t (id, v) VALUES ({key + 100}, 'new')" for key in rows))
            upstream.execute("DELETE FROM d.t WHERE id = 5004", "INSERT INTO d.t (id, v) VALUES (5004, 'new')")
            upstream.execute("UPDATE d.t SET id = 5999 WHERE id = 5003", "INSERT INTO d.t (id, v) VALUES (5003, 'new')")
            running.run.wait_synced(upstream)
        (one,) = running.wait_kinds("Expected rows not exist")
        assert '"id": "5003"' in one.srcData


#: A filter of one kind; a fault at the target that it can't explain, with the kind of difference; and one that it can.
ONE_KIND = [
    (FILTERS[0], "INSERT INTO d.t (id, v) VALUES (9999, 'draft')", "Deleted rows exist", "DELETE FROM d.t LIMIT 1"),
    (
        FILTERS[0],
        "UPDATE d.t SET n = 99 LIMIT 1",
        "Column data not matched",
        "DELETE FROM d.t ORDER BY id DESC LIMIT 1",
    ),
    (
        FILTERS[2],
        "DELETE FROM d.t WHERE v = 'new' LIMIT 1",
        "Expected rows not exist",
        "INSERT INTO d.t (id) VALUES (9999)",
    ),
]


@pytest.mark.parametrize(("rule", "fault", "kind", "allowed"), ONE_KIND)
def test_the_sweep_finds_what_a_filter_of_one_kind_does_not_explain(
    servers: tuple[MariaDBServer, MariaDBServer],
    spark: SparkEngine,
    monkeypatch: pytest.MonkeyPatch,
    rule: ExpressionFilter,
    fault: str,
    kind: str,
    allowed: str,
) -> None:
    monkeypatch.setattr(sweep, "ROUND_PAUSE", 0.2)
    upstream, target = servers
    cfg = subtask(upstream, target, validator=QUICK, expression_filters=(rule,))
    chance, there = random.Random(31), set[int]()
    with swept(cfg, spark) as (running, _):
        for first in range(1, 201, 20):
            upstream.execute(*changes(chance, first, there))
        running.wait_compared(upstream)
        kept, lacked = (
            {row for (row,) in one.execute("SELECT id FROM d.t")}
            - {row for (row,) in other.execute("SELECT id FROM d.t")}
            for one, other in ((target, upstream), (upstream, target))
        )
        assert (bool(kept), bool(lacked)) == (rule is FILTERS[2], rule is FILTERS[0]), "the filter has left out rows"
        target.execute(allowed)
        wait_round(cfg, running)
        assert running.errors() == []
        assert "not judged: an expression filter leaves out" in running.status().sweepStatus
        target.execute(fault)
        running.wait_kinds(kind)
