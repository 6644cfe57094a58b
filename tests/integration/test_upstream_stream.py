"""The binlog of real servers: every way to start, to break and to end a stream."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.events import Event, parse_gtid, parse_previous_gtids, parse_query, parse_rotate
from pkg.binlog.gtid import MySQLGTIDSet, parse_gtid_set
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.server_stream import open_upstream
from pkg.binlog.streams.stream import BinlogStream
from pkg.binlog.table_map import parse_table_map
from pkg.errors import Code
from pkg.settings.connections import DBConfig, SecurityConfig
from tests.integration.binlog_replay import apply_changes, checksum, decode, events_between, here, open_at


@pytest.fixture(params=["mariadb", "mariadb_11_8", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    return server


def _read_until(stream: BinlogStream, enough: Callable[[list[Event]], bool], seconds: float = 60) -> list[Event]:
    found: list[Event] = []
    limit = time.monotonic() + seconds
    while not enough(found):
        assert time.monotonic() < limit, f"{len(found)} events and not enough"
        for event in stream.read(1 << 20, 0.2):
            # MySQL sends one for each event that a start by GTID skips: tens of thousands, late in a run of all tests.
            if found and found[-1].type == event.type == c.HEARTBEAT_EVENT:
                found.pop()
            found.append(event)
    return found


def _rows(events: list[Event]) -> int:
    return sum(event.is_rows for event in events)


def _failure(stream: BinlogStream, wait: float = 0.2) -> errors.DMError:
    """The error that ends the stream."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        try:
            stream.read(1 << 20, wait)
        except errors.DMError as exc:
            return exc
    raise AssertionError("the stream goes on")


def test_position_and_gtid_start_at_the_same_transaction(upstream: SQLServer) -> None:
    upstream.execute("CREATE DATABASE s", "CREATE TABLE s.t (a INT PRIMARY KEY)", "INSERT INTO s.t VALUES (1)")
    start = here(upstream)
    upstream.execute("INSERT INTO s.t VALUES (2)", "INSERT INTO s.t VALUES (3),(4)")
    end = here(upstream)
    gtids = {}
    for use_gtid in (False, True):
        stream = open_at(upstream, start, use_gtid=use_gtid)
        found = _read_until(stream, lambda events: sum(e.type == c.XID_EVENT for e in events) == 2)
        stream.close()
        assert _rows(found) == 2
        assert stream.file == end.position.name
        assert found[-1].log_pos == end.position.pos
        executed = parse_gtid_set(start.gtid_set, upstream.flavor)
        for event in found:
            if event.type in (c.GTID_EVENT, c.MARIADB_GTID_EVENT):
                executed.add(parse_gtid(event).text)
        gtids[use_gtid] = str(executed)
    assert gtids[False] == gtids[True]
    assert parse_gtid_set(end.gtid_set, upstream.flavor) == parse_gtid_set(gtids[True], upstream.flavor)


def test_rotation_names_the_next_file(upstream: SQLServer) -> None:
    upstream.execute("CREATE DATABASE s", "CREATE TABLE s.t (a INT PRIMARY KEY)")
    start = here(upstream)
    upstream.execute("INSERT INTO s.t VALUES (1)", "FLUSH LOGS", "INSERT INTO s.t VALUES (2)")
    end = here(upstream)
    assert start.position < end.position
    found = events_between(upstream, start, end.position)
    names = [parse_rotate(event).file for event in found if event.type == c.ROTATE_EVENT]
    assert names[0] == start.position.name
    assert names[-1] == end.position.name
    assert _rows(found) == 2
    listed = [parse_previous_gtids(e) for e in found if e.type in (c.PREVIOUS_GTIDS_EVENT, c.MARIADB_GTID_LIST_EVENT)]
    assert parse_gtid_set(end.gtid_set, upstream.flavor).contains(listed[-1])  # type: ignore[arg-type]


def test_statement_keeps_its_session(upstream: SQLServer) -> None:
    upstream.execute("CREATE DATABASE s")
    start = here(upstream)
    conn = upstream.connect(charset="gbk", database="s")
    with conn.cursor() as cursor:
        cursor.execute("SET time_zone='+05:30', sql_mode='ANSI_QUOTES', timestamp=1700000000")
        cursor.execute('CREATE TABLE "语" (a INT)')
    conn.close()
    found = events_between(upstream, start, here(upstream).position)
    (event,) = [e for e in found if e.type == c.QUERY_EVENT and b"CREATE" in e.data]
    query = parse_query(event)
    assert query.sql == 'CREATE TABLE "语" (a INT)'
    assert query.schema == "s"
    assert query.sql_mode is not None
    assert query.sql_mode & 4
    assert event.timestamp == 1_700_000_000


