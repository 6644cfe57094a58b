"""Hazard: the relay stops where it should continue, continues where it should stop, or loses its position."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer
from dm_worker.relay.layout import META
from dm_worker.relay.purge import NeededFile
from pkg.binlog import constants as c
from pkg.binlog.gtid import MariaDBGTIDSet
from pkg.binlog.position import Location, Position
from pkg.config.model import PurgeConfig
from pkg.errors import Code, DMError
from pkg.pb import dmworker_pb2 as pb
from tests.harness.running_relay import RunningRelay, binlog_end, same_files
from tests.integration.binlog_replay import here

TABLE = ("CREATE DATABASE IF NOT EXISTS r", "CREATE TABLE IF NOT EXISTS r.t (a INT AUTO_INCREMENT PRIMARY KEY, b TEXT)")
ROW = "INSERT INTO r.t (b) VALUES (REPEAT('x', 500))"


def at_a_new_file(server: MariaDBServer | MySQLServer) -> Callable[[], Location | None]:
    server.execute("FLUSH LOGS", *TABLE)
    location = here(server)
    return lambda: location


def test_pauses_restarts_and_lost_connections_leave_whole_files(
    mariadb_upstream: MariaDBServer, tmp_path: Path
) -> None:
    start = at_a_new_file(mariadb_upstream)
    with RunningRelay(mariadb_upstream, tmp_path, start_at=start) as relay_log:
        relay_log.caught_up()
        mariadb_upstream.execute(ROW)
        assert mariadb_upstream.end_connections(lambda row: str(row[4]).startswith("Binlog Dump"))
        mariadb_upstream.execute(ROW)
        relay_log.caught_up()
        relay_log.relay.pause()
        assert relay_log.relay.status().stage == pb.Paused
        mariadb_upstream.execute(ROW, "FLUSH LOGS", ROW)
        relay_log.relay.resume()
        relay_log.caught_up()
    assert relay_log.relay.status().stage == pb.Stopped
    # Another process, with a torn tail and without relay.meta.
    subdir = relay_log.subdir()
    with (subdir.path / subdir.files()[-1]).open("r+b") as file:
        file.seek(-10, 2)
        file.truncate()
    (subdir.path / META).unlink()
    mariadb_upstream.execute(ROW)
    with RunningRelay(mariadb_upstream, tmp_path) as relay_log:
        relay_log.caught_up()
        assert len(same_files(mariadb_upstream, subdir)) == 2
    # Its own end: MariaDB may have written a BINLOG_CHECKPOINT since.
    status = relay_log.relay.status()
    assert status.relaySubDir == subdir.name
    meta = subdir.meta()
    assert meta is not None
    assert str(Position(meta.binlog_name, meta.binlog_pos)) == status.relayBinlog
    assert meta.binlog_pos == (subdir.path / meta.binlog_name).stat().st_size
    assert MariaDBGTIDSet(meta.binlog_gtid) == MariaDBGTIDSet(here(mariadb_upstream).gtid_set)


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_an_upstreams_restart_goes_on_in_its_next_file(
    request: pytest.FixtureRequest, tmp_path: Path, flavor: str
) -> None:
    server = request.getfixturevalue(f"{flavor}_upstream")
    start = at_a_new_file(server)
    with RunningRelay(server, tmp_path, start_at=start, enable_gtid=True) as relay_log:
        relay_log.caught_up()
        server.execute(ROW)
        server.stop()
        server.start()
        server.execute(ROW)
        relay_log.caught_up()
        assert len(same_files(server, relay_log.subdir())) >= 2


def test_with_gtids_another_server_goes_on_in_the_next_sub_folder(
    mariadb_upstream: MariaDBServer, successor: MariaDBServer, tmp_path: Path
) -> None:
    start = at_a_new_file(mariadb_upstream)
    mariadb_upstream.execute(ROW, ROW)
    with RunningRelay(mariadb_upstream, tmp_path, start_at=start, enable_gtid=True) as relay_log:
        before = relay_log.caught_up()
    waited = successor.execute(f"SELECT MASTER_GTID_WAIT('{here(mariadb_upstream).gtid_set}', 60)")
    assert waited == [(0,)]
    successor.execute("STOP SLAVE", ROW, "FLUSH LOGS", ROW)
    with RunningRelay(successor, tmp_path, enable_gtid=True) as relay_log:
        after = relay_log.caught_up()
    old, new = relay_log.folder.subdirs()
    assert (before.relaySubDir, after.relaySubDir) == (old.name, new.name)
    assert (old.suffix, new.suffix) == (1, 2)
    assert new.uuid == f"0-{successor.server_id}"
    assert MariaDBGTIDSet(after.relayBinlogGtid) == MariaDBGTIDSet(here(successor).gtid_set)
    # What the old server sent is not there again, and the hole is one that every reader passes.
    first, second = new.files()
    assert [kind for name in (first, second) for kind in _kinds(new.path / name) if kind in c.ROWS_EVENTS] == [23, 23]
    dumped = subprocess.run(
        ["mariadb-binlog", "--verify-binlog-checksum", str(new.path / first)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ROLLBACK" in dumped.stdout
    # MariaDB may write a BINLOG_CHECKPOINT when nobody looks any more.
    fetched = (new.path / second).read_bytes()
    assert fetched[30:] == (successor.data / second).read_bytes()[30 : len(fetched)]
    # A restart finds the same place and the same set again.
    with RunningRelay(successor, tmp_path, enable_gtid=True) as relay_log:
        assert relay_log.caught_up().relayBinlogGtid == after.relayBinlogGtid


def _kinds(path: Path) -> list[int]:
    """The types of a file's events."""
    data, at, kinds = path.read_bytes(), 4, []
    while at < len(data):
        kinds.append(data[at + 4])
        at += int.from_bytes(data[at + 9 : at + 13], "little")
    assert at == len(data)
    return kinds


