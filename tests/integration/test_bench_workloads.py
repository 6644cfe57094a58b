"""The benchmark's work and its one-statement peer on real servers: what is timed must be the work that is claimed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import HarnessError, up
from tests.bench import decode, lag, one_statement
from tests.bench.binlog import end_of_binlog
from tests.bench.lag import PROBE, Session
from tests.bench.rig import Copies, checksum, copy_tables
from tests.bench.workloads import SCHEMA, TOOLS, all_workloads

ROWS, CHANGES = 4000, 400


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[MariaDBServer, MariaDBServer]]:
    """Of its own: the workloads reset binlog and schemas."""
    pair = MariaDBServer(gtid=True), MariaDBServer(binlog=False)
    with up(*pair):
        yield pair


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


def test_lag_of_a_table_that_is_its_own_target_is_next_to_nothing(servers: tuple[MariaDBServer, MariaDBServer]) -> None:
    source, _ = servers
    _with_probes(source)
    found = Session(source.port, source.port, rate=400, interval=0.02, seconds=1.0).run()
    assert len(found.lags) == 50
    # How near to the rate it comes, and to nothing, depends on the machine.
    assert sorted(found.lags)[25] < 10
    assert 0 < found.rate <= 400
    assert source.execute(f"SELECT COUNT(*) FROM {PROBE}")[0][0] == 50


def test_probes_that_do_not_arrive_are_an_error(
    servers: tuple[MariaDBServer, MariaDBServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = servers
    for server in servers:
        _with_probes(server)
    monkeypatch.setattr(lag, "_ARRIVAL_TIMEOUT", 0.2)
    with pytest.raises(HarnessError, match="5 of 5 probes did not arrive"):
        Session(source.port, target.port, rate=0, interval=0.02, seconds=0.1).run()


def _with_probes(server: MariaDBServer) -> None:
    server.wipe()
    all_workloads()["oltp"].prepare(server, 1000)
    server.execute(f"CREATE TABLE {PROBE} (id BIGINT PRIMARY KEY)")


@pytest.mark.parametrize("who", ["python", decode.PEER])
def test_both_decoders_are_seen_to_decode_every_row(servers: tuple[MariaDBServer, MariaDBServer], who: str) -> None:
    source, _ = servers
    source.wipe()
    workload = all_workloads()["oltp"]
    workload.prepare(source, 1000)
    start = end_of_binlog(source)
    written = workload.write(source, 1000, 2000)
    found = decode.measure(source, start, who)
    assert found is not None
    assert found["rows"] == written
    assert found["cpu"] > 0
    assert found["fetch"] > 0
