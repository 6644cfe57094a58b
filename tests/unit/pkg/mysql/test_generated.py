"""Hazards: a session that lets expressions pass is strict still, or loses a mode that rows rely on."""

from __future__ import annotations

from pkg.mysql.generated import relaxed, with_unsigned


def test_only_what_is_strict_goes() -> None:
    mode = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES, traditional,NO_ZERO_DATE,NO_AUTO_VALUE_ON_ZERO"
    assert relaxed(mode) == "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"
    assert relaxed("STRICT_TRANS_TABLES,NO_ZERO_IN_DATE") == ""
    assert with_unsigned("") == "NO_UNSIGNED_SUBTRACTION"
    assert with_unsigned("ANSI") == "ANSI,NO_UNSIGNED_SUBTRACTION"
