"""Hazard: bytes that are no character of a Japanese charset are read as one, and the text changes without an error."""

from __future__ import annotations

import pytest

from pkg.binlog.multi_byte_charsets import DECODE


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("ujis", b"\xf5\xa1", "\ue000"),
        ("ujis", b"\x8f\xfe\xfe", "\ue757"),
        ("eucjpms", b"a\xad\xa1b", "a①b"),
        ("eucjpms", b"\x8f\xf3\xf3\x8f\xf4\xfe", "ⅰ黑"),
        ("eucjpms", b"\x8f\xa2\xb7", "～"),
    ],
)
def test_codes_that_python_lacks_are_read(charset: str, data: bytes, text: str) -> None:
    assert DECODE[charset](data) == text


@pytest.mark.parametrize("charset", ["ujis", "eucjpms"])
@pytest.mark.parametrize(
    "data",
    [b"\xfcb", b"\xf5", b"\xf5\xa0", b"\xff\xa1", b"\x8f\xf5b", b"\x8f\xf5", b"\xadb", b"\xad", b"\x8f\xf3b", b"\x8f"],
)
def test_what_is_no_character_is_refused(charset: str, data: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        DECODE[charset](data)
