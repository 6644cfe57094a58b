"""Which session variables make an upstream's generated columns differ from those of the target's writers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymysql.connections import Connection

from pkg.mysql.introspect import query, variable
from pkg.mysql.session_expressions import CUT_FRACTIONS, TIME_ZONE

_COMPARED = ("div_precision_increment", "lc_time_names", "default_week_format")
#: Names of the time zone in which rows are written.
_UTC = frozenset({"+00:00", "-00:00", "utc", "etc/utc", "uct", "etc/uct", "zulu", "etc/zulu", "universal"})


def computing_settings(conn: Connection[Any]) -> Mapping[str, str]:
    """The variables that new sessions of the server compute with. Raises ``pymysql.Error``."""
    zone = variable(conn, TIME_ZONE) or ""
    if zone.upper() == "SYSTEM":
        zone = str(query(conn, "SELECT @@system_time_zone")[0][0])
    found = {name: value for name in _COMPARED if (value := variable(conn, name)) is not None}
    return {TIME_ZONE: zone, CUT_FRACTIONS: _cuts_fractions(variable(conn, "sql_mode") or ""), **found}


def _cuts_fractions(mode: str) -> str:
    return "ON" if CUT_FRACTIONS in mode.upper().split(",") else "OFF"


def differing(upstream: Mapping[str, str], target: Mapping[str, str], session: Mapping[str, str]) -> frozenset[str]:
    """The variables that differ between sessions of the upstream and writers with the task's ``session``."""
    writers = {**target, **{name.lower(): value for name, value in session.items()}}
    found = {name for name in _COMPARED if name in upstream and name in writers and upstream[name] != writers[name]}
    if upstream.get(CUT_FRACTIONS, "OFF") != _cuts_fractions(writers.get("sql_mode", "")):
        # The writers have a sql_mode of their own, whatever the target has globally.
        found.add(CUT_FRACTIONS)
    return frozenset(found | ({TIME_ZONE} if upstream[TIME_ZONE].lower() not in _UTC else set()))
