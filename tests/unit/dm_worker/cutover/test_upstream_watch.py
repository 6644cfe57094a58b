"""Hazard: a lost connection hides writes after a cutover, or counts them twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.local.process import wait_until
from dm_worker.cutover import upstream_watch
from dm_worker.cutover.upstream_watch import UpstreamWatch
from pkg import errors
from pkg.binlog.events import Event
from pkg.binlog.position import Location, Position
from pkg.config.model import LoaderConfig, SubTaskConfig
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb
from pkg.rules.model import BlockAllowList
from pkg.settings.connections import DBConfig
from tests.unit.dm_worker.syncer.planning.support import Log

_AGREED = Location(Position("bin.000001", 4), "")


class _Upstream:
    """Each connection gives all events from the start, then fails or waits."""

    def __init__(self, log: Log, *, failures: int) -> None:
        self._log = log
        self.failures = failures
        self.opened: list[Location] = []

    def open(self, _: DBConfig, location: Location, **_more: object) -> _Stream:
        self.opened.append(location)
        return _Stream(self, list(self._log.events))

    def refuse(self) -> None:
        if self.failures:
            self.failures -= 1
            raise errors.new(Code.SyncClosed, "the connection is lost")


class _Stream:
    file = "bin.000001"

    def __init__(self, upstream: _Upstream, events: list[Event]) -> None:
        self._upstream = upstream
        self._events = events

    def read(self, max_bytes: int, timeout: float) -> Sequence[Event]:
        events, self._events = self._events, []
        if not events:
            self._upstream.refuse()
        return events

    def close(self) -> None:
        pass


def _watch(monkeypatch: pytest.MonkeyPatch, folder: Path, upstream: _Upstream) -> UpstreamWatch:
    monkeypatch.setattr(upstream_watch, "open_upstream", upstream.open)
    monkeypatch.setattr(upstream_watch, "_RETRY", 0.01)
    config = SubTaskConfig(
        "task",
        "one",
        "all",
        DBConfig("up", 3306),
        DBConfig("down", 4000),
        loader=LoaderConfig(dir=str(folder / "data")),
        block_allow_list=BlockAllowList(do_dbs=("app",)),
    )
    return UpstreamWatch(config, _AGREED, "")


def _log(*statements: bytes) -> Log:
    log = Log()
    for sql in statements:
        log.query(sql, b"app")
    return log


def _lines(status: pb.CutoverWatchStatus) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(status.file).read_text().splitlines()]


def test_lost_connections_neither_hide_nor_double_a_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    upstream = _Upstream(_log(b"TRUNCATE TABLE t", b"DROP TABLE t"), failures=3)
    watch = _watch(monkeypatch, tmp_path, upstream)
    assert watch.status().problem
    watch.start()
    try:
        # The problem of the lost connection stays until the next one is read.
        wait_until(lambda: len(upstream.opened) == 4 and not watch.status().problem, "the last connection is read", 60)
        status = watch.status()
        assert (status.writes, len(status.first), len(_lines(status))) == (2, 2, 2)
        assert upstream.opened == [_AGREED] * 4
        assert status.lastWrite == "1970-01-01 00:01:40"
    finally:
        watch.stop()
        watch.join(60)


def test_the_file_is_bounded_and_the_count_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(upstream_watch, "MOST_BYTES", 500)
    watch = _watch(monkeypatch, tmp_path, _Upstream(_log(*[b"TRUNCATE TABLE t"] * 50), failures=0))
    watch.start()
    try:
        wait_until(lambda: watch.status().writes == 50, "all writes are counted", 60)
        status = watch.status()
        assert 0 < len(_lines(status)) < 10
        assert len(status.first) == 10
    finally:
        watch.stop()
        watch.join(60)


def test_an_upstream_at_rest_has_no_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    watch = _watch(monkeypatch, tmp_path, _Upstream(_log(b"FLUSH TABLES"), failures=0))
    watch.start()
    try:
        wait_until(lambda: not watch.status().problem, "the binlog is read", 60)
        assert (watch.status().writes, watch.status().file) == (0, "")
    finally:
        watch.stop()
        watch.join(60)
