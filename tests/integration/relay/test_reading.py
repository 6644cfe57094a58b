"""Hazard: a reader of relay files gets other events than the server would send."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.relay.layout import RelayDir, RelayMeta
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.relay_stream import open_relay
from pkg.binlog import constants as c
from pkg.binlog.events import Event, ensure_supported
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.stream import BinlogStream
from tests.harness.running_relay import RunningRelay
from tests.integration.binlog_replay import here, open_at

#: What makes up transactions.
_KINDS = frozenset({c.GTID_EVENT, c.MARIADB_GTID_EVENT, c.QUERY_EVENT, c.TABLE_MAP_EVENT, c.XID_EVENT, *c.ROWS_EVENTS})


@pytest.fixture(params=["mariadb", "mariadb_11_8", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    return server


@dataclass
class Copy:
    """A relay folder with the server's own files."""

    server: SQLServer
    relay: RelayDir
    readable_end: ReadableEnd = field(default_factory=ReadableEnd)

    def __post_init__(self) -> None:
        self.subdir = self.relay.create_subdir("7e427cc0-091c-11e9-9e45-72b7c59d52d7", RelayMeta("", 4, ""))

    def update(self) -> Position:
        """What the server has written until now can be read; where that ends."""
        end = here(self.server).position
        for name, *_ in self.server.execute("SHOW BINARY LOGS"):
            _append_new(self.server.data / name, self.subdir.path / name)
        self.readable_end.moved(self.subdir.name, end.name, end.pos)
        return end

    def open(self, location: Location, *, use_gtid: bool) -> BinlogStream:
        stream = open_relay(
            self.relay, self.readable_end, location, flavor=self.server.flavor, use_gtid=use_gtid, goes_on=lambda: True
        )
        assert stream is not None
        return stream


def _append_new(original: Path, copy: Path) -> None:
    """Readers have the copy open: what they were notified of must be there at any time, so it only grows."""
    with original.open("rb") as source, copy.open("ab") as file:
        source.seek(file.tell())
        shutil.copyfileobj(source, file)


def _transactions(stream: BinlogStream, end: Position, seconds: float = 60) -> list[tuple[int, int, bytes]]:
    """Up to the event that ends at ``end``."""
    found: list[tuple[int, int, bytes]] = []
    while True:
        events = stream.read(1 << 20, seconds)
        assert events, f"nothing came before {end}"
        for event in events:
            ensure_supported(event, stream.file)
            if event.type in _KINDS and not event.artificial:
                found.append((event.type, event.log_pos, event.data))
        if stream.file == end.name and any(event.log_pos == end.pos for event in events):
            stream.close()
            return found


def test_it_reads_as_the_upstream_sends(upstream: SQLServer, tmp_path: Path) -> None:
    upstream.execute("CREATE DATABASE s", "CREATE TABLE s.t (a INT PRIMARY KEY, b LONGBLOB)")
    places = [here(upstream)]
    for i in range(4):
        upstream.execute(f"INSERT INTO s.t VALUES ({i}, 'x'), ({i + 100}, NULL)")
        places.append(here(upstream))
        if i == 1:
            upstream.execute("FLUSH LOGS", f"UPDATE s.t SET b=REPEAT('{i}', 3000000) WHERE a=0")
    copy = Copy(upstream, RelayDir(tmp_path / "relay"))
    end = copy.update()
    for place in places[:-1]:
        for use_gtid in (False, True):
            expected = _transactions(open_at(upstream, place, use_gtid=use_gtid), end)
            assert expected
            assert _transactions(copy.open(place, use_gtid=use_gtid), end) == expected


def test_two_readers_follow_what_is_written(upstream: SQLServer, tmp_path: Path) -> None:
    """One has nothing to read yet, one is behind, and the file changes under both."""
    upstream.execute("CREATE DATABASE s", "CREATE TABLE s.t (a INT PRIMARY KEY)")
    start = here(upstream)
    upstream.execute("INSERT INTO s.t VALUES (1)")
    late = here(upstream)
    copy = Copy(upstream, RelayDir(tmp_path / "relay"))
    copy.update()
    streams = {start: copy.open(start, use_gtid=False), late: copy.open(late, use_gtid=True)}
    upstream.execute("INSERT INTO s.t VALUES (2)", "FLUSH LOGS", "INSERT INTO s.t VALUES (3)")
    end = here(upstream).position
    found: dict[Location, list[tuple[int, int, bytes]]] = {}

    def follow(place: Location) -> None:
        found[place] = _transactions(streams[place], end)

    threads = [threading.Thread(target=follow, args=(place,)) for place in streams]
    for thread in threads:
        thread.start()
    copy.update()
    for thread in threads:
        thread.join(120)
    for place in streams:
        assert found[place] == _transactions(open_at(upstream, place), end)


