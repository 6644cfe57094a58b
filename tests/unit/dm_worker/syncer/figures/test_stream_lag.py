"""Hazard: a reader that stands still, or whose upstream is gone, is shown as being at the end of the binlog."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.figures.lag_reason import READING, SOURCE
from dm_worker.syncer.figures.stream_lag import STALE, StreamWatch
from pkg.status.lag import UNKNOWN, StreamLag

#: What happens in a second; a write has ten bytes.
STEPS = ("write", "read", "read all", "nothing", "away")


@given(st.lists(st.sampled_from(STEPS), max_size=60))
def test_no_step_shows_less_than_the_age_of_the_oldest_unread_event(steps: list[str]) -> None:
    watch, now, read, written = StreamWatch(), 1000, 0, list[int]()
    for step in steps:
        now += 1
        if step == "write":
            written.append(now)
        elif step.startswith("read"):
            read = len(written) if step == "read all" else min(read + 1, len(written))
        if step == "away":
            watch.missed()
        else:
            watch.look(now, newest=written[read - 1] if read else 0, unread=10 * (len(written) - read))
        lag = watch.lag(now, SOURCE, local=False)
        if step == "away":
            assert lag == StreamLag(UNKNOWN, UNKNOWN, "upstream_away")
            continue
        assert lag.unread == 10 * (len(written) - read)
        age = now - written[read] if read < len(written) else 0
        assert lag.seconds >= age or (lag.seconds == UNKNOWN and lag.unread)
        assert (lag.seconds == 0 and lag.reason == "source_idle") or lag.unread


def test_an_upstream_that_hangs_is_not_at_its_old_end_for_ever() -> None:
    watch = StreamWatch()
    assert watch.lag(1000, SOURCE, local=False).seconds == UNKNOWN
    watch.look(1000, newest=0, unread=0)
    assert watch.lag(1000 + STALE - 1, SOURCE, local=False).seconds == 0
    assert watch.lag(1000 + STALE, SOURCE, local=False) == StreamLag(UNKNOWN, UNKNOWN, "upstream_away")


def test_bytes_that_cannot_be_counted_are_not_0() -> None:
    watch = StreamWatch()
    watch.look(1000, newest=990, unread=None)
    assert watch.lag(1001, READING, local=True) == StreamLag(11, UNKNOWN, "reading")
