"""Hazard: a statement that repairs a row gives it another value than the upstream's, or does not find the row."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.comparison.outcome import Difference
from dm_worker.comparison.pair import TablePair
from dm_worker.diff.compare_task import ComparedTable, apply_repairs
from dm_worker.diff.repairs import matches_of
from dm_worker.diff.snapshot_pair import REPAIR_SESSION
from pkg.mysql.connection import connect
from pkg.mysql.introspect import fetch_table_info
from pkg.mysql.target_values import fetch_target_values
from tests.integration.comparison.support import SCHEMA, TABLE, compare, fresh, pair_of, snapshots
from tests.integration.comparison.test_collisions import ON_PAIRS, Collision, create

#: The target's column has no code for the upstream's character.
NOT_STORABLE = {"charset twin, back"}
#: Members that a text does not tell from number 0, or that the target numbers in another way.
MEMBERS = {
    "number 0 and a member without text": ("ENUM('','x')", "ENUM('','x')", (0, 1, 2)),
    "number 0 where the target has other numbers": ("ENUM('x','')", "ENUM('','y','x')", (0, 1, 2)),
    "number 0 without such a member": ("ENUM('x','y')", "ENUM('y','x')", (0, 1, 2)),
    "set with a member without text": ("SET('','x')", "SET('','x')", (0, 1, 2, 3)),
    "members that look like numbers": ("ENUM('2','1','0')", "ENUM('0','1','2')", (0, 1, 2, 3)),
}


def repaired(upstream: SQLServer, target: SQLServer, found: Sequence[Difference], schema: str, table: str) -> int:
    """Repairs what was found; returns the number of rows."""
    with snapshots(upstream, target) as (here, there):
        pair = pair_of([here], there, schema=schema, table=table)
        info = fetch_table_info(there, schema, table)
        values = fetch_target_values(there)
    assert isinstance(pair, TablePair)
    assert info is not None
    conn = connect(target.db_config, scope="downstream", autocommit=False, session=REPAIR_SESSION)
    with conn:
        rows = apply_repairs(conn, ComparedTable(pair, (), matches_of(pair, info, values)), found)
        conn.commit()
    return rows


@pytest.mark.parametrize("key", ["keyed", "keyless"])
@pytest.mark.parametrize(("sides", "case"), ON_PAIRS, indirect=["sides"])
def test_a_repaired_row_has_the_upstream_s_value(case: Collision, key: str, sides: tuple[SQLServer, SQLServer]) -> None:
    upstream, target = sides
    schema = "mended"
    for server, types, first in ((upstream, case.types, case.one), (target, case.target or case.types, case.another)):
        server.execute(f"CREATE DATABASE IF NOT EXISTS {schema}")
        create(server, case, types, first, key, schema=schema)
    found = compare(upstream, target, schema=schema, table=key)
    assert found.differences
    if case.name in NOT_STORABLE:
        # The statement writes what the target has already, or nothing: the row remains different.
        repaired(upstream, target, found.differences, schema, key)
        assert compare(upstream, target, schema=schema, table=key).differences
        return
    assert repaired(upstream, target, found.differences, schema, key) == len(found.differences)
    assert compare(upstream, target, schema=schema, table=key).differences == []


@pytest.mark.parametrize("name", MEMBERS)
def test_members_are_repaired_by_what_they_are(name: str, sides: tuple[SQLServer, SQLServer]) -> None:
    upstream, target = sides
    types, theirs, numbers = MEMBERS[name]
    rows = ", ".join(f"({i}, {number})" for i, number in enumerate(numbers))
    fresh(upstream, f"CREATE TABLE t (id INT PRIMARY KEY, v {types})", f"INSERT INTO t VALUES {rows}")
    others = ", ".join(f"({i}, {number})" for i, number in enumerate((*numbers[1:], numbers[0])))
    fresh(
        target, f"CREATE TABLE t (id INT PRIMARY KEY, v {theirs})", f"INSERT INTO t VALUES {others}, (99, 0), (98, 1)"
    )
    found = compare(upstream, target)
    assert repaired(upstream, target, found.differences, SCHEMA, TABLE) == len(found.differences)
    assert compare(upstream, target).differences == []
