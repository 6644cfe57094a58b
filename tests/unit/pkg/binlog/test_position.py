"""Hazard: a binlog file's name is taken for another's: the upstream's and DM's names of relay files."""

from __future__ import annotations

import pytest

from pkg.binlog.position import (
    Location,
    Position,
    bytes_between,
    file_number,
    parse_position,
    relay_suffix,
    upstream_name,
)


@pytest.mark.parametrize(
    ("name", "suffix", "plain"),
    [
        ("mysql-bin|000001.000003", 1, "mysql-bin.000003"),
        ("a.b|000012.1000000", 12, "a.b.1000000"),
        ("x|y|1000000.000001", 1000000, "x|y.000001"),
        ("mysql-bin.000003", 0, "mysql-bin.000003"),
        ("mysql|bin.000003", 0, "mysql|bin.000003"),
        ("mysql-bin|01.000003", 0, "mysql-bin|01.000003"),
        ("", 0, ""),
    ],
)
def test_relay_names_show_sub_folder_and_upstream_file(name: str, suffix: int, plain: str) -> None:
    assert (relay_suffix(name), upstream_name(name)) == (suffix, plain)
    if name:
        assert file_number(name) == file_number(plain)
    assert Location(Position(name, 7), "g", 2).of_upstream() == Location(Position(plain, 7), "g", 2)


def test_relay_positions_are_ordered_by_sub_folder_first() -> None:
    texts = ["(b|000001.000009, 9)", "(b|000002.000001, 4)", "(b|000002.000001, 5)", "(b|000010.000001, 4)"]
    places = [parse_position(text) for text in texts]
    for i, first in enumerate(places):
        for j, second in enumerate(places):
            assert (first < second) == (i < j)
            assert (first <= second) == (i <= j)


def test_an_upstream_position_is_compared_with_a_relay_position_of_the_same_server() -> None:
    assert Position("b.000002", 4) < Position("b|000001.000002", 5)
    assert Position("b|000001.000002", 4) <= Position("b.000002", 4) <= Position("b|000001.000002", 4)
    assert Position("b|000003.000001", 9) < Position("b.000002", 4)


SIZES = {"b.000009": 100, "b.000010": 1000, "b.000011": 50}


@pytest.mark.parametrize(
    ("here", "end", "behind"),
    [
        (("b.000010", 4), ("b.000010", 900), 896),
        (("b.000010", 900), ("b.000010", 4), 0),  # applied after the upstream was asked
        (("b.000009", 90), ("b.000011", 30), 10 + 1000 + 30),
        (("b.000008", 90), ("b.000011", 30), None),
        (("b.000011", 90), ("b.000012", 30), None),
    ],
)
def test_bytes_behind_over_several_files(here: tuple[str, int], end: tuple[str, int], behind: int | None) -> None:
    assert bytes_between(Position(*here), Position(*end), SIZES) == behind
