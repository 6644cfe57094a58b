"""Hazard: an expression that operators wrote for Go's engine matches other tables here, so rows go elsewhere."""

from __future__ import annotations

import contextlib
import pickle
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.rules.name_regex import NameRegex


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"^\d$", "\u0663", False),  # classes are ASCII
        (r"^\w$", "é", False),
        (r"^[\D]$", "\u0663", True),
        (r"^\s$", "\v", False),
        (r"a$", "a\n", False),  # the very end
        (r"(?m)a$", "a\nb", True),
        (r"^[[:alpha:]]+$", "shop", True),
        (r"^[[:^alpha:]]+$", "123", True),
        (r"^\p{Greek}$", "σ", True),
        (r"^\Qa.b\E$", "axb", False),
        (r"^\x{e9}$", "é", True),
        (r"^(?P<name>a)(?<other>b)$", "ab", True),
        (r"\bb\b", "a b", True),
        (r"^.$", "\udc80", True),  # what is not a character stands for U+FFFD, as in Go
        ("\ufffd", "\udc80", True),
    ],
)
def test_expressions_have_the_meaning_of_gos_engine(pattern: str, text: str, matches: bool) -> None:
    assert (NameRegex(pattern, case_sensitive=True).search(text) is not None) == matches


@pytest.mark.parametrize(
    "pattern",
    [r"(?=a)", r"(?!a)", r"(?<=a)", r"(?<!a)", r"(?>a)", r"(a)\1", r"(?P=n)", "a++", "a**", r"\Z", r"\C", r"\\\C", "(",
     r"\Qa\E\C", "[b-a]", "a{1001}", "(?#c)", r"[[:no:]]", "\\", "\udc80"],
)  # fmt: skip
def test_what_gos_engine_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        NameRegex(pattern, case_sensitive=True)


def test_a_mistake_is_named() -> None:
    with pytest.raises(ValueError, match=r"regular expression 'a\(': missing \): a\("):
        NameRegex("a(", case_sensitive=True)


def test_an_escaped_backslash_before_c_is_not_a_byte_escape() -> None:
    assert NameRegex(r"^\\C$", case_sensitive=True).search("\\C") is not None


@pytest.mark.parametrize("pattern", [r"^\Qa\C\E$", r"^\Qa\C", r"^\Qa\C\E\Q\E$"])
def test_quoted_text_holds_no_byte_escape(pattern: str) -> None:
    assert NameRegex(pattern, case_sensitive=True).search(r"a\C") is not None


def test_the_search_for_a_byte_escape_takes_linear_time() -> None:
    for part in ("a", r"\\", r"\Q", r"\Qa\E", r"\Q\\E"):
        began = time.process_time()
        with contextlib.suppress(ValueError):  # RE2 bounds the size of a program
            NameRegex(part * 20_000, case_sensitive=True)
        assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [("^SHOP$", "shop", True), ("straße", "STRASSE", False), ("é", "É", True), ("ς", "Σ", True), ("i", "İ", False)],
)
def test_without_case_letters_equal_as_unicode_folds_them(pattern: str, text: str, matches: bool) -> None:
    assert (NameRegex(pattern, case_sensitive=False).search(text) is not None) == matches
    folded = pattern == text
    assert (NameRegex(pattern, case_sensitive=True).search(text) is not None) == folded


def test_groups_are_counted_and_read() -> None:
    regex = NameRegex("^(a)(?:b)(c)?(d)", case_sensitive=True)
    assert regex.groups == 3
    found = regex.search("abd")
    assert found is not None
    assert (found[0], found[1], tuple(found.groups())) == ("abd", "a", ("a", None, "d"))


def test_a_compiled_expression_can_be_sent_to_other_processes() -> None:
    sent = pickle.loads(pickle.dumps(NameRegex("^A(.*)$", case_sensitive=False)))
    assert sent.pattern == "^A(.*)$"
    assert sent.search("abc")[1] == "bc"
    assert pickle.loads(pickle.dumps(NameRegex("A", case_sensitive=True))).search("a") is None


#: What means the same to Python's engine over ASCII text without line ends.
_ATOMS = st.sampled_from(
    ["a", "b", "A", "_", "0", "x", r"\d", r"\w", ".", r"\.", r"\-", "[a-c]", "[^a-c]", r"[\d_]", "^"]
)
_REPEATS = st.sampled_from(["", "", "", "?", "*", "+", "??", "*?", "+?", "{2}", "{0,2}"])


@st.composite
def _patterns(draw: st.DrawFn, depth: int = 0) -> str:
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        if depth < 2 and draw(st.integers(0, 3)) == 0:
            inner = draw(_patterns(depth=depth + 1))
            parts.append(draw(st.sampled_from(["(", "(?:", "(?i:"])) + inner + ")")
        else:
            parts.append(draw(_ATOMS))
        if parts[-1] != "^" and "^" not in parts[-1][1:2] + parts[-1][-2:-1]:
            parts[-1] += draw(_REPEATS)
    text = "".join(parts)
    return f"{text}|{draw(_patterns(depth=depth + 1))}" if depth < 2 and draw(st.integers(0, 4)) == 0 else text


@given(pattern=_patterns(), text=st.text("abcABC_x09.-", max_size=8), case_sensitive=st.booleans())
def test_plain_expressions_find_what_pythons_engine_finds(pattern: str, text: str, case_sensitive: bool) -> None:
    ours = NameRegex(pattern, case_sensitive=case_sensitive).search(text)
    theirs = re.compile(pattern, re.ASCII | (0 if case_sensitive else re.IGNORECASE)).search(text)
    assert (ours and (ours[0], tuple(ours.groups()))) == (theirs and (theirs[0], theirs.groups()))