def test_idle_server_sends_heartbeats_and_reads_time_out(upstream: SQLServer) -> None:
    stream = open_at(upstream, here(upstream))
    found = _read_until(stream, lambda events: any(e.type == c.HEARTBEAT_EVENT for e in events))
    started = time.monotonic()
    while stream.read(1 << 20, 0.05):
        assert time.monotonic() < started + 60
    # MariaDB writes a BINLOG_CHECKPOINT some time after an earlier test's FLUSH.
    own = (c.HEARTBEAT_EVENT, c.MARIADB_BINLOG_CHECKPOINT_EVENT)
    assert all(event.artificial for event in found if event.type not in own)
    stream.close()


def test_abort_wakes_a_waiting_reader(upstream: SQLServer) -> None:
    stream = open_upstream(
        upstream.db_config, here(upstream), flavor=upstream.flavor, server_id=77001, use_gtid=False, heartbeat=120
    )
    _read_until(stream, lambda events: any(e.type == c.FORMAT_DESCRIPTION_EVENT for e in events))
    timer = threading.Timer(0.3, stream.abort)
    timer.start()
    started = time.monotonic()
    assert _failure(stream, wait=60).kind is Code.SyncClosed
    assert time.monotonic() < started + 55
    timer.join()
    stream.close()


def test_killed_connection_may_be_opened_again(upstream: SQLServer) -> None:
    start = here(upstream)
    stream = open_at(upstream, start)
    _read_until(stream, lambda events: bool(events))
    assert upstream.end_connections(lambda row: str(row[4]).startswith("Binlog Dump"))
    error = _failure(stream)
    assert error.retryable
    assert error.kind is Code.SyncerGetEvent
    stream.close()
    upstream.execute("CREATE DATABASE again")
    again = open_at(upstream, start)
    _read_until(again, lambda events: any(b"again" in e.data for e in events))
    again.close()


def test_restarted_server_may_be_opened_again(new_mariadb: Callable[..., MariaDBServer]) -> None:
    server = new_mariadb(gtid=True)
    start = here(server)
    stream = open_at(server, start)
    _read_until(stream, lambda events: bool(events))
    server.stop()
    assert _failure(stream).retryable
    with pytest.raises(errors.DMError) as caught:
        open_at(server, start)
    assert caught.value.retryable
    server.start()
    server.execute("CREATE DATABASE after_restart")
    again = open_at(server, start)
    _read_until(again, lambda events: any(b"after_restart" in e.data for e in events))
    again.close()


def test_purged_binlog_needs_a_full_copy(upstream: SQLServer) -> None:
    start = here(upstream)
    upstream.execute("CREATE DATABASE s", "FLUSH LOGS", "CREATE DATABASE s2", "FLUSH LOGS")
    upstream.purge_binlogs()
    for use_gtid in (False, True):
        stream = open_at(upstream, start, use_gtid=use_gtid)
        error = _failure(stream)
        stream.close()
        assert not error.retryable, use_gtid
        assert error.kind is Code.SyncerGetEvent
        assert "copied again" in error.workaround
        assert "1236" in error.message


def test_position_that_never_was(upstream: SQLServer) -> None:
    end = here(upstream)
    stream = open_at(upstream, replace(end, position=Position(end.position.name, 1 << 30)))
    error = _failure(stream)
    assert not error.retryable
    assert "position" in error.message
    stream.close()
    with pytest.raises(errors.DMError, match="4 GiB"):
        open_at(upstream, replace(end, position=Position(end.position.name, 1 << 33)))


def _open_and_fail(cfg: DBConfig, location: Location, flavor: str) -> None:
    """Servers refuse when registering or when dumping."""
    raise _failure(open_upstream(cfg, location, flavor=flavor, server_id=5, use_gtid=False))


def test_user_without_privilege_is_told_what_to_grant(upstream: SQLServer) -> None:
    upstream.execute("CREATE USER reader@'%' IDENTIFIED BY 'pw'")
    try:
        cfg = replace(upstream.db_config, user="reader", password="pw")
        with pytest.raises(errors.DMError) as caught:
            _open_and_fail(cfg, here(upstream), upstream.flavor)
        assert "REPLICATION" in caught.value.workaround
        assert not caught.value.retryable
    finally:
        upstream.execute("DROP USER reader@'%'")


