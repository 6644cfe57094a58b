"""Hazards: another server's collation is taken for this one's; what was kept grows, or keeps a passing failure."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.rows.known_collations import Key, KnownCollations
from pkg.mysql.collation_weights import CollationWeights

KEYS: list[Key] = [(host, port, version, name) for host in "ab" for port in (1, 2) for version in "56" for name in "xy"]


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=60), st.integers(1, 5))
def test_only_what_was_asked_last_is_known(steps: list[tuple[Key, bool]], limit: int) -> None:
    known = KnownCollations(limit)
    order: list[Key] = []  # of what must be known, the latest last
    for key, answers in steps:
        asked: list[Key] = []

        def ask(key: Key = key, answers: bool = answers, asked: list[Key] = asked) -> CollationWeights | None:
            asked.append(key)
            return CollationWeights(repr(key), b"") if answers else None

        found = known.get(key, ask)
        assert bool(asked) == (key not in order)
        assert found == (CollationWeights(repr(key), b"") if answers or not asked else None)
        if found is not None:
            order = [*(other for other in order if other != key), key][-limit:]


def test_a_lost_connection_is_passed_on_and_forgotten() -> None:
    known = KnownCollations()

    def lost() -> CollationWeights:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        known.get(KEYS[0], lost)
    assert known.get(KEYS[0], lambda: CollationWeights("x", b"")) == CollationWeights("x", b"")


def test_one_slow_server_holds_up_no_other() -> None:
    known = KnownCollations()
    both = Barrier(2)

    def ask() -> CollationWeights:
        both.wait(60)
        return CollationWeights("x", b"")

    threads = [Thread(target=known.get, args=(key, ask)) for key in KEYS[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not both.broken
