"""Hazard: an old answer counts as the upstream's end, or a hanging upstream holds up a status."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from deploy.local.process import wait_until
from dm_worker.relay import upstream_end
from dm_worker.relay.upstream_end import BinlogTail, UpstreamEnd
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.config.model import SourceConfig
from pkg.errors import Code
from pkg.settings.connections import DBConfig

SERVER = DBConfig(host="127.0.0.1", port=1)


SOURCE = SourceConfig(source_id="s1", from_=SERVER)


def _end(pos: int) -> BinlogTail:
    return BinlogTail(Location(Position("bin.000001", pos)))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status waits for the upstream's answer, however long a thread takes to start."""
    monkeypatch.setattr(upstream_end, "ANSWER_TIMEOUT", 60.0)


@pytest.mark.usefixtures("patient")
def test_the_upstreams_position_is_that_of_now() -> None:
    """A second-old end would call a subtask synced although the upstream has gone on."""
    asked: list[int] = []

    def query(source: SourceConfig) -> BinlogTail:
        asked.append(1)
        return _end(len(asked))

    position = UpstreamEnd(SOURCE, query=query)
    assert position.get() == (_end(1), True)
    assert position.get() == (_end(2), True)


@pytest.mark.usefixtures("patient")
def test_calls_at_the_same_time_share_a_question_asked_after_them() -> None:
    begun, release = threading.Event(), threading.Event()
    asked: list[int] = []

    def query(source: SourceConfig) -> BinlogTail:
        asked.append(1)
        if len(asked) == 1:
            begun.set()
            assert release.wait(60)
        return _end(len(asked))

    position = UpstreamEnd(SOURCE, query=query)
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(position.get)
        assert begun.wait(60)
        later = [pool.submit(position.get) for _ in range(4)]
        waiting = position._changed._waiters  # type: ignore[attr-defined]
        wait_until(lambda: len(waiting) == 5, "all calls wait", step=0.001)
        release.set()
        assert first.result()[1]
        assert [one.result() for one in later] == [(_end(2), True)] * 4
    assert len(asked) == 2


def test_a_hanging_upstream_does_not_hold_up_a_status() -> None:
    release = threading.Event()
    asked: list[int] = []

    def query(source: SourceConfig) -> None:
        asked.append(1)
        release.wait(30)

    position = UpstreamEnd(SOURCE, query=query)
    began = time.monotonic()
    assert position.get() == (None, False)
    assert position.get() == (None, False)
    assert time.monotonic() - began < 20
    assert len(asked) == 1, "one question at a time"
    release.set()


@pytest.mark.usefixtures("patient")
def test_an_upstream_that_refuses_has_no_position() -> None:
    def query(source: SourceConfig) -> BinlogTail:
        raise errors.new(Code.DBDriverError, "connect: connection refused")

    assert UpstreamEnd(SOURCE, query=query).get() == (None, True)
