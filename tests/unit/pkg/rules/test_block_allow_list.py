"""Hazard: a table is migrated or left out against the order in which the block-allow-list decides."""

from __future__ import annotations

import pickle

import pytest

from pkg.errors import Code, DMError
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.model import BlockAllowList, TableName


def bal(**kw: list[object]) -> BlockAllowList:
    def value(key: str, items: list[object]) -> tuple[object, ...]:
        return tuple(TableName(*item) if key.endswith("tables") else item for item in items)  # type: ignore[misc]

    return BlockAllowList(**{key: value(key, items) for key, items in kw.items()})  # type: ignore[arg-type]


CASES: list[tuple[BlockAllowList | None, str, str, bool]] = [
    (None, "db", "t", True),
    (None, "mysql", "user", False),
    (None, "MySQL", "", False),
    (bal(do_dbs=["mysql"]), "mysql", "user", False),
    (bal(do_dbs=["a*"]), "ab", "t", True),
    (bal(do_dbs=["a*"]), "b", "t", False),
    (bal(do_dbs=["a*"], ignore_dbs=["ab"]), "ab", "t", True),  # ignore-dbs counts only without do-dbs
    (bal(ignore_dbs=["~^tmp"]), "tmp_1", "t", False),
    (bal(ignore_dbs=["~^tmp"]), "x_tmp", "t", True),
    (bal(do_tables=[("db", "t1")]), "db", "t1", True),
    (bal(do_tables=[("db", "t1")]), "db", "t2", False),
    (bal(do_tables=[("db", "t1")]), "other", "t1", False),
    (bal(do_tables=[("db", "t1")]), "other", "", True),  # no table name: kept
    (bal(do_dbs=["x"], do_tables=[("db", "t1")]), "db", "t1", False),  # do-tables does not imply its db
    (bal(ignore_tables=[("db", "log_*")]), "db", "log_1", False),
    (bal(ignore_tables=[("db", "log_*")]), "db", "data", True),
    (bal(do_tables=[("db", "log_1")], ignore_tables=[("db", "log_*")]), "db", "log_1", True),
    (bal(do_tables=[("db", "x")], ignore_tables=[("db", "log_*")]), "db", "y", False),
    (bal(do_tables=[("~^db", "t?")]), "db9", "t1", True),
    (bal(do_tables=[("~^db", "t?")]), "db9", "t11", False),
    (bal(do_tables=[("db", "~^t")]), "dbx", "t", False),
]


@pytest.mark.parametrize(("rules", "schema", "table", "expected"), CASES)
def test_decision(rules: BlockAllowList | None, schema: str, table: str, expected: bool) -> None:
    filter_ = BlockAllowListFilter(rules, True)
    assert filter_.allows(schema, table) is expected
    assert pickle.loads(pickle.dumps(filter_)).allows(schema, table) is expected


def test_case_follows_the_source() -> None:
    rules = bal(do_dbs=["Shop"])
    assert BlockAllowListFilter(rules, False).allows("sHOP", "t")
    assert not BlockAllowListFilter(rules, True).allows("sHOP", "t")


def test_naming_an_entry_twice_is_harmless() -> None:
    assert BlockAllowListFilter(bal(do_dbs=["a", "a"]), True).allows("a", "t")


@pytest.mark.parametrize(
    "rules",
    [
        bal(do_dbs=[""]),
        bal(ignore_dbs=["a*b"]),
        bal(do_tables=[("db", "")]),
        bal(ignore_tables=[("", "t")]),
        bal(do_tables=[("db", "~(")]),
        bal(do_dbs=["~(?!x)"]),
    ],
)
def test_invalid_entries_are_refused_with_their_code(rules: BlockAllowList) -> None:
    with pytest.raises(DMError) as info:
        BlockAllowListFilter(rules, True)
    assert info.value.kind is Code.ConfigGenBAList
    assert info.value.workaround
