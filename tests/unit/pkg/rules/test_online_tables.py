"""Hazard: a table of an online DDL tool is taken for a user's, or a user's for a tool's."""

from __future__ import annotations

import pickle

import pytest

from pkg.config.model import SubTaskConfig
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.model import BlockAllowList, TableName
from pkg.rules.online_tables import OnlineTables, TableKind
from pkg.settings.connections import DBConfig

DEFAULTS = OnlineTables.of(SubTaskConfig("t", "s", "all", DBConfig("u", 1), DBConfig("d", 1)))
GHOST, TRASH, REAL = TableKind.GHOST, TableKind.TRASH, TableKind.REAL


@pytest.mark.parametrize(
    ("table", "kind", "names"),
    [
        ("_t_gho", GHOST, ["t"]),
        ("_t_new", GHOST, ["t"]),
        ("_t_ghc", TRASH, ["t"]),
        ("_t_del", TRASH, ["t"]),
        ("_t_old", TRASH, ["t"]),
        ("__t_new", GHOST, ["_t", "t"]),
        ("___t_old", TRASH, ["__t", "_t", "t"]),
        ("_ä b_gho", GHOST, ["ä b"]),
        ("t_gho", REAL, ["t_gho"]),
        ("_t_GHO", REAL, ["_t_GHO"]),
        ("_t_gho1", REAL, ["_t_gho1"]),
        ("__gho", REAL, ["__gho"]),
        ("_t_gho\n", REAL, ["_t_gho\n"]),
        ("t", REAL, ["t"]),
    ],
)
def test_default_names(table: str, kind: TableKind, names: list[str]) -> None:
    tables = pickle.loads(pickle.dumps(DEFAULTS))
    assert (tables.kind(table), list(tables.real_names(table))) == (kind, names)


def test_without_rules_every_table_is_real() -> None:
    off = OnlineTables.of(SubTaskConfig("t", "s", "all", DBConfig("u", 1), DBConfig("d", 1), online_ddl=False))
    assert {off.kind(name) for name in ("_t_gho", "_t_old")} == {REAL}


def test_shadow_rule_goes_before_a_trash_rule() -> None:
    assert OnlineTables(["^_(.+)_x$"], ["^_(.+)_x$"]).kind("_t_x") is GHOST


def test_tables_of_tools_take_no_part_though_a_list_names_them() -> None:
    rules = BlockAllowList(do_tables=(TableName("d", "*"), TableName("d", "_t_gho")))
    filter_ = BlockAllowListFilter(rules, True, online=DEFAULTS)
    assert [filter_.allows("d", name) for name in ("t", "_t_gho", "_t_old", "")] == [True, False, False, True]
    assert [filter_.verdict("d", name).key for name in ("_t_gho", "_t_old")] == [GHOST.value, TRASH.value]