def test_raw_bytes_go_to_the_scan(upstream: SQLServer, tmp_path: Path) -> None:
    """All ordinary events, from the head of a file to the live end, and only whole ones."""
    upstream.execute("CREATE DATABASE s", "CREATE TABLE s.t (a INT PRIMARY KEY, b LONGBLOB)")
    start = here(upstream)
    upstream.execute("INSERT INTO s.t VALUES (1, REPEAT('x', 2500000))", "FLUSH LOGS", "INSERT INTO s.t VALUES (2, '')")
    copy = Copy(upstream, RelayDir(tmp_path / "relay"))
    end = copy.update()
    scanned: list[bytes] = []

    def scan(raw: bytes, pos: int, packets: bool, checksummed: bool) -> int:
        assert not packets
        while len(raw) - pos >= c.HEADER_SIZE and raw[pos + 4] not in (c.ROTATE_EVENT, c.FORMAT_DESCRIPTION_EVENT):
            size = int.from_bytes(raw[pos + 9 : pos + 13], "little")
            if len(raw) - pos < size:
                break
            scanned.append(raw[pos : pos + size - (4 if checksummed else 0)])
            pos += size
        return pos

    stream = copy.open(start, use_gtid=False)
    events: list[Event] = []
    while not (scanned and int.from_bytes(scanned[-1][13:17], "little") == end.pos and stream.file == end.name):
        events += stream.read(1 << 20, 0.1, scan)
    stream.close()
    assert {event.type for event in events} == {c.ROTATE_EVENT, c.FORMAT_DESCRIPTION_EVENT}
    wanted = [data for _, _, data in _transactions(open_at(upstream, start), end)]
    assert [data for data in scanned if data[4] in _KINDS] == wanted


def test_a_relay_that_is_behind_makes_the_reader_wait(upstream: SQLServer, tmp_path: Path) -> None:
    """What the subtask has, it gets no second time when the relay comes to it."""
    upstream.execute("CREATE DATABASE s", "CREATE TABLE s.t (a INT PRIMARY KEY)")
    copy = Copy(upstream, RelayDir(tmp_path / "relay"))
    copy.update()
    upstream.execute("INSERT INTO s.t VALUES (1)")
    ahead = here(upstream)
    stream = copy.open(ahead, use_gtid=True)
    upstream.execute("INSERT INTO s.t VALUES (2)")
    end = copy.update()
    assert _transactions(stream, end) == _transactions(open_at(upstream, ahead, use_gtid=True), end)


def test_readers_go_on_with_another_server(
    mariadb_upstream: MariaDBServer, successor: MariaDBServer, tmp_path: Path
) -> None:
    """From any transaction of the old server or the new one; the new one's own binlog, which has all, is the oracle."""
    mariadb_upstream.execute("CREATE DATABASE s", "CREATE TABLE s.t (a INT PRIMARY KEY)", "FLUSH LOGS")
    places = [here(mariadb_upstream)]
    folder = tmp_path / "relay"
    with RunningRelay(mariadb_upstream, folder, start_at=lambda: places[0], enable_gtid=True) as relay_log:
        for number in range(3):
            mariadb_upstream.execute(f"INSERT INTO s.t VALUES ({number})")
            places.append(here(mariadb_upstream))
        relay_log.caught_up()
    assert successor.execute(f"SELECT MASTER_GTID_WAIT('{places[-1].gtid_set}', 60)") == [(0,)]
    successor.execute("STOP SLAVE")
    for number in range(3, 6):
        successor.execute(f"INSERT INTO s.t VALUES ({number})", "FLUSH LOGS")
        places.append(here(successor))
    # Longer than the others, so that no other file ends at the same offset.
    successor.execute("INSERT INTO s.t VALUES (6), (7)")
    end = here(successor)
    with RunningRelay(successor, folder, enable_gtid=True) as relay_log:
        relay_log.caught_up()
        assert len(relay_log.folder.subdirs()) == 2
        for place in places:
            stream = open_relay(
                relay_log.folder, relay_log.readable_end, place, flavor="mariadb", use_gtid=True, goes_on=lambda: True
            )
            assert stream is not None
            expected = _gtids(_transactions(open_at(successor, place, use_gtid=True), end.position))
            assert _gtids(_transactions(stream, end.position)) == expected
            assert len(expected) == 7 - places.index(place)


def _gtids(transactions: list[tuple[int, int, bytes]]) -> list[bytes]:
    """Number and domain of each transaction; where it lies differs from server to server."""
    return [data[c.HEADER_SIZE : c.HEADER_SIZE + 12] for kind, _, data in transactions if kind == c.MARIADB_GTID_EVENT]