def test_event_of_several_packets(upstream: SQLServer) -> None:
    upstream.execute(
        "CREATE DATABASE s",
        "CREATE TABLE s.src (a INT PRIMARY KEY, b LONGBLOB) ENGINE=MyISAM",
        "CREATE TABLE s.dst LIKE s.src",
    )
    start = here(upstream)
    upstream.execute(
        "INSERT INTO s.src VALUES (1, REPEAT('ab', 9000000)), (2, 'x')", "INSERT INTO s.src VALUES (3, 'y')"
    )
    found = events_between(upstream, start, here(upstream).position)
    changes = decode(upstream, found, "s", "src", [0]).changes
    assert [key for _, key, _, _ in changes] == [b"1", b"2", b"3"]
    conn = upstream.connect()
    with conn.cursor() as cursor:
        for _, _, values, _ in changes:
            cursor.execute(b"INSERT INTO s.dst VALUES " + values)
    assert checksum(conn, "s.src") == checksum(conn, "s.dst")
    conn.close()


@pytest.mark.parametrize("option", ["--binlog-checksum=NONE", "--binlog-checksum=CRC32", "--log-bin-compress=1"])
def test_formats_of_mariadb(new_mariadb: Callable[..., MariaDBServer], option: str) -> None:
    server = new_mariadb(extra=[option, "--log-bin-compress-min-len=10", "--binlog-row-metadata=FULL"])
    server.execute(
        "CREATE DATABASE s", "CREATE TABLE s.src (a INT PRIMARY KEY, b TEXT, c ENUM('x','y'), d SET('p','q'))"
    )
    server.execute("CREATE TABLE s.dst LIKE s.src")
    start = here(server)
    server.execute(
        "INSERT INTO s.src SELECT seq, REPEAT('abc', 100), 1 + seq % 2, seq % 4 FROM s.seq_1_to_500",
        "UPDATE s.src SET b=REPEAT('d', a) WHERE a % 2",
        "DELETE FROM s.src WHERE a > 400",
        "ALTER TABLE s.src COMMENT 'a longer statement that is worth compressing, compressing, compressing'",
    )
    found = events_between(server, start, here(server).position)
    kinds = {event.type for event in found}
    compressed = bool(kinds & c.ROWS_EVENTS_COMPRESSED)
    assert compressed == ("compress" in option)
    assert any("longer statement" in parse_query(e).sql for e in found if e.type in (2, 165))
    maps = [parse_table_map(event) for event in found if event.type == c.TABLE_MAP_EVENT]
    assert maps[0].names == ("a", "b", "c", "d")
    assert maps[0].primary_key == (0,)
    assert maps[0].members == ((b"x", b"y"), (b"p", b"q"))
    conn = server.connect()
    apply_changes(conn, "s.dst", ["a", "b", "c", "d"], ["a"], decode(server, found, "s", "src", [0]).changes)
    assert checksum(conn, "s.src") == checksum(conn, "s.dst")
    conn.close()


def test_formats_before_mysql_5_6(new_mariadb: Callable[..., MariaDBServer]) -> None:
    """Temporal columns of the old form."""
    server = new_mariadb(extra=["--mysql56-temporal-format=OFF"])
    columns = "a INT PRIMARY KEY, t TIME, d DATETIME, s TIMESTAMP NULL"
    server.execute("CREATE DATABASE s", f"CREATE TABLE s.src ({columns})", "CREATE TABLE s.dst LIKE s.src")
    start = here(server)
    server.execute(
        "SET time_zone='-03:00'",
        "INSERT INTO s.src VALUES (1,'-838:59:59','0000-00-00 00:00:00',NULL),(2,'00:00:07','9999-12-31 23:59:59',"
        "'1970-01-02 00:00:01'),(3,NULL,'2024-02-29 12:34:56','2038-01-01 00:00:00')",
    )
    decoded = decode(server, events_between(server, start, here(server).position), "s", "src", [0])
    assert list(decoded.table_map.types) == [3, c.TYPE_TIME, c.TYPE_DATETIME, c.TYPE_TIMESTAMP]
    conn = server.connect()
    apply_changes(conn, "s.dst", ["a", "t", "d", "s"], ["a"], decoded.changes)
    assert checksum(conn, "s.src") == checksum(conn, "s.dst")
    conn.close()


