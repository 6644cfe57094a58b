"""Threads that serve. Hazard: one that is gone, while everything else goes on as if it were there."""

from __future__ import annotations

import logging
import threading

import pytest

from pkg.etcd import EtcdClient, LeaseKeeper
from pkg.process.service_thread import ServiceThread


class Work:
    """Does what the script says, turn by turn; then serves until it is asked to end."""

    def __init__(self, *script: BaseException | None) -> None:
        self.script = list(script)
        self.stopping = threading.Event()
        self.serving = threading.Event()
        self.turns = 0

    def __call__(self) -> None:
        self.turns += 1
        if not self.script:
            self.serving.set()
            self.stopping.wait()
            return
        failure = self.script.pop(0)
        if failure is not None:
            raise failure


def test_a_loop_that_fails_starts_again_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(ZeroDivisionError("a bug"), None, KeyError("x"))
    thread = ServiceThread("loop", work, work.stopping, first_pause=0.01).start()
    assert work.serving.wait(60)
    assert work.turns == 4
    work.stopping.set()
    assert thread.join(60)
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 3
    texts = [str(vars(record)["fields"]) for record in told]
    assert all(part in text for part, text in zip(("a bug", "ended unexpectedly", "'x'"), texts, strict=True)), texts


def test_who_has_to_end_with_it_is_notified_once() -> None:
    work = Work(ZeroDivisionError("a bug"))
    told: list[BaseException] = []
    thread = ServiceThread("loop", work, work.stopping, on_failure=told.append)
    assert thread.join(), "one that was never started has nothing to end"
    thread.start()
    assert thread.join(60)
    assert [str(failure) for failure in told] == ["a bug"]
    assert work.turns == 1


def test_a_requested_end_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    work = Work()
    thread = ServiceThread("loop", work, work.stopping, on_failure=lambda _: pytest.fail("it was asked for")).start()
    assert work.serving.wait(60)
    assert not thread.join(0.01)
    work.stopping.set()
    assert thread.join(60)
    assert not caplog.records


def test_a_lease_that_is_no_longer_renewed_is_lost() -> None:
    class Broken(EtcdClient):
        def __init__(self) -> None:
            pass

        def lease_grant(self, ttl: int) -> int:
            return 7

        def keepalive(self, lease_id: int, timeout: float | None = None) -> int:
            raise ZeroDivisionError("a bug")

    lost = threading.Event()
    keeper = LeaseKeeper(Broken(), 1, lost.set)
    keeper.start()
    assert lost.wait(60)
    assert not keeper.valid()
    keeper.stop(revoke=False)
