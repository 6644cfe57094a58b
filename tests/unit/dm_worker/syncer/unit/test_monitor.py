"""Hazards: progress that promises an end which never comes, or counts bytes wrongly over a rotation of the binlog."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dm_worker.syncer.figures import lag_reason as reasons
from dm_worker.syncer.figures.lag_reason import TargetState
from dm_worker.syncer.figures.sync_figures import SyncFigures
from dm_worker.syncer.unit import monitor
from dm_worker.syncer.unit.monitor import Monitor, RunSnapshot
from pkg.binlog.position import Location, Position
from pkg.errors import Code, new

SIZES = {"b.000009": 100, "b.000010": 1000, "b.000011": 50}


class _Upstream:
    """Its binlog ends at ``end``."""

    def __init__(self) -> None:
        self.end = Position("b.000010", 1000)
        self.sizes = dict(SIZES)
        self.asked = 0
        self.away = False

    def end_of_binlog(self, flavor: str) -> Location:
        if self.away:
            raise new(Code.DBBadConn, "away", retryable=True)
        return Location(self.end)

    def binlog_files(self) -> dict[str, int]:
        self.asked += 1
        return self.sizes

    def now(self) -> float:
        return 0.0

    def close(self) -> None: ...


class _Target:
    """Is in ``is_in``."""

    def __init__(self) -> None:
        self.is_in = TargetState.ANSWERS
        self.asked = 0

    def state(self) -> TargetState:
        self.asked += 1
        return self.is_in


class _Scene:
    """A monitor whose clock and parts the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = 1000.0
        self.lines: list[dict[str, Any]] = []
        self.upstream = _Upstream()
        self.snapshot = RunSnapshot(flushed=Location(Position("b.000009", 60)), batch_bytes=77)
        monkeypatch.setattr(monitor, "time", SimpleNamespace(monotonic=lambda: self.time, time=lambda: self.time))
        monkeypatch.setattr(monitor.log, "info", lambda _, **values: self.lines.append(values))
        self.figures = SyncFigures(lambda: self.time)
        self.target = _Target()
        self.monitor = Monitor(
            self.upstream,  # type: ignore[arg-type]
            "mariadb",
            lambda: self.snapshot,
            by_gtid=False,
            target=self.target,  # type: ignore[arg-type]
            figures=self.figures,
        )

    def pass_seconds(self, seconds: int, rows: int = 0, advance: int = 0) -> None:
        for _ in range(seconds):
            self.time += 1
            self.snapshot.rows += rows
            assert self.snapshot.flushed is not None
            place = self.snapshot.flushed.position
            self.snapshot.flushed = Location(Position(place.name, place.pos + advance))
            self.monitor._tick()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> _Scene:
    return _Scene(monkeypatch)


def test_progress_shows_speed_bytes_behind_and_the_end_at_this_speed(scene: _Scene) -> None:
    scene.pass_seconds(29, rows=5, advance=1)
    assert scene.lines == []
    scene.pass_seconds(1, rows=5, advance=1)
    (line,) = scene.lines
    assert (line["rows"], line["rows_per_second"], line["batch_bytes"]) == (150, 5, 77)
    assert line["bytes_behind"] == 100 - 90 + 1000
    assert line["eta"] == "1010s"
    assert scene.upstream.asked == 1, "closed files keep their sizes"


def test_a_backlog_that_grows_faster_than_it_is_applied_has_no_end(scene: _Scene) -> None:
    for _ in range(30):
        scene.upstream.end = Position("b.000010", scene.upstream.end.pos + 9)
        scene.pass_seconds(1, rows=5, advance=1)
    assert scene.lines[0]["eta"] == "unknown"


def test_what_is_not_known_is_not_made_up(scene: _Scene) -> None:
    scene.upstream.end = Position("b.000099", 4)
    scene.pass_seconds(30, rows=1)
    assert (scene.lines[0]["bytes_behind"], scene.lines[0]["eta"]) == ("unknown", "unknown")


def test_caught_up_and_idle_says_nothing(scene: _Scene) -> None:
    scene.snapshot.flushed = Location(scene.upstream.end)
    scene.pass_seconds(30, rows=2)
    assert scene.lines[0]["eta"] == "0s"
    scene.pass_seconds(90)
    assert len(scene.lines) == 1


def test_an_upstream_that_is_away_does_not_end_the_watch(scene: _Scene) -> None:
    scene.upstream.away = True
    scene.pass_seconds(31, rows=1)
    assert scene.lines[0]["bytes_behind"] == "unknown"
    assert isinstance(scene.monitor.status().totalRows, int)


def test_a_job_that_lasts_asks_the_target_what_it_does(scene: _Scene) -> None:
    scene.figures.began()
    scene.figures.applying.clock.switch(reasons.JOB)
    scene.pass_seconds(1)
    assert (scene.target.asked, scene.figures.reason) == (0, "engine")
    for state, reason in (
        (TargetState.ANSWERS, "engine"),
        (TargetState.BUSY, "target_slow"),
        (TargetState.AWAY, "retry"),
    ):
        scene.target.is_in = state
        scene.pass_seconds(1)
        assert scene.figures.reason == scene.monitor.status().lagReason == reason
    assert scene.target.asked == 3
    scene.figures.applying.clock.switch(reasons.WAITING)
    scene.pass_seconds(3)
    assert scene.target.asked == 3, "a run that waits for the source does not ask"


