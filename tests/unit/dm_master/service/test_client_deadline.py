"""Hazard: an answer comes after its client has given up, or a client without a limit waits without end."""

from __future__ import annotations

import math

from dm_master.service.client_deadline import client_waits, remaining


def test_the_answer_is_due_before_the_client_gives_up() -> None:
    with client_waits(60.0):
        assert 50.0 < remaining(5.0) < 60.0
    assert remaining(5.0) == 5.0


def test_a_client_without_a_limit_has_the_default() -> None:
    for seconds in (None, math.inf):
        with client_waits(seconds):
            assert remaining(5.0) == 5.0


def test_a_client_that_is_about_to_give_up_has_no_time() -> None:
    with client_waits(0.5):
        assert remaining(5.0) == 0.0
