"""Hazard: a subtask reads a relay log that is stopped, behind or damaged, or never returns to a good one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm_worker.relay import source_selection
from dm_worker.relay.layout import RelayDir
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.source_selection import RelayReader
from pkg import errors
from pkg.binlog.events import Event
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.stream import BinlogStream, RawScan
from tests.unit.dm_worker.relay.relay_log import UUIDS, Log, write_log


class FakeRelay:
    """A relay whose state a test sets."""

    def __init__(self, log: Log) -> None:
        self.folder: RelayDir = log.relay
        self.readable_end: ReadableEnd = log.readable_end
        self.runs = self.has_all = True
        self.gtids = ",".join(log.gtids)

    def goes_on(self) -> bool:
        return self.runs

    def executed(self) -> str:
        return self.gtids

    def caught_up(self) -> bool:
        return self.has_all


class FakeUpstream:
    file = "bin.000001"

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        return []

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Clock:
    """Goes on by a second each time it is looked at."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRelay:
    monkeypatch.setattr(source_selection, "_POLL", 0)
    return FakeRelay(write_log(tmp_path / "relay", [[2, 2]]))


def reader(pulled: FakeRelay, clock: Clock | None = None) -> RelayReader:
    return RelayReader(pulled, "mysql", clock=clock or Clock())


START = Location(Position("bin.000001", 4), f"{UUIDS[0]}:1")


def read_on(stream: BinlogStream) -> errors.DMError:
    with pytest.raises(errors.DMError) as caught:
        _exhaust(stream)
    stream.close()
    return caught.value


def _exhaust(stream: BinlogStream) -> None:
    for _ in range(1000):
        stream.read(1 << 20, 0.02)


@pytest.mark.parametrize("use_gtid", [False, True])
def test_the_relay_log_is_read_where_it_holds_what_follows(pulled: FakeRelay, use_gtid: bool) -> None:
    stream = reader(pulled).open(START, use_gtid=use_gtid)
    assert stream is not None
    stream.close()


@pytest.mark.parametrize("use_gtid", [False, True])
def test_a_relay_that_is_behind_for_long_is_not_waited_for(pulled: FakeRelay, use_gtid: bool) -> None:
    ahead = Location(Position("bin.000003", 4), f"{UUIDS[0]}:1-5")
    clock = Clock()
    assert reader(pulled, clock).open(ahead, use_gtid=use_gtid) is None
    assert source_selection.CATCH_UP_TIMEOUT < clock.now < source_selection.CATCH_UP_TIMEOUT + 10
    pulled.readable_end = ReadableEnd()
    assert reader(pulled).open(START, use_gtid=use_gtid) is None


def test_a_stopped_relay_sends_its_readers_to_the_upstream(pulled: FakeRelay) -> None:
    found = reader(pulled)
    stream = found.open(START, use_gtid=True)
    assert stream is not None
    pulled.runs = False
    failure = read_on(stream)
    assert (failure.code, failure.retryable) == (30038, True)
    assert found.open(START, use_gtid=True) is None


def test_a_damaged_relay_log_sends_its_reader_to_the_upstream(pulled: FakeRelay) -> None:
    """The task does not stop, and does not come back at once."""
    (subdir,) = pulled.folder.subdirs()
    path = subdir.path / "bin.000002"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    clock = Clock()
    found = reader(pulled, clock)
    stream = found.open(START, use_gtid=False)
    assert stream is not None
    failure = read_on(stream)
    assert (failure.code, failure.retryable) == (11071, True)
    assert found.open(START, use_gtid=False) is None
    clock.now += source_selection.DISTRUST_PERIOD
    again = found.open(START, use_gtid=False)
    assert again is not None
    again.close()


def test_a_reader_of_the_upstream_comes_back_when_the_relay_has_caught_up(pulled: FakeRelay) -> None:
    pulled.has_all = False
    found = reader(pulled)
    stream = found.watched(FakeUpstream())
    for _ in range(50):
        assert stream.read(1, 0) == []
    pulled.has_all = True
    failure = read_on(stream)
    assert (failure.code, failure.retryable) == (36069, True)


def test_a_reader_that_the_relay_log_can_not_serve_stays_with_the_upstream(pulled: FakeRelay) -> None:
    (subdir,) = pulled.folder.subdirs()
    (subdir.path / "bin.000001").unlink()
    found = reader(pulled)
    assert found.open(START, use_gtid=True) is None
    stream = found.watched(FakeUpstream())
    for _ in range(50):
        assert stream.read(1, 0) == []