def test_a_source_whose_events_do_not_arrive_is_not_idle(scene: _Scene) -> None:
    scene.figures.began()
    scene.figures.applying.clock.switch(reasons.WAITING)
    scene.snapshot.flushed = Location(scene.upstream.end)
    scene.pass_seconds(5)
    assert scene.figures.reason == "source_idle"
    scene.upstream.end = Position("b.000010", 1100)
    scene.pass_seconds(2)
    assert scene.figures.reason == "source_idle", "they may be on their way"
    scene.pass_seconds(2)
    assert scene.figures.reason == "reading"
    scene.snapshot.flushed = Location(scene.upstream.end)
    scene.pass_seconds(2)
    assert scene.figures.reason == "source_idle"


def test_what_was_not_read_counts_as_lag(scene: _Scene) -> None:
    scene.figures.began()
    scene.snapshot.flushed = Location(scene.upstream.end)
    scene.pass_seconds(3)
    status = scene.monitor.status()
    assert (status.secondsBehindMaster, status.bytesBehind, status.eta) == (0, 0, "0s")
    # Nothing is in hand: the planning thread waits, or the stream cannot be opened.
    scene.upstream.end = Position("b.000010", 1400)
    scene.pass_seconds(30)
    status = scene.monitor.status()
    assert status.secondsBehindMaster >= 29
    assert (status.bytesBehind, status.eta, status.synced) == (400, "unknown", False)


def test_a_run_that_read_nothing_says_that_its_lag_is_unknown(scene: _Scene) -> None:
    scene.figures.began()
    scene.pass_seconds(3)
    assert scene.monitor.status().secondsBehindMaster == -1
    assert scene.figures.lag.count == 0


def test_a_run_that_was_at_the_end_knows_nothing_after_it_ended(scene: _Scene) -> None:
    scene.figures.began()
    scene.snapshot.flushed = Location(scene.upstream.end)
    scene.pass_seconds(3)
    scene.monitor._end.set()
    scene.figures.ended()
    status = scene.monitor.status()
    assert (status.secondsBehindMaster, status.bytesBehind, status.eta) == (-1, -1, "unknown")


def test_the_position_stays_before_a_ddl_that_waits_for_its_shards(scene: _Scene) -> None:
    scene.snapshot.flushed = Location(scene.upstream.end)
    scene.snapshot.needed = Location(Position("b.000010", 600))
    assert scene.monitor.status().syncerBinlog == "(b.000010, 600)"


def test_the_reader_is_behind_by_the_newest_event_that_it_has_read(scene: _Scene) -> None:
    scene.figures.began()
    scene.snapshot.read, scene.snapshot.newest = Position("b.000009", 60), 990
    scene.figures.reading.clock.switch(reasons.READING)
    scene.pass_seconds(3)
    status = scene.monitor.status()
    # The upstream's clock is 1000 s behind ours.
    assert status.streamBytesBehind == 40 + 1000
    assert (status.streamSecondsBehind, status.streamLagReason) == (0, "reading")
    scene.monitor._clock_offset = 0
    scene.pass_seconds(7)
    status = scene.monitor.status()
    assert (status.streamSecondsBehind, status.streamBytesBehind) == (20, 1040)


def test_a_reader_that_waits_for_the_target_says_so(scene: _Scene) -> None:
    scene.figures.began()
    scene.snapshot.read, scene.snapshot.newest = Position("b.000009", 70), 990
    for stage, reason in (
        (reasons.HANDING, "applying"),
        (reasons.PLANNING, "planning"),
        (reasons.REOPENING, "retry"),
        (reasons.SOURCE, "reading"),
    ):
        scene.figures.reading.clock.switch(stage)
        scene.pass_seconds(1)
        assert scene.monitor.status().streamLagReason == reason
    scene.snapshot.local = True
    assert scene.monitor.status().streamLagReason == "relay"
    # All is read; it is not applied yet.
    scene.snapshot.read = scene.upstream.end
    scene.pass_seconds(1)
    status = scene.monitor.status()
    assert (status.streamSecondsBehind, status.streamBytesBehind) == (0, 0)
    assert status.streamLagReason == "source_idle"
    assert status.bytesBehind > 0


def test_an_upstream_that_is_away_may_have_written(scene: _Scene) -> None:
    scene.figures.began()
    scene.snapshot.flushed = Location(scene.upstream.end)
    scene.snapshot.read = scene.upstream.end
    scene.pass_seconds(3)
    status = scene.monitor.status()
    assert (status.bytesBehind, status.streamSecondsBehind, status.streamBytesBehind) == (0, 0, 0)
    scene.upstream.away = True
    scene.pass_seconds(1)
    status = scene.monitor.status()
    assert (status.bytesBehind, status.eta) == (-1, "unknown")
    assert (status.streamSecondsBehind, status.streamBytesBehind) == (-1, -1)
    assert status.streamLagReason == "upstream_away"


def test_what_a_stopped_run_has_read_is_read_again(scene: _Scene) -> None:
    scene.figures.began()
    scene.snapshot.read, scene.snapshot.newest, scene.snapshot.oldest_commit = scene.upstream.end, 995, 990
    scene.pass_seconds(3)
    assert scene.monitor.status().streamSecondsBehind == 0
    scene.monitor._end.set()
    scene.figures.ended()
    status = scene.monitor.status()
    assert status.streamSecondsBehind == status.secondsBehindMaster
    assert (status.streamBytesBehind, status.streamLagReason) == (-1, "stopped")
