"""The modes of a session in its events: bits of ``sql_mode``. Pure."""

from __future__ import annotations

from typing import Final

#: Bits of sql_mode that change what a statement means or whether it is allowed, and are the same in both families. A
#: target that lacks one (MySQL 8 has neither ORACLE nor MAXDB) refuses the statement.
MODES: Final = {
    0: "REAL_AS_FLOAT",
    1: "PIPES_AS_CONCAT",
    2: "ANSI_QUOTES",
    3: "IGNORE_SPACE",
    5: "ONLY_FULL_GROUP_BY",
    6: "NO_UNSIGNED_SUBTRACTION",
    7: "NO_DIR_IN_CREATE",
    9: "ORACLE",
    12: "MAXDB",
    19: "NO_AUTO_VALUE_ON_ZERO",
    20: "NO_BACKSLASH_ESCAPES",
    21: "STRICT_TRANS_TABLES",
    22: "STRICT_ALL_TABLES",
    23: "NO_ZERO_IN_DATE",
    24: "NO_ZERO_DATE",
    25: "ALLOW_INVALID_DATES",
    26: "ERROR_FOR_DIVISION_BY_ZERO",
    29: "HIGH_NOT_PRECEDENCE",
    30: "NO_ENGINE_SUBSTITUTION",
    31: "PAD_CHAR_TO_FULL_LENGTH",
}


def sql_mode_text(bits: int | None) -> str:
    """The names of the modes that change how a statement is parsed, in both families."""
    return ",".join(name for bit, name in MODES.items() if bits is not None and bits >> bit & 1)
