"""The target of a task that makes no copy, or not of its own: as it would be if all had been migrated so far."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz import oracle
from tests.fuzz.played import Played
from tests.fuzz.refusals import NO_TABLE
from tests.fuzz.servers import Servers, attempt_all


def prepare_target(one: Played, servers: Servers, settings: Mapping[str, str], file: str) -> None:
    """What an incremental task finds at the target: all that the upstream has done, and the target's own ways."""
    # The upstream's own sessions begin with its modes.
    ((mode,),) = servers.upstream.execute("SELECT @@GLOBAL.sql_mode")
    session = [f"SET sql_mode = '{mode}'", *one.history.sessions[0], "SET foreign_key_checks = 0"]
    target = servers.target
    conn = target.connect(init_command=f"SET time_zone = '{settings['server zone']}'")
    if one.rules.ruled:
        refused = attempt_all(conn, [*session, *one.rules.target_tables(one.history.tables)])
    else:
        route = one.rules.target_of((one.schema, "t"))
        attempt_all(target.connect(), [f"CREATE DATABASE {route[0]}", f"CREATE DATABASE {one.schema}"])
        made, other = ([_placed(sql, route, file) for sql in found] for found in (one.done, one.history.target))
        refused = attempt_all(conn, [*session, *made, *other])
        one.target_differs = refused.isdisjoint(other)
    if any(sql.startswith("CREATE TABLE") for sql in refused):
        one.tags.add(NO_TABLE)


def _placed(sql: str, route: oracle.Table, file: str) -> str:
    """A statement about the upstream's tables, as the target has them."""
    table = f"{route[0]}.`{route[1]}`"
    return sql.replace("{s}.`t`", table).replace("{s}", route[0]).replace("{file}", file)
