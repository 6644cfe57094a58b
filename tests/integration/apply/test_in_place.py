"""Hazards: an upsert of a row that takes a value of a unique key updates another row; parallel writers of such rows
lock each other out."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.syncer.execution.apply import RowsCollide, apply_bucket
from dm_worker.syncer.execution.bucket_action import MergeAgain, WriteBucket
from dm_worker.syncer.execution.compaction import DELETED, INSERTED, REPLACED, UPDATED
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.errors import DMError
from tests.integration.apply.support import (
    MARKERS,
    TOKEN,
    content_of,
    marker,
    next_batch,
    plan_of,
    prepare,
    spec_of,
    states_of,
)

pytestmark = pytest.mark.target_with("upserts by primary key")

RENEWS = StatementForm(renews=True)
#: Definitions of d.t (id, part, u, w), whose primary key is (id, part).
TABLES = {
    "two further keys": "PRIMARY KEY (id, part), UNIQUE KEY u (u), UNIQUE KEY w (w))",
    "first in the definition": "UNIQUE KEY a (u), UNIQUE KEY b (w), PRIMARY KEY (id, part))",
    "computed": "c INT AS (w + 1) VIRTUAL, PRIMARY KEY (id, part), UNIQUE KEY u (u), UNIQUE KEY c (part, c))",
    "partitions": "PRIMARY KEY (id, part), UNIQUE KEY u (u, part), UNIQUE KEY w (part, w)) PARTITION BY HASH (part)"
    " PARTITIONS 2",
}
Rows = dict[int, tuple[int, int | None]]
#: Key → values: the rows before each scenario, and one that is in none.
BEFORE: Rows = {1: (1, 1), 2: (2, 2), 3: (3, None)}
OTHER, HELD = 99, 50


@pytest.fixture(params=["target", "mysql_upstream"])
def server(request: pytest.FixtureRequest) -> SQLServer:
    found: SQLServer = request.getfixturevalue(request.param)
    return found


def row(key: int, values: tuple[int, int | None]) -> str:
    return f"({key},0,{','.join('NULL' if value is None else str(value) for value in values)})"


def after_some_changes(chance: random.Random) -> Rows:
    """Rows with different values, some of which other rows had before."""
    keys = [key for key in range(1, 6) if chance.random() < 0.8]
    us, ws = (chance.sample(range(1, 7), len(keys)) for _ in range(2))
    kept = {key: BEFORE[key] for key in keys if key in BEFORE and chance.random() < 0.3}
    found = dict(kept)
    for key, u, w in zip(keys, us, ws, strict=True):
        if key not in found and all(u != other and w != more for other, more in found.values()):
            found[key] = u, chance.choice([w, w, None])
    return found


def states(chance: random.Random, after: Rows) -> list[tuple[int, bytes, bytes]]:
    """What leads from ``BEFORE`` to ``after``, as if no row were in a conflict set."""
    found = []
    for key in sorted(BEFORE.keys() | after.keys()):
        if key not in BEFORE:
            state = INSERTED
        elif key not in after:
            state = DELETED
        else:
            state = chance.choice([UPDATED, REPLACED]) if after[key] == BEFORE[key] else REPLACED
        found.append((state, b"%d,0" % key, row(key, after[key]).encode() if key in after else b""))
    return found


def all_rows(server: SQLServer) -> Rows:
    return {key: (u, w) for key, u, w in server.execute(f"SELECT id, u, w FROM d.t WHERE id <> {OTHER}")}


def fill(server: SQLServer) -> None:
    rows = ",".join(row(key, values) for key, values in (BEFORE | {OTHER: (HELD, HELD)}).items())
    server.execute("DELETE FROM d.t", f"INSERT INTO d.t (id, part, u, w) VALUES {rows}")
    next_batch(server)


@pytest.mark.parametrize("spec", TABLES.values(), ids=TABLES)
def test_rows_become_what_they_must_be_or_none_changes(server: SQLServer, spec: str) -> None:
    prepare(server, f"CREATE TABLE d.t (id INT, part INT, u INT, w INT, {spec}")
    plans = {1: plan_of(server, "t", incomparable=frozenset({"c"}))}
    assert plans[1].in_place
    chance, collided = random.Random(7), 0
    for turn in range(40):
        fill(server)
        after = after_some_changes(chance)
        found = states_of(states(chance, after))
        try:
            apply_bucket(spec_of(server), TOKEN, 0, content_of(plans, found), plans)
        except RowsCollide:
            collided += 1
            assert all_rows(server) == BEFORE
            apply_bucket(spec_of(server, RENEWS), TOKEN, 0, content_of(plans, found, RENEWS), plans)
        assert all_rows(server) == after, turn
        assert server.execute(f"SELECT u, w FROM d.t WHERE id = {OTHER}") == [(HELD, HELD)]
    assert 3 < collided < 37


@pytest.mark.parametrize("taken", [(HELD, 7), (7, HELD)], ids=["one key", "the other key"])
def test_a_value_that_a_row_outside_the_batch_has_is_refused(server: SQLServer, taken: tuple[int, int]) -> None:
    prepare(server, f"CREATE TABLE d.t (id INT, part INT, u INT, w INT, {TABLES['two further keys']}")
    plans = {1: plan_of(server, "t")}
    fill(server)
    found = states_of([(REPLACED, b"2,0", row(2, taken).encode()), (REPLACED, b"3,0", row(3, (3, 4)).encode())])
    with pytest.raises(RowsCollide):
        apply_bucket(spec_of(server), TOKEN, 0, content_of(plans, found), plans)
    with pytest.raises(DMError, match=r"the row \(2,0\).*Error 1062 "):
        apply_bucket(spec_of(server, RENEWS), TOKEN, 0, content_of(plans, found, RENEWS), plans)
    assert (all_rows(server), marker(server)) == (BEFORE, 0)


def test_rows_that_collide_are_merged_again_and_deleted_first(server: SQLServer) -> None:
    prepare(server, f"CREATE TABLE d.t (id INT, part INT, u INT, w INT, {TABLES['two further keys']}")
    plans = {1: plan_of(server, "t")}
    fill(server)
    swapped = states_of([(REPLACED, b"1,0", row(1, (2, 2)).encode()), (REPLACED, b"2,0", row(2, (1, 1)).encode())])
    action = WriteBucket(spec_of(server), TOKEN)
    with pytest.raises(MergeAgain) as again:
        action.run(0, content_of(plans, swapped), plans)
    other = again.value.action
    assert other.rule_of(plans[1]) != action.rule_of(plans[1])
    assert other.run(0, content_of(plans, swapped, RENEWS), plans).statements == 2
    assert all_rows(server) == BEFORE | {1: (2, 2), 2: (1, 1)}


def test_long_values_that_the_server_looks_for_first_are_deleted_first(target: SQLServer) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, u TEXT, w INT, UNIQUE KEY u (u), UNIQUE KEY w (w))")
    target.execute("INSERT INTO d.t VALUES (1, 'a', 1), (2, 'b', 2)")
    # The other row is updated.
    target.execute("INSERT INTO d.t VALUES (1, 'b', 3) ON DUPLICATE KEY UPDATE u = VALUES(u), w = VALUES(w)")
    assert target.execute("SELECT id, u, w FROM d.t ORDER BY id") == [(1, "a", 1), (2, "b", 3)]
    assert not plan_of(target, "t").in_place


#: Rows, buckets and writers.
COUNT, BUCKETS, WRITERS = 8000, 16, 4
DEADLOCKS = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"


def test_writers_of_rows_that_keep_another_unique_value_do_not_wait_for_each_other(server: SQLServer) -> None:
    prepare(
        server,
        "CREATE TABLE d.t (id INT PRIMARY KEY, u INT, w VARBINARY(40), UNIQUE KEY u (u), UNIQUE KEY w (w))",
        f"INSERT INTO {MARKERS} VALUES " + ",".join(f"('source-1', {n}, 0, 1, 0)" for n in range(1, BUCKETS)),
        "SET GLOBAL innodb_monitor_enable = 'lock_deadlocks'",
    )
    chance = random.Random(1)
    words = {key: f"{chance.getrandbits(120):030x}" for key in range(COUNT)}
    rows = [f"({key},{key},'{word}')" for key, word in words.items()]
    server.execute("INSERT INTO d.t VALUES " + ",".join(rows))
    keys = list(words)
    chance.shuffle(keys)
    plans: dict[int, TablePlan] = {1: plan_of(server, "t")}
    assert plans[1].in_place

    def write(bucket: int) -> int:
        found = [
            (REPLACED, b"%d" % key, b"(%d,%d,'%b')" % (key, COUNT + key, words[key].encode()))
            for key in keys[bucket::BUCKETS]
        ]
        return apply_bucket(spec_of(server), TOKEN, bucket, content_of(plans, states_of(found)), plans).failures

    before = server.execute(DEADLOCKS)
    with ThreadPoolExecutor(WRITERS) as pool:
        failures = sum(pool.map(write, range(BUCKETS)))
    assert (failures, server.execute(DEADLOCKS)) == (0, before)
    assert server.execute(f"SELECT COUNT(*) FROM d.t WHERE u = id + {COUNT}") == [(COUNT,)]
