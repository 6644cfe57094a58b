"""Hazard: a structure that an operator lists, edits and gives back is another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pkg.errors import DMError
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.schema_tracker import ServerDefaults, parse_create_table
from pkg.schema_tracker.render import create_table
from tests.ddl_corpus import FLAVORS, Flavor, statements

SERVERS = {"mariadb": ServerDefaults(), "mysql": ServerDefaults("mysql", (5, 6, 24), "latin1", "latin1_swedish_ci")}


@pytest.mark.parametrize("flavor", FLAVORS)
def test_every_structure_of_the_corpus_comes_back(flavor: Flavor) -> None:
    server, compared = SERVERS[flavor], 0
    for line in statements(flavor):
        try:
            info = parse_create_table(line.sql, "d", server)
        except DMError:
            continue  # no CREATE TABLE, or one that needs other tables
        shown = create_table(info)
        assert "\n" not in shown.replace(line.sql, "")
        assert parse_create_table(shown, info.schema, server) == replace(info, foreign_keys=()), line.place
        compared += 1
    assert compared > 100


@pytest.mark.parametrize(
    ("told", "shown"),
    [("x", "'x'"), ("now", "'now'"), ("2020-01-01", "'2020-01-01'"), ("", "''"), ("5", "5"), ("b'101'", "b'101'"),
     ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"), ("current_timestamp(3)", "current_timestamp(3)"), ("NULL", "NULL"),
     ("uuid()", "uuid()")],
)  # fmt: skip
def test_a_default_without_its_quotes_gets_them(told: str, shown: str) -> None:
    """As information_schema of MySQL and TiDB gives it."""
    column = Column("v", "varchar", "varchar(20)", default=told)
    statement = create_table(TableInfo("d", "t", (column,), ()))
    assert statement == f"CREATE TABLE `t` (`v` varchar(20) NULL DEFAULT {shown})"


def test_a_structure_as_mysql_shows_it() -> None:
    info = TableInfo(
        "d",
        "o`dd",
        (
            Column("id", "bigint", "bigint(20) unsigned", nullable=False, unsigned=True, auto_increment=True),
            Column("a b", "varchar", "varchar(9)", charset="latin1", collation="latin1_bin", default="it's \\ text"),
            Column("g", "int", "int(11)", generated="STORED"),
        ),
        (Index("PRIMARY", (IndexPart("id"),), unique=True), Index("k", (IndexPart("a b", 3), IndexPart("")))),
        charset="latin1",
        collation="latin1_bin",
        foreign_keys=(("d", "parent"),),
        engine="InnoDB",
    )
    shown = create_table(info)
    assert shown == (
        "CREATE TABLE `o``dd` (`id` bigint(20) unsigned NOT NULL AUTO_INCREMENT, "
        "`a b` varchar(9) CHARACTER SET latin1 COLLATE latin1_bin NULL DEFAULT 'it''s \\\\ text', "
        "`g` int(11) GENERATED ALWAYS AS (NULL) STORED, PRIMARY KEY (`id`), KEY `k` (`a b`(3), (NULL))) "
        "ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_bin /* references `d`.`parent` */"
    )
    again = parse_create_table(shown, "d", SERVERS["mysql"])
    assert [replace(column, default=None) for column in again.columns] == [
        replace(column, default=None) for column in info.columns
    ]
    assert set(again.indexes) == set(info.indexes)
