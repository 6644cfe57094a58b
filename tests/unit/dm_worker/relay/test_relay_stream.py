"""Hazard: reading a relay log of several servers from a GTID set or position omits or repeats transactions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.relay.positions import find_position
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.relay_stream import open_relay
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.events import Event, parse_gtid, parse_rotate
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.stream import BinlogStream
from pkg.errors import Code
from tests.sweeps import examples
from tests.unit.dm_worker.relay.relay_log import UUIDS, Log, binlog_file, write_log


def _read_all(stream: BinlogStream) -> list[Event]:
    found: list[Event] = []
    while events := stream.read(1 << 20, 0):
        found += events
    stream.close()
    return found


def _failure(stream: BinlogStream, found: list[Event]) -> errors.DMError:
    """What ends the stream; what it gives before goes to ``found``."""
    with pytest.raises(errors.DMError) as caught:
        _read_on(stream, found)
    stream.close()
    return caught.value


def _read_on(stream: BinlogStream, found: list[Event]) -> None:
    while True:
        found += stream.read(1, 0.05)


def _gtids(events: list[Event]) -> list[str]:
    found = [parse_gtid(event).text for event in events if event.type == c.GTID_EVENT]
    assert len(found) == sum(event.type == c.XID_EVENT for event in events)
    return found


def _open(log: Log, location: Location, *, use_gtid: bool) -> BinlogStream | None:
    return open_relay(log.relay, log.readable_end, location, flavor="mysql", use_gtid=use_gtid, goes_on=lambda: True)


def _by_gtid(log: Log, executed: str) -> BinlogStream | None:
    return _open(log, Location(Position("", 4), executed), use_gtid=True)


SERVERS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=3)


@settings(max_examples=examples(60))
@given(SERVERS, st.data())
def test_a_gtid_set_begins_at_the_first_missing_transaction(servers: list[list[int]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = write_log(Path(folder) / "relay", servers)
        if data.draw(st.booleans()):
            executed = log.gtids[: data.draw(st.integers(0, len(log.gtids)))]
        else:
            # Sets with gaps: of parallel replicas, and of those that passed statements over.
            executed = [gtid for gtid in log.gtids if data.draw(st.booleans())]
        stream = _by_gtid(log, ",".join(executed))
        assert stream is not None
        assert _gtids(_read_all(stream)) == [gtid for gtid in log.gtids if gtid not in executed]


@settings(max_examples=examples(60))
@given(SERVERS, st.data())
def test_a_position_begins_there(servers: list[list[int]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = write_log(Path(folder) / "relay", servers)
        at = data.draw(st.integers(0, len(servers) - 1))
        number = data.draw(st.integers(1, len(servers[at])))
        passed = data.draw(st.integers(0, servers[at][number - 1]))
        offset, begun = 0, sum(map(sum, servers[:at])) + sum(servers[at][: number - 1])
        content = (log.subdirs[at].path / f"bin.{number:06d}").read_bytes()
        offset = len(content) - (servers[at][number - 1] - passed) * (19 + 25 + 4 + 19 + 8 + 4)
        name = f"bin|{log.subdirs[at].suffix:06d}.{number:06d}"
        stream = _open(log, Location(Position(name, offset)), use_gtid=False)
        assert stream is not None
        events = _read_all(stream)
        assert parse_rotate(events[0]) == parse_rotate(events[0]).__class__(offset, f"bin.{number:06d}")
        assert events[1].type == c.FORMAT_DESCRIPTION_EVENT
        assert events[1].artificial
        assert _gtids(events) == log.gtids[begun + passed :]


def test_a_set_between_two_servers_begins_with_the_first_one(tmp_path: Path) -> None:
    """The second server's file names an early set, but was asked for by a late one: it lacks what is between."""
    log = write_log(tmp_path / "relay", [[4], [2]])
    (log.subdirs[1].path / "bin.000001").write_bytes(binlog_file(f"{UUIDS[0]}:1-2", log.gtids[4:]))
    stream = _by_gtid(log, f"{UUIDS[0]}:1-3")
    assert stream is not None
    assert _gtids(_read_all(stream)) == log.gtids[3:]


def test_another_server_whose_file_has_the_same_name_is_another_place(tmp_path: Path) -> None:
    log = write_log(tmp_path / "relay", [[1], [1]])
    stream = _by_gtid(log, "")
    assert stream is not None
    rotations = [event for event in _read_all(stream) if event.type == c.ROTATE_EVENT]
    assert [parse_rotate(event).file for event in rotations] == ["bin.000001", "bin.000001"]
    assert [event.artificial for event in rotations] == [True, False]


