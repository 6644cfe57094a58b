"""The model of several executors is of measured parts."""

from __future__ import annotations

import pytest

from tests.bench.figures import Cost
from tests.bench.scale import Parts, parts_of

_PARTS = Parts(driver=2.0, driver_jvm=1.0, executors=10.0, target=8.0, shuffle=100.0)


def test_parts_are_medians_per_row_change() -> None:
    kinds = ("driver", "driver JVM", "executors", "target", "source")
    turns = [(Cost(1.0, dict.fromkeys(kinds, seconds)), size) for seconds, size in ((1.0, 10), (9.0, 90), (2.0, 20))]
    assert parts_of(turns, 1000) == Parts(2000.0, 2000.0, 2000.0, 2000.0, 0.02)


@pytest.mark.parametrize(("executors", "rate"), [(2, 200_000), (4, 400_000), (16, 1_600_000)])
def test_only_the_executors_limit_grows_with_them(executors: int, rate: int) -> None:
    assert _PARTS.limits(executors) == {
        "driver": 500_000,
        "driver JVM": 1_000_000,
        "target core": 125_000,
        "executors": rate,
    }


def test_beyond_some_executors_the_driver_is_the_limit() -> None:
    enough = int(_PARTS.most_executors())
    assert _PARTS.limits(enough)["executors"] == _PARTS.limits(enough)["driver"]