def test_without_gtids_another_server_is_an_error_with_a_way_out(
    mariadb_upstream: MariaDBServer, successor: MariaDBServer, tmp_path: Path
) -> None:
    with RunningRelay(mariadb_upstream, tmp_path, start_at=at_a_new_file(mariadb_upstream)) as relay_log:
        relay_log.caught_up()
    with RunningRelay(successor, tmp_path) as relay_log:
        status = relay_log.wait(lambda status: status.stage == pb.Paused)
        (error,) = status.result.errors
        assert error.ErrCode == 30034
        assert "enable-gtid" in error.Workaround
        assert len(relay_log.folder.subdirs()) == 1
        assert relay_log.relay.counts.exits == {True: 0, False: 1}


def test_a_server_that_lacks_what_the_relay_has_is_refused(
    mariadb_upstream: MariaDBServer, successor: MariaDBServer, tmp_path: Path
) -> None:
    assert successor.execute(f"SELECT MASTER_GTID_WAIT('{here(mariadb_upstream).gtid_set}', 60)") == [(0,)]
    successor.execute("STOP SLAVE")
    with RunningRelay(
        mariadb_upstream, tmp_path, start_at=at_a_new_file(mariadb_upstream), enable_gtid=True
    ) as relay_log:
        mariadb_upstream.execute(ROW)
        relay_log.caught_up()
    with RunningRelay(successor, tmp_path, enable_gtid=True) as relay_log:
        status = relay_log.wait(lambda status: status.stage == pb.Paused)
        assert "lacks transactions" in status.result.errors[0].Message


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_an_empty_folder_begins_at_the_file_of_a_gtid_set(
    request: pytest.FixtureRequest, tmp_path: Path, flavor: str
) -> None:
    server = request.getfixturevalue(f"{flavor}_upstream")
    server.execute("FLUSH LOGS", *TABLE, ROW)
    first, gtids = binlog_end(server).name, here(server).gtid_set
    server.execute(ROW, "FLUSH LOGS", ROW)
    with RunningRelay(server, tmp_path, enable_gtid=True, relay_binlog_gtid=gtids) as relay_log:
        relay_log.caught_up()
        same_files(server, relay_log.subdir(), first=first)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("a file system of its own takes root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_pauses_with_a_reason_and_goes_on_when_freed(mysql_upstream: MySQLServer, small_disk: Path) -> None:
    start = at_a_new_file(mysql_upstream)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    with RunningRelay(mysql_upstream, small_disk / "relay", start_at=start) as relay_log:
        relay_log.caught_up()
        mysql_upstream.execute(*["INSERT INTO r.t (b) VALUES (REPEAT('x', 60000))"] * 22)
        status = relay_log.wait(lambda status: status.stage == pb.Paused)
        (error,) = status.result.errors
        assert error.ErrCode == 30025
        assert "No space left" in error.Message
        ballast.unlink()
        relay_log.wait(lambda status: status.relayCatchUpMaster and status.stage == pb.Running)
        same_files(mysql_upstream, relay_log.subdir())


def test_purge_stops_before_what_is_needed(mariadb_upstream: MariaDBServer, tmp_path: Path) -> None:
    needed: list[NeededFile] = []
    with RunningRelay(
        mariadb_upstream, tmp_path, start_at=at_a_new_file(mariadb_upstream), needed=lambda: needed
    ) as relay_log:
        mariadb_upstream.execute(ROW, "FLUSH LOGS", ROW, "FLUSH LOGS", ROW)
        subdir = relay_log.caught_up().relaySubDir
        first, second, third = relay_log.subdir().files()
        needed.append(NeededFile(subdir, second))
        with pytest.raises(DMError, match="still needed"):
            relay_log.relay.purge(filename=third)
        assert relay_log.relay.purge(filename=second) == 1
        needed.clear()
        # The file that is written to stays, whoever asks.
        assert relay_log.relay.purge(inactive=True) == 1
        assert relay_log.subdir().files() == [third]
        with pytest.raises(DMError) as caught:
            relay_log.relay.purge(filename=first, inactive=True)
        assert caught.value.kind is Code.RelayPurgeRequestNotValid
        mariadb_upstream.execute(ROW)
        relay_log.caught_up()
        same_files(mariadb_upstream, relay_log.subdir())


def test_a_full_disk_is_purged_regularly(mariadb_upstream: MariaDBServer, tmp_path: Path) -> None:
    # More than any disk has free: everything that is not needed goes at once.
    rules = PurgeConfig(interval=1, remain_space=1 << 20)
    with RunningRelay(mariadb_upstream, tmp_path, start_at=at_a_new_file(mariadb_upstream), purge=rules) as relay_log:
        mariadb_upstream.execute(ROW, "FLUSH LOGS", ROW, "FLUSH LOGS", ROW)
        last = binlog_end(mariadb_upstream).name
        relay_log.caught_up()
        relay_log.wait(lambda _: relay_log.subdir().files() == [last])
        same_files(mariadb_upstream, relay_log.subdir())
