"""Hazard: a program or a view is not at the target, or does something else there, and the check says that it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from dm_master.cutover.object_checks import check_objects
from dm_master.cutover.reading import server_facts, target_facts
from dm_master.cutover.verdict import CheckVerdict
from dm_master.inspection.inspected_server import InspectedServer
from tests.unit.dm_master.cutover.made_facts import ready, upstream

_TABLE = "CREATE TABLE {schema}.{t} (id INT PRIMARY KEY, a INT, s VARCHAR(9))"
#: Kind, and its statement.
_OBJECTS = {
    "view": "CREATE VIEW {schema}.v AS SELECT x.id, x.s FROM {schema}.{t} x JOIN {schema}.{t} y ON x.id = y.id"
    " WHERE x.a > 1 AND x.s = 'x'",
    "trigger": "CREATE TRIGGER {schema}.tr BEFORE INSERT ON {schema}.{t} FOR EACH ROW BEGIN SET @x = 1; SET NEW.a = 2;"
    " END",
    "procedure": "CREATE PROCEDURE {schema}.p(IN a INT, OUT b VARCHAR(9)) SELECT COUNT(*) FROM {t}",
    "function": "CREATE FUNCTION {schema}.f(a INT) RETURNS INT DETERMINISTIC RETURN a + 1",
    "event": "CREATE EVENT {schema}.e ON SCHEDULE EVERY 1 DAY DO DELETE FROM {t}",
}
#: The same with another meaning.
_CHANGES = {
    "view": ("x.a > 1", "x.a > 2"),
    "trigger": ("BEFORE INSERT", "BEFORE UPDATE"),
    "procedure": ("OUT b VARCHAR(9)", "OUT b VARCHAR(8)"),
    "function": ("a + 1", "a + 2"),
    "event": ("1 DAY", "2 DAY"),
}
_NAMES = {"view": "v", "trigger": "tr", "procedure": "p", "function": "f", "event": "e"}


@pytest.fixture(scope="module")
def newer_mysql() -> Iterator[MySQLServer]:
    server = MySQLServer(version="8.4")
    with up(server):
        yield server


@pytest.fixture(params=["mariadb to mysql", "mysql to mariadb", "mysql to newer", "mariadb to target"])
def pair(
    request: pytest.FixtureRequest,
    mariadb_upstream: MariaDBServer,
    mysql_upstream: MySQLServer,
    newer_mysql: MySQLServer,
    target_with_triggers: SQLServer,
) -> tuple[SQLServer, SQLServer]:
    newer_mysql.wipe()
    servers = {
        "mariadb": mariadb_upstream,
        "mysql": mysql_upstream,
        "newer": newer_mysql,
        "target": target_with_triggers,
    }
    source, there = request.param.split(" to ")
    return servers[source], servers[there]


def _checked(pair: tuple[SQLServer, SQLServer], routed: tuple[str, str], user: str = "root") -> CheckVerdict:
    """``user``: of the upstream."""
    source, there = pair
    with ExitStack() as stack:
        here = stack.enter_context(closing(InspectedServer(replace(source.db_config, user=user), "upstream")))
        at = stack.enter_context(closing(InspectedServer(there.db_config, "downstream")))
        found = server_facts("one", here, here.table_infos([("app", "t")]), {"app"})
        return check_objects(
            ready(upstreams=(upstream(server=found, routed={("app", "t"): routed}),), target=target_facts(at, [routed]))
        )


def _made(server: SQLServer, schema: str, table: str, *kinds: str) -> None:
    statements = [_TABLE, *(_OBJECTS[kind] for kind in kinds)]
    server.execute(f"CREATE DATABASE {schema}", *(one.format(schema=schema, t=table) for one in statements))


def test_what_the_upstream_shows_gives_the_target_each_object(pair: tuple[SQLServer, SQLServer]) -> None:
    source, there = pair
    _made(source, "app", "t", *_OBJECTS)
    _made(there, "app", "t")
    found = _checked(pair, ("app", "t"))
    assert sorted(found.evidence) == [
        f"one: {kind} `app`.`{_NAMES[kind]}` is not at the target" for kind in sorted(_OBJECTS)
    ]
    _, _, commands = found.remedy.partition(": ")
    for command in commands.partition(" — ")[0].split("; "):
        (row,) = source.execute(command)
        there.execute("USE app", next(str(part) for part in row if str(part).startswith("CREATE ")))
    mended = _checked(pair, ("app", "t"))
    assert mended.verdict == "yes", mended


@pytest.mark.parametrize("kind", _OBJECTS)
def test_another_definition_is_named_and_other_names_by_routes_are_not(
    pair: tuple[SQLServer, SQLServer], kind: str
) -> None:
    source, there = pair
    _made(source, "app", "t", kind)
    _made(there, "moved", "orders", kind)
    same = _checked(pair, ("moved", "orders"))
    assert same.verdict == "yes", same
    statement = _OBJECTS[kind].format(schema="moved", t="orders")
    there.execute(f"DROP {kind} moved.{_NAMES[kind]}", statement.replace(*_CHANGES[kind]))
    found = _checked(pair, ("moved", "orders"))
    assert found.evidence == (f"one: {kind} `app`.`{_NAMES[kind]}` has another definition at the target",)


@pytest.mark.parametrize("kind", _OBJECTS)
def test_objects_that_the_user_may_not_see_are_unknown(pair: tuple[SQLServer, SQLServer], kind: str) -> None:
    source, _ = pair
    _made(source, "app", "t", kind)
    _made(pair[1], "moved", "t")
    user = "CREATE USER IF NOT EXISTS only_select@'%' IDENTIFIED BY ''"
    source.execute(user, "GRANT SELECT ON app.* TO only_select@'%'")
    found = _checked(pair, ("moved", "t"), user="only_select")
    # Views are seen by SELECT, only not what they are.
    assert found.verdict == ("no" if kind == "view" else "unknown")
    assert any(f"one: the user does not see every {kind}: needs" in line for line in found.evidence), found
