"""Hazard: the collector stays off, and a worker's memory grows with each batch."""

from __future__ import annotations

import gc

import pytest

from pkg.process.garbage import collection_paused


def _fail_within() -> None:
    with collection_paused():
        assert not gc.isenabled()
        raise ValueError("a row")


def test_the_collector_runs_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="a row"):
        _fail_within()
    assert gc.isenabled()


def test_the_outermost_pause_counts() -> None:
    with collection_paused():
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