def test_stream_over_tls(new_mariadb: Callable[..., MariaDBServer], tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    subprocess.run([*command, "-out", str(cert), "-keyout", str(key)], check=True, capture_output=True)
    server = new_mariadb(extra=[f"--ssl-cert={cert}", f"--ssl-key={key}"])
    server.execute("CREATE USER safe@'%' REQUIRE SSL", "GRANT ALL ON *.* TO safe@'%'", "CREATE DATABASE s")
    server.execute("CREATE TABLE s.src (a INT PRIMARY KEY, b LONGTEXT)")
    start = here(server)
    server.execute("INSERT INTO s.src SELECT seq, REPEAT('x', 5000) FROM s.seq_1_to_2000")
    cfg = replace(server.db_config, user="safe", security=SecurityConfig(ssl_ca=str(cert)))
    stream = open_upstream(cfg, start, flavor="mariadb", server_id=9, use_gtid=False, heartbeat=0.5)
    found = _read_until(stream, lambda events: any(e.type == c.XID_EVENT for e in events))
    assert sum(len(event.data) for event in found) > 10_000_000
    _read_until(stream, lambda events: any(e.type == c.HEARTBEAT_EVENT for e in events))
    timer = threading.Timer(0.3, stream.abort)
    timer.start()
    assert _failure(stream, wait=60).kind is Code.SyncClosed
    timer.join()
    stream.close()


def test_minimal_row_image_is_refused(upstream: SQLServer) -> None:
    upstream.execute("CREATE DATABASE s", "CREATE TABLE s.src (a INT PRIMARY KEY, b INT)")
    start = here(upstream)
    upstream.execute(
        "INSERT INTO s.src VALUES (1, 2)", "SET SESSION binlog_row_image=MINIMAL", "UPDATE s.src SET b=3 WHERE a=1"
    )
    found = events_between(upstream, start, here(upstream).position)
    with pytest.raises(errors.DMError) as caught:
        decode(upstream, found, "s", "src", [0])
    assert caught.value.kind is Code.BinlogNotLogColumn


def test_statement_based_load_data_is_read_as_a_statement(new_mariadb: Callable[..., MariaDBServer]) -> None:
    server = new_mariadb()
    server.execute("CREATE DATABASE s", "CREATE TABLE s.t (a INT) ENGINE=MyISAM")
    start = here(server)
    path = server.dir / "rows.txt"
    path.write_text("1\n2\n")
    server.execute("SET SESSION binlog_format=STATEMENT", f"LOAD DATA INFILE '{path}' INTO TABLE s.t")
    events = events_between(server, start, here(server).position)
    (found,) = (parse_query(event) for event in events if event.type == c.EXECUTE_LOAD_QUERY_EVENT)
    assert found.sql.startswith("LOAD DATA INFILE")
    assert found.sql.endswith("(`a`)")


def test_gtid_sets_agree_with_the_server(mysql_upstream: MySQLServer) -> None:
    """MySQL's own GTID_SUBSET and GTID_SUBTRACT as the oracle."""
    sources = ["3e11fa47-71ca-11e1-9e33-c80aa9429562", "11111111-2222-3333-4444-555555555555"]
    texts = [
        "",
        f"{sources[0]}:1-10",
        f"{sources[0]}:5",
        f"{sources[0]}:1-4:6-9,{sources[1]}:1",
        f"{sources[1]}:1-3:7-9,{sources[0]}:2-3:3-8",
        f"{sources[0].upper()}:9-20:1",
    ]
    for one in texts:
        for other in texts:
            a, b = MySQLGTIDSet(one), MySQLGTIDSet(other)
            ((subset, rest),) = mysql_upstream.execute(
                f"SELECT GTID_SUBSET('{one}','{other}'), GTID_SUBTRACT('{one}','{other}')"
            )
            assert b.contains(a) == bool(subset)
            assert str(a.subtract(b)) == str(rest).replace("\n", "").lower()


@pytest.mark.parametrize("kind", [MariaDBServer, MySQLServer])
def test_empty_set_is_the_very_beginning(kind: type[SQLServer]) -> None:
    server = kind(gtid=True)
    server.start()
    try:
        server.execute("CREATE DATABASE s", "FLUSH LOGS", "CREATE DATABASE s2")
        stream = open_at(server, Location(Position("", 4)), use_gtid=True)
        found = _read_until(stream, lambda events: sum(e.type in (33, 162) for e in events) == 2)
        stream.close()
        executed = parse_gtid_set("", server.flavor)
        for event in found:
            if event.type in (33, 162):
                executed.add(parse_gtid(event).text)
        assert executed == parse_gtid_set(here(server).gtid_set, server.flavor)
    finally:
        server.cleanup()
