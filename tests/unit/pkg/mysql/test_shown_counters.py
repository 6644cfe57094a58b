"""Hazard: a column that may be NULL is created as one that may not, and its NULLs become numbers."""

from __future__ import annotations

import pytest

from pkg.mysql.shown_counters import with_nullable_counters


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("`n``m` int(11) AUTO_INCREMENT,", "`n``m` int(11) AUTO_INCREMENT NULL,"),
        ("`n` bigint unsigned AUTO_INCREMENT COMMENT 'x'", "`n` bigint unsigned AUTO_INCREMENT NULL COMMENT 'x'"),
        ("`n` int(3) unsigned zerofill AUTO_INCREMENT", "`n` int(3) unsigned zerofill AUTO_INCREMENT NULL"),
        ("`n` int /*!80023 INVISIBLE */ AUTO_INCREMENT", "`n` int /*!80023 INVISIBLE */ AUTO_INCREMENT NULL"),
        ("`n` int(11) NOT NULL AUTO_INCREMENT", ""),
        ("`n` int(11) DEFAULT NULL COMMENT ' AUTO_INCREMENT'", ""),
        ("KEY `n` (`n`)\n) ENGINE=InnoDB AUTO_INCREMENT=4", ""),
    ],
)
def test_null_is_said(line: str, expected: str) -> None:
    shown = "CREATE TABLE `t` (\n  {}\n)"
    assert with_nullable_counters(shown.format(line)) == shown.format(expected or line)