def test_what_the_relay_lacks_is_not_read_from_it(tmp_path: Path) -> None:
    log = write_log(tmp_path / "relay", [[2, 2]])
    size = len(binlog_file("", log.gtids[:2]))
    assert _open(log, Location(Position("bin.000001", size)), use_gtid=False) is not None
    for name, offset in (("bin.000001", size + 1), ("bin.000003", 4), ("bin|000002.000001", 4)):
        assert _open(log, Location(Position(name, offset)), use_gtid=False) is None
    (log.subdirs[0].path / "bin.000001").unlink()
    assert _by_gtid(log, f"{UUIDS[0]}:1") is None
    assert _by_gtid(log, f"{UUIDS[0]}:1-2") is not None
    log.readable_end = ReadableEnd()
    assert _by_gtid(log, f"{UUIDS[0]}:1-2") is None


def test_nothing_is_read_after_the_tail(tmp_path: Path) -> None:
    """What lies there may still be cut away."""
    log = write_log(tmp_path / "relay", [[3]])
    content = binlog_file("", log.gtids)
    readable = len(binlog_file("", log.gtids[:2]))
    log.readable_end.moved(log.subdirs[0].name, "bin.000001", readable)
    stream = _by_gtid(log, "")
    assert stream is not None
    found: list[Event] = []
    while events := stream.read(1 << 20, 0):
        found += events
    assert _gtids(found) == log.gtids[:2]
    place = Location(Position("bin.000001", readable + 1))
    end = log.readable_end.end()
    assert end is not None
    assert find_position(log.relay, end, place) is None
    log.readable_end.moved(log.subdirs[0].name, "bin.000001", len(content))
    assert _gtids(stream.read(1 << 20, 10)) == log.gtids[2:]
    stream.close()


def test_a_reader_at_the_end_of_a_stopped_relay_asks_to_be_reopened(tmp_path: Path) -> None:
    log = write_log(tmp_path / "relay", [[1]])
    goes_on = True
    stream = open_relay(
        log.relay, log.readable_end, Location(Position("", 4)), flavor="mysql", use_gtid=True, goes_on=lambda: goes_on
    )
    assert stream is not None
    while stream.read(1 << 20, 0):
        pass
    goes_on = False
    failure = _failure(stream, [])
    assert failure.kind is Code.RelayNoActiveRelayLog
    assert failure.retryable


def test_a_purged_file_in_front_of_a_reader_is_reported(tmp_path: Path) -> None:
    log = write_log(tmp_path / "relay", [[1, 1, 1]])
    stream = _by_gtid(log, "")
    assert stream is not None
    assert stream.read(1, 0)
    for file in ("bin.000001", "bin.000002"):
        (log.subdirs[0].path / file).unlink()
    failure = _failure(stream, [])
    assert failure.kind is Code.RelayNoActiveRelayLog
    assert failure.retryable


def test_a_file_that_is_replaced_under_a_reader_is_reported(tmp_path: Path) -> None:
    """The reader's handle leads to what is no longer there."""
    log = write_log(tmp_path / "relay", [[1]])
    stream = _by_gtid(log, "")
    assert stream is not None
    while stream.read(1 << 20, 0):
        pass
    path = log.subdirs[0].path / "bin.000001"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content + content[-31:])
    log.readable_end.moved(log.subdirs[0].name, path.name, len(content) + 31)
    failure = _failure(stream, [])
    assert (failure.code, failure.retryable) == (30038, True)


@pytest.mark.parametrize(("place", "code"), [(-1, 11071), (-20, 30038), (-22, 11071), (-25, 11071)])
def test_a_damaged_event_is_never_passed_on(tmp_path: Path, place: int, code: int) -> None:
    """Also where it announces more bytes than there are."""
    log = write_log(tmp_path / "relay", [[2]])
    path = log.subdirs[0].path / "bin.000001"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    stream = _by_gtid(log, "")
    assert stream is not None
    found: list[Event] = []
    failure = _failure(stream, found)
    assert failure.code == code
    assert not failure.retryable
    assert [parse_gtid(event).text for event in found if event.type == c.GTID_EVENT] == log.gtids
    assert sum(event.type == c.XID_EVENT for event in found) == 1
