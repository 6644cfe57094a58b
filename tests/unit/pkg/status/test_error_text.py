"""Hazard: a part of an error's text is lost, or a text of another form is cut."""

from __future__ import annotations

import pytest

from pkg import errors
from pkg.errors import Code
from pkg.status.error_text import ErrorText, parsed_error

_ERROR = errors.new(Code.DiffRefused, "it was never compared", workaround="Compare it.")


def test_an_error_s_text_has_its_parts() -> None:
    full = errors.new(Code.ConfigYamlTransform, "t.yaml:3: no, Message: here", raw="10001, no", workaround="Use all.")
    assert parsed_error(str(full)) == ErrorText("20003", "t.yaml:3: no, Message: here", "10001, no", "Use all.")
    assert parsed_error(str(full)).line == "20003: t.yaml:3: no, Message: here"
    bare = errors.new(Code.ConfigYamlTransform, "two\nlines")
    assert parsed_error(str(bare)) == ErrorText("20003", "two\nlines", "", "")


@pytest.mark.parametrize("text", ["", "no leader", f"{_ERROR}; {_ERROR}", f"source one: {_ERROR}"])
def test_a_text_that_is_not_one_error_stays_as_it_is(text: str) -> None:
    assert parsed_error(text) == ErrorText("", text, "", "")
    assert parsed_error(text).line == text
