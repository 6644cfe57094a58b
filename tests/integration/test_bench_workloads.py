"""The benchmark's work and its one-statement peer on real servers: what is timed must be the work that is claimed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.bench import one_statement
from tests.bench.binlog import end_of_binlog
from tests.bench.rig import Copies, checksum, copy_tables
from tests.bench.workloads import SCHEMA, TOOLS, all_workloads
from tests.harness.mysql import MariaDBServer
from tests.harness.process import HarnessError

ROWS, CHANGES = 4000, 400


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[MariaDBServer, MariaDBServer]]:
    """Of its own: the workloads reset binlog and schemas."""
    pair = MariaDBServer(gtid=True), MariaDBServer(binlog=False)
    for server in pair:
        server.start()
    yield pair
    for server in pair:
        server.cleanup()


@pytest.mark.parametrize("name", list(all_workloads()))
def test_a_workload_makes_the_row_changes_that_it_counts_and_the_peer_applies_them(
    servers: tuple[MariaDBServer, MariaDBServer], name: str
) -> None:
    source, target = servers
    workload = all_workloads()[name]
    source.wipe()
    workload.prepare(source, ROWS)
    copy_tables(source, target)
    kept = Copies(target, workload.tables)
    before = [checksum(target, table) for table in workload.tables]
    assert before == [checksum(source, table) for table in workload.tables]
    start = end_of_binlog(source)
    changes = workload.write(source, ROWS, CHANGES)
    made = one_statement.statements(source, start)
    assert len(made) == changes
    assert CHANGES * 0.9 <= changes <= CHANGES
    for _ in range(2):
        one_statement.apply(target, one_statement.rounds(made))
        for table, sum_before in zip(workload.tables, before, strict=True):
            assert checksum(target, table) == checksum(source, table) != sum_before
        kept.restore()
    assert [checksum(target, table) for table in workload.tables] == before
    # A second stretch goes on where the first one ended.
    assert workload.write(source, ROWS, CHANGES, first=1 + CHANGES) == changes


def test_no_key_is_used_twice_where_none_may_be(servers: tuple[MariaDBServer, MariaDBServer]) -> None:
    source, _ = servers
    source.wipe()
    workload = all_workloads()["no-reuse"]
    workload.prepare(source, ROWS)
    start = end_of_binlog(source)
    changes = workload.write(source, ROWS, 10 * ROWS)
    assert changes == ROWS // 3 * 4
    used = Counter(key for keys, _ in one_statement.statements(source, start) for key in keys)
    assert max(used.values()) == 1


def test_a_statement_that_fails_ends_the_peers_run(servers: tuple[MariaDBServer, MariaDBServer]) -> None:
    _, target = servers
    with pytest.raises(HarnessError, match="no_such"):
        one_statement.apply(target, one_statement.rounds([((b"k",), b"DELETE FROM no_such.t")]))


def test_procedures_are_in_no_migrated_schema() -> None:
    assert TOOLS != SCHEMA
