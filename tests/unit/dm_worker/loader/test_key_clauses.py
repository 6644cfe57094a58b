"""Hazard: a key is put off that the rows need, or one that would get another place."""

from __future__ import annotations

import pytest

from dm_worker.loader.key_clauses import adding, dropping, later_keys, missing
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

_COLUMNS = (
    Column("id", "int", "int(11)"),
    Column("n", "int", "int(11)", auto_increment=True),
    Column("v", "int", "int(11)", generated="VIRTUAL"),
    Column("a", "int", "int(11)"),
    Column("b`c", "varchar", "varchar(9)"),
)


def _table(*keys: str, end: str = ") ENGINE=InnoDB") -> str:
    return "CREATE TABLE `t` (\n  `id` int(11) NOT NULL,\n" + ",\n".join(f"  {key}" for key in keys) + f"\n{end}"


def _info(*indexes: tuple[str, str], engine: str = "InnoDB", unique: tuple[str, ...] = ("PRIMARY",)) -> TableInfo:
    made = [Index(name, tuple(IndexPart(c) for c in columns.split(",")), name in unique) for name, columns in indexes]
    return TableInfo("s", "t", _COLUMNS, tuple(made), engine=engine)


_PLAIN = ("KEY `k` (`a`)", "KEY `m``n` (`b``c`(3),`a` DESC) USING BTREE COMMENT 'x, KEY `a` (`a`)'")


def test_plain_keys_are_put_off_in_their_order() -> None:
    info = _info(("PRIMARY", "id"), ("k", "a"), ("m`n", "b`c,a"))
    found = later_keys(_table("PRIMARY KEY (`id`)", *_PLAIN, "FULLTEXT KEY `f` (`b``c`)"), info)
    assert list(found.items()) == [("k", _PLAIN[0]), ("m`n", _PLAIN[1])]
    assert dropping("`s`.`t`", found) == "ALTER TABLE `s`.`t` DROP KEY `k`, DROP KEY `m``n`"
    assert adding("`s`.`t`", found) == f"ALTER TABLE `s`.`t` ADD {_PLAIN[0]}, ADD {_PLAIN[1]}, LOCK=SHARED"
    assert missing(found, _info(("PRIMARY", "id"), ("K", "a"))) == {"m`n": _PLAIN[1]}


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("KEY `x` (`n`)", "n"),
        ("KEY `x` (`v`)", "v"),
        ("SPATIAL KEY `x` (`a`)", "a"),
        ("VECTOR KEY `x` (`a`)", "a"),
        ("KEY `x` ((`a` + 1))", ""),
    ],
)
def test_a_key_that_stays_keeps_those_before_it(key: str, column: str) -> None:
    info = _info(("k", "a"), ("x", column), ("m`n", "b`c,a"))
    assert list(later_keys(_table(_PLAIN[0], key, _PLAIN[1]), info)) == ["m`n"]


@pytest.mark.parametrize(
    ("create", "info"),
    [
        (_table(_PLAIN[0]), _info(("k", "a"), engine="MyISAM")),
        (_table(_PLAIN[0], "CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`id`)"), _info(("k", "a"))),
        (_table(_PLAIN[0], end=") ENGINE=InnoDB WITH SYSTEM VERSIONING"), _info(("k", "a"))),
        (_table("UNIQUE KEY `k` (`a`)"), _info(("k", "a"), unique=("k",))),
    ],
)
def test_a_table_whose_rows_depend_on_its_keys_has_them_from_the_start(create: str, info: TableInfo) -> None:
    assert later_keys(create, info) == {}
