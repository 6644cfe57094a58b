"""Hazard: a default's bytes are taken for another column's, or for a comment's; or they change on their way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pkg.ddl.columns import bytes_of
from pkg.mysql.shown_literals import as_text, doubtful_defaults

_TABLE = (
    b"CREATE TABLE `t``?'` (\n"
    b"  `id` int(11) NOT NULL COMMENT ' DEFAULT ''?',\n"
    b"  `a``b` varchar(9) DEFAULT 'x?' COMMENT ' DEFAULT \\\\',\n"
    b"  `e` enum('?','\xff') CHARACTER SET binary DEFAULT '?',\n"
    b"  `b` binary(4) NOT NULL DEFAULT '\\0\xff''?',\n"
    b"  `c` int(11) DEFAULT 7,\n"
    b"  `d` varchar(9) DEFAULT concat('?'),\n"
    b"  KEY `DEFAULT '?'` (`b`)\n"
    b") COMMENT=' DEFAULT ''?'''\n"
    b" PARTITION BY LIST COLUMNS (`b`) (PARTITION `p` VALUES IN ('\xfe'))"
)


def test_only_defaults_of_text_are_in_doubt() -> None:
    assert doubtful_defaults(_TABLE) == ["a`b", "e"]


def test_bytes_become_hex_and_known_defaults_are_written() -> None:
    text = as_text(_TABLE, {"a`b": "x😀'\\"})
    assert r"`a``b` varchar(9) DEFAULT 'x😀''\\' COMMENT ' DEFAULT \\'," in text
    assert "`e` enum('?',x'ff') CHARACTER SET binary DEFAULT '?'" in text
    assert "`b` binary(4) NOT NULL DEFAULT x'00ff273f'" in text
    assert "VALUES IN (x'fe')" in text
    assert text.count("DEFAULT ''?") == 2
    assert "concat('?')" in text


_SHOWN = {0: b"\\0", 10: b"\\n", 13: b"\\r", 92: b"\\\\", 39: b"''"}


@given(st.binary(max_size=12))
def test_every_default_keeps_its_bytes(value: bytes) -> None:
    """The servers escape these characters alone."""
    literal = b"".join(_SHOWN.get(byte, bytes([byte])) for byte in value)
    text = as_text(b"CREATE TABLE `t` (\n  `c` varbinary(99) DEFAULT '" + literal + b"'\n)")
    written = text[text.index("DEFAULT ") + 8 : -2]
    if written.startswith("x'"):
        assert bytes_of(written) == value
    else:
        assert written.encode() == b"'" + literal + b"'"
