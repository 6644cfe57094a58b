"""Hazard: a duration, a size or an address of a file is read as another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.settings.units import format_duration, parse_duration, parse_size, split_address


@given(st.integers(0, 10**6).map(lambda n: n / 8))
def test_durations_survive_being_written(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("1h2m3.5s", 3723.5), ("500ms", 0.5), ("-5s", -5), (".5m", 30)]
)
def test_go_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (1, "1s"), (300, "5m0s"), (3723.5, "1h2m3.5s"), (0.5, "500ms"), (0.0001, "100µs"), (-5, "-5s")],
)
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize("text", ["", "5", "5 s", "s", "1d", "1h-2m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_sizes() -> None:
    assert parse_size("64", 1 << 20) == parse_size("64MiB") == parse_size("64m") == parse_size("64 MB") == 64 << 20
    assert parse_size("1.5K") == 1536
    for text in ("", "M", "-1", "64X", "1e3"):
        with pytest.raises(ValueError, match="size"):
            parse_size(text)


@pytest.mark.parametrize("text", ["", "a", "a:", "a:b", "a:99999", "::1:80", "http://a:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        split_address(text)
