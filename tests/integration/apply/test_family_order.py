"""Hazards: rows that foreign keys connect need a statement each; a wrong order of them stays."""

from __future__ import annotations

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.syncer.execution.apply import apply_bucket
from dm_worker.syncer.execution.compaction import DELETE, INSERT, UPDATE
from dm_worker.syncer.execution.merge import BucketContent
from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.rows.conflict_sets import families
from dm_worker.syncer.rows.plan_builder import PlanOptions, build
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.errors import DMError
from pkg.mysql.foreign_key_introspect import fetch_foreign_keys
from pkg.mysql.introspect import fetch_table_info
from tests.integration.apply.support import TOKEN, marker, prepare, spec_of

CHECKS = StatementForm(checks=True)
COUNT = 300


@pytest.fixture(params=["target", "mysql_upstream"])
def server(request: pytest.FixtureRequest) -> SQLServer:
    found: SQLServer = request.getfixturevalue(request.param)
    prepare(
        found,
        "CREATE TABLE d.p (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE)",
        "INSERT INTO d.p VALUES " + ",".join(f"({n},0)" for n in range(COUNT)),
        "INSERT INTO d.c VALUES " + ",".join(f"({n},{n},0)" for n in range(COUNT)),
    )
    return found


def plans_of(server: SQLServer) -> dict[int, TablePlan]:
    """The plans 1 of d.p and 2 of d.c."""
    conn = server.connect()
    try:
        infos = [fetch_table_info(conn, "d", name) for name in "pc"]
        found = families(fetch_foreign_keys(conn))
    finally:
        conn.close()
    return {
        number: build(number, number, b"", info, info, PlanOptions(), family=found["d", info.name])
        for number, info in enumerate(infos, 1)
        if info is not None
    }


def content(*changes: tuple[int, int, list[bytes] | None, list[bytes] | None]) -> BucketContent:
    """(operation, plan, before, after), in the order of the binlog."""
    ordered: dict[int, list[OrderedRow]] = {}
    for n, (op, plan, before, after) in enumerate(changes):
        ordered.setdefault(plan, []).append((n, op, plan, 4, before, after))
    return BucketContent(ordered=ordered, changes=len(changes))


def row(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


def test_rows_of_many_transactions_share_statements(server: SQLServer) -> None:
    changes = []
    for n in range(COUNT):
        changes += [
            (DELETE, 1, row(n, 0), None),
            (INSERT, 1, None, row(n, 1)),
            (INSERT, 2, None, row(COUNT + n, n, 1)),
        ]
    result = apply_bucket(
        spec_of(server, CHECKS, foreign_key_checks="1"), TOKEN, 0, content(*changes), plans_of(server)
    )
    # The session's checks are set before and after.
    assert result.statements == 5
    assert server.execute("SELECT COUNT(*), SUM(v), MIN(id) FROM d.c") == [(COUNT, COUNT, COUNT)]
    assert server.execute("SELECT COUNT(*), SUM(v) FROM d.p") == [(COUNT, COUNT)]


def test_updates_that_keep_what_others_depend_on_share_a_statement(server: SQLServer) -> None:
    changes = [(UPDATE, 2, row(n, n, 0), row(n, n, n % 3)) for n in range(COUNT)]
    changes += [(UPDATE, 1, row(n, 0), row(n, 7)) for n in range(2)]
    result = apply_bucket(
        spec_of(server, CHECKS, foreign_key_checks="1"), TOKEN, 0, content(*changes), plans_of(server)
    )
    # The session's checks are set before and after. A third of the updates change nothing.
    assert result.statements == 4
    assert server.execute("SELECT COUNT(*), SUM(v = id % 3) FROM d.c") == [(COUNT, COUNT)]
    assert server.execute("SELECT id, v FROM d.p WHERE v") == [(0, 7), (1, 7)]


@pytest.mark.parametrize("more", [0, 5], ids=["one row", "several rows"])
def test_an_update_of_a_missing_row_does_not_create_it(server: SQLServer, more: int) -> None:
    server.execute("DELETE FROM d.c WHERE id = 250")
    changes = [(UPDATE, 2, row(n, n, 0), row(n, n, 1)) for n in range(250 - more, 251)]
    with pytest.raises(DMError, match=r"no row equal to the old row .*`id`=250"):
        apply_bucket(spec_of(server, CHECKS, foreign_key_checks="1"), TOKEN, 0, content(*changes), plans_of(server))
    assert server.execute("SELECT COUNT(*), SUM(v) FROM d.c") == [(COUNT - 1, 0)]


def test_an_update_does_not_change_another_row_that_has_its_unique_value(server: SQLServer) -> None:
    server.execute("ALTER TABLE d.c ADD UNIQUE KEY v (v, id)", "ALTER TABLE d.p ADD COLUMN u INT UNIQUE")
    server.execute("UPDATE d.p SET u = id", "DELETE FROM d.p WHERE id IN (3, 4)", "UPDATE d.p SET u = 3 WHERE id = 5")
    changes: list[tuple[int, int, list[bytes] | None, list[bytes] | None]] = [
        (UPDATE, 1, row(n, 0, n), row(n, 1, n)) for n in (2, 3)
    ]
    with pytest.raises(DMError, match=r"no row equal to the old row .*`id`=3"):
        apply_bucket(spec_of(server, CHECKS, foreign_key_checks="1"), TOKEN, 0, content(*changes), plans_of(server))
    assert server.execute("SELECT id, v, u FROM d.p WHERE id BETWEEN 2 AND 5") == [(2, 0, 2), (5, 0, 3)]


HIDDEN = {
    # The delete of parent 1 removes child 1, so its key is free.
    "a key that an action frees": (
        [(DELETE, 1, row(1, 0), None), (INSERT, 2, None, row(1, 2, 7))],
        [(1, 2, 7), (2, 2, 0), (3, 3, 0)],
    ),
    # Child 3 has parent 3 in the target only until an action, which the binlog has not, changes it.
    "a row that goes with its parent": (
        [(UPDATE, 2, row(3, 3, 0), row(3, 2, 7)), (DELETE, 1, row(3, 0), None), (INSERT, 1, None, row(3, 5))],
        [(1, 1, 0), (2, 2, 0), (3, 2, 7)],
    ),
}


@pytest.mark.parametrize(("changes", "after"), HIDDEN.values(), ids=HIDDEN)
def test_what_an_action_does_in_between_stays_right(
    server: SQLServer, changes: list[tuple[int, int, list[bytes] | None, list[bytes] | None]],
    after: list[tuple[int, int, int]],
) -> None:  # fmt: skip
    apply_bucket(spec_of(server, CHECKS, foreign_key_checks="1"), TOKEN, 0, content(*changes), plans_of(server))
    assert server.execute("SELECT * FROM d.c WHERE id BETWEEN 1 AND 3 ORDER BY id") == after


def test_a_row_that_is_missing_is_named_as_in_the_order_of_the_binlog(server: SQLServer) -> None:
    changes = [(INSERT, 1, None, row(COUNT, 0)), (DELETE, 2, row(5000, 1, 0), None), (DELETE, 2, row(1, 1, 0), None)]
    with pytest.raises(DMError, match=r"no row equal to the old row .*`id`=5000"):
        apply_bucket(spec_of(server, CHECKS, foreign_key_checks="1"), TOKEN, 0, content(*changes), plans_of(server))
    assert (marker(server), server.execute("SELECT COUNT(*) FROM d.p")) == (0, [(COUNT,)])
