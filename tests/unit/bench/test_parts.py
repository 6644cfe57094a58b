"""What is asked for is what runs."""

from __future__ import annotations

import pytest

from tests.bench.__main__ import DEFAULT, arguments, chosen, parts


def test_by_default_every_part_with_a_target_runs() -> None:
    known = list(parts(arguments([])))
    assert chosen("", known) == list(DEFAULT)
    assert {"wide", "mixed"} <= set(known) - set(DEFAULT)


def test_parts_run_in_the_order_asked_for_or_all_of_them() -> None:
    known = list(parts(arguments([])))
    assert chosen("oltp,copy", known) == ["oltp", "copy"]
    assert chosen("all", known) == known


def test_an_unknown_part_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no part oltpp; there are .*decode"):
        chosen("oltpp,copy", list(parts(arguments([]))))
