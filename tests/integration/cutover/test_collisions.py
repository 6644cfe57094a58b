"""Hazard: two shards have rows with one key, and the check says that they have none."""

from __future__ import annotations

from contextlib import ExitStack, closing

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_master.cutover.facts import CollisionFacts
from dm_master.cutover.key_probe import read_collisions
from dm_master.inspection.inspected_server import InspectedServer
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg.config.model import SubTaskConfig
from pkg.config.rule_names import numbered_names
from pkg.rules.model import BlockAllowList, RouteRule

_TARGET = ("merged", "t")


def _subtask(target: SQLServer, server: SQLServer, schema: str, number: int) -> SubTaskConfig:
    return SubTaskConfig(
        "task",
        f"source{number}",
        "all",
        server.db_config,
        target.db_config,
        routes=(RouteRule(schema, "merged", "t*", "t"),),
        block_allow_list=BlockAllowList(do_dbs=(schema,)),
    )


def _read(target: SQLServer, *shards: tuple[SQLServer, str]) -> CollisionFacts:
    """Compares the shards, given as the schemas of servers."""
    subtasks = [_subtask(target, server, schema, number) for number, (server, schema) in enumerate(shards)]
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(InspectedUpstream(one, numbered_names(one)))) for one in subtasks]
        inspected = stack.enter_context(closing(InspectedServer(target.db_config, "downstream")))
        return read_collisions(opened, inspected.table_infos([_TARGET]))


def _make(server: SQLServer, table: str, columns: str, values: str) -> None:
    server.execute(f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} VALUES {values}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("columns", "ours", "theirs", "collides"),
    [
        ("id INT PRIMARY KEY", "(1), (2)", "(3), (4)", ""),
        ("id INT PRIMARY KEY", "(1), (5)", "(3), (4)", ""),
        ("id INT PRIMARY KEY", "(1), (5)", "(3), (5)", "5 is in source0"),
        ("id VARCHAR(9) PRIMARY KEY", "('a'), ('b')", "('A'), ('c')", "A is in"),
        ("id VARCHAR(9) PRIMARY KEY", "('a'), ('b')", "('c'), ('d')", ""),
        ("a INT, id INT, PRIMARY KEY (a, id)", "(1, 1), (1, 2)", "(1, 3), (2, 1)", ""),
        ("a INT, id INT, PRIMARY KEY (a, id)", "(1, 1), (1, 2)", "(1, 2), (2, 1)", "1, 2 is in"),
        (
            "a INT, c VARCHAR(9) CHARACTER SET latin1, PRIMARY KEY (a, c)",
            "(1, 'é'), (2, 'è'), (3, 'x')",
            "(1, 'é'), (3, 'è')",
            "1, é is in",
        ),
        ("id INT, UNIQUE (id)", "(NULL), (1)", "(NULL), (2)", ""),
        ("id DATETIME PRIMARY KEY", "('2024-01-01')", "('2024-01-01')", "2024-01-01 00:00:00 is in"),
        ("id VARBINARY(9) PRIMARY KEY", "(x'00FF')", "(x'00FF')", "is in"),
    ],
)
def test_equal_keys_of_two_servers_are_found_and_no_others(
    mariadb_upstream: MariaDBServer,
    mysql_upstream: MySQLServer,
    target: SQLServer,
    columns: str,
    ours: str,
    theirs: str,
    collides: str,
) -> None:
    mariadb_upstream.execute("CREATE DATABASE app")
    mysql_upstream.execute("CREATE DATABASE app")
    target.execute("CREATE DATABASE merged", f"CREATE TABLE merged.t ({columns})")
    _make(mariadb_upstream, "app.t1", columns, ours)
    _make(mysql_upstream, "app.t1", columns, theirs)
    found = _read(target, (mariadb_upstream, "app"), (mysql_upstream, "app"))
    assert (found.merges, found.compared, found.undecided) == (True, 1, ())
    assert len(found.found) == bool(collides)
    assert collides in "".join(found.found)


def test_tables_of_one_server_are_compared_and_single_ones_are_not(
    mariadb_upstream: MariaDBServer, target: SQLServer
) -> None:
    mariadb_upstream.execute("CREATE DATABASE app")
    target.execute("CREATE DATABASE merged", "CREATE TABLE merged.t (id INT PRIMARY KEY)")
    _make(mariadb_upstream, "app.t1", "id INT PRIMARY KEY", "(1), (2)")
    assert _read(target, (mariadb_upstream, "app")) == CollisionFacts()
    _make(mariadb_upstream, "app.t2", "id INT PRIMARY KEY", "(2), (3)")
    (line,) = _read(target, (mariadb_upstream, "app")).found
    assert line == "`merged`.`t` (id): 2 is in source0: `app`.`t1` and in source0: `app`.`t2`"
