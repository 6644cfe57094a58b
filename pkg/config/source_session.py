"""The session variables of a source on which reading rows and structures depends, and why each must not change."""

from __future__ import annotations

from collections.abc import Mapping

from pkg.config.target_session import RefusedVariables, always, off, other_charset, refuse_session
from pkg.settings.yaml_reader import Section

_STRUCTURES = "structures could not be read"
_TEXT = "rows are read as utf8mb4, and would arrive as other characters"
#: Modes in which SHOW CREATE TABLE quotes names differently, or omits parts of a structure.
_HARMFUL_MODES: Mapping[str, str] = dict.fromkeys(
    (
        "ANSI", "ANSI_QUOTES", "DB2", "MAXDB", "MSSQL", "MYSQL323", "MYSQL40", "ORACLE", "POSTGRESQL",
        "NO_FIELD_OPTIONS", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS",
    ),
    _STRUCTURES,
)  # fmt: skip
_REFUSED: RefusedVariables = {
    "sql_select_limit": (always, "rows of a full copy would be missing"),
    "sql_quote_show_create": (off, _STRUCTURES),
    **dict.fromkeys(
        ("character_set_client", "character_set_connection", "character_set_results"), (other_charset, _TEXT)
    ),
    "collation_connection": (other_charset, _TEXT),
}


def check_source_session(section: Section, session: Mapping[str, str]) -> None:
    """Raises 20003 for variables that a source's session must not change."""
    refuse_session(section, session, _HARMFUL_MODES, _REFUSED)
