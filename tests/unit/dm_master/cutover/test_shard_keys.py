"""Hazard: two shards with one key are called free of collisions, or shards that differ by construction are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_master.cutover.shard_keys import KeyPair, ShardTable, UndecidedKey, key_pairs
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

_COLUMNS = (
    Column("id", "int", "int(11)"),
    Column("name", "varchar", "varchar(20)"),
    Column("origin", "varchar", "varchar(20)"),
    Column("size", "double", "double"),
)


def _key(*columns: str, name: str = "PRIMARY", unique: bool = True, length: int = 0) -> Index:
    return Index(name, tuple(IndexPart(column, length) for column in columns), unique=unique)


def _target(*indexes: Index) -> TableInfo:
    return TableInfo("merged", "t", _COLUMNS, indexes)


_ONE = ShardTable("one", ("app", "t1"), frozenset({"id", "name", "size"}), {}, frozenset())
_TWO = replace(_ONE, source="two", table=("app", "t2"))


def test_each_unique_key_is_compared_between_each_pair() -> None:
    three = replace(_ONE, source="three")
    pairs = [
        *key_pairs(
            _target(_key("id"), _key("name", name="n"), _key("size", name="s", unique=False)), (_ONE, _TWO, three)
        )
    ]
    assert all(isinstance(pair, KeyPair) for pair in pairs)
    assert [pair.columns for pair in pairs] == [("id",)] * 3 + [("name",)] * 3


def test_shards_that_a_filled_column_distinguishes_cannot_collide() -> None:
    added = [replace(shard, added={"Origin": text}) for shard, text in ((_ONE, "a"), (_TWO, "b"))]
    assert [*key_pairs(_target(_key("id", "origin")), added)] == []
    # With the same text, the rest of the key decides.
    same = [replace(shard, added={"Origin": "a"}) for shard in (_ONE, _TWO)]
    (pair,) = key_pairs(_target(_key("id", "origin")), same)
    assert pair.columns == ("id",)
    (constant,) = key_pairs(_target(_key("origin")), same)
    assert isinstance(constant, UndecidedKey)


@pytest.mark.parametrize(
    ("shard", "key", "reason"),
    [
        (replace(_TWO, mapped=frozenset({"id"})), _key("id"), "a column mapping changes id of two"),
        (replace(_TWO, filtered=True), _key("id"), "is filtered"),
        (_TWO, _key("origin"), "has no column origin"),
        (_TWO, _key("name", length=3), "prefixes"),
        (_TWO, _key("size"), "type double"),
        (_TWO, replace(_key("id"), without_overlaps=True), "periods"),
    ],
)
def test_what_cannot_be_compared_is_undecided_with_its_reason(shard: ShardTable, key: Index, reason: str) -> None:
    (found,) = key_pairs(_target(key), (_ONE, shard))
    assert isinstance(found, UndecidedKey)
    assert reason in str(found)
