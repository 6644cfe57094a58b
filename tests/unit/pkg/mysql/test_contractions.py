"""Hazards: a string that a contraction makes equal to another gets other bytes; every collation ends in one class."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.mysql.contractions import Points, candidates, coarse_weights, joined, longer

UNITS = [b"\0a", b"\0b", b"\0c", b"\0d", b"\0e", b"\1a"]
WEIGHTS = st.lists(st.sampled_from(UNITS), max_size=4).map(b"".join)


@given(st.lists(st.tuples(WEIGHTS, WEIGHTS), max_size=6), st.lists(WEIGHTS, max_size=1), st.lists(WEIGHTS, max_size=5))
def test_each_pair_has_one_form_and_forms_join(
    pairs: list[tuple[bytes, bytes]], ignored: list[bytes], parts: list[bytes]
) -> None:
    form = coarse_weights(pairs, ignored)
    assert all(form(one) == form(other) for one, other in pairs)
    assert not any(map(form, ignored))
    assert form(b"".join(parts)) == b"".join(map(form, parts))


@pytest.mark.parametrize(
    ("pairs", "kept", "lost"),
    [
        ([], UNITS, []),
        # A letter of two characters: the first stands for it, the second is lost.
        ([(b"\0e", b"\0a\0b")], UNITS[2:4], [b"\0b"]),
        # Two of one character leave nothing of it.
        ([(b"\0e", b"\0a\0a")], UNITS[1:4], [b"\0a", b"\0e"]),
        # A vowel that is written before three consonants: these stay apart.
        ([(c + b"\1a", b"\1a" + c) for c in UNITS[:3]], UNITS[:5], [b"\1a"]),
        # A letter with a mark that weighs nothing by itself.
        ([(b"\0e", b"\0a")], UNITS[:4], []),
    ],
)
def test_no_more_is_lost_than_must_be(pairs: list[tuple[bytes, bytes]], kept: list[bytes], lost: list[bytes]) -> None:
    form = coarse_weights(pairs)
    assert len(set(map(form, kept))) == len(kept)
    assert all(map(form, kept))
    assert not any(map(form, lost))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "ch",
            "cH",
            "aa",
            "d\u017e",
            "l\u00b7",
            "a\u030a",
            "\u00f8\u0301",
            "\u0438\u0306",
            "\u0627\u0653",
            "\u06c1\u0654",
        ),
        *(
            "\u0e40\u0e01",
            "\u0e4d\u0e32",
            "\u0ec0\u0e81",
            "\u304b\u30fc",
            "\u304c\u309d",
            "\u0f71\u0f80",
            "\U00011131\U00011127",
        ),
    ],
)
def test_candidates_are_unicodes_own_contractions_and_those_of_languages(text: str) -> None:
    assert tuple(map(ord, text)) in candidates()


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ("zs", "dzs"),
        ("dz", "dzs"),
        ("cs", "ccs"),
        ("\u0f71\u0f80", "\u0fb2\u0f71\u0f80"),
        ("\u0cc6\u0cc2", "\u0cc6\u0cc2\u0cd5"),
        ("\u304b\u30fc", "\u304b\u30fc\u30fc"),
        ("z\u030c", "dz\u030c"),
        ("\u0fb3\u0f80", "\u0fb3\u0f71\u0f80"),
    ],
)
def test_longer_contractions_are_found_by_the_shorter_within_them(known: str, text: str) -> None:
    assert tuple(map(ord, text)) in longer([tuple(map(ord, known))])


def test_a_sequence_of_known_contractions_is_none_itself() -> None:
    table = {1: b"\0a", 2: b"\0b", 3: b"\0c"}
    known: dict[Points, bytes] = {(1, 2): b"\0x", (2, 3): b"\0y"}
    by_point = [b"", *table.values()]
    assert joined((1, 2, 3), by_point, known) == {b"\0a\0b\0c", b"\0x\0c", b"\0a\0y"}
    chance = random.Random(3)
    for _ in range(50):
        points = tuple(chance.choices((1, 2, 3), k=4))
        assert b"".join(table[point] for point in points) in joined(points, by_point, known)
