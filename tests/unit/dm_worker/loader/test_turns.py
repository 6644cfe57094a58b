"""Hazard: writers that wait for a turn wait for each other's rows too, or a turn belongs to another table."""

from __future__ import annotations

from dm_worker.loader.turns import Turn, suits, turn_of
from pkg.mysql.schema import Column, TableInfo


def _table(name: str, *, counts: bool) -> TableInfo:
    return TableInfo("d", name, (Column("id", "int", "int(11)", auto_increment=counts), Column("c", "char", "char(9)")))


def test_only_a_table_that_counts_has_a_turn_and_each_its_own() -> None:
    assert turn_of(_table("t", counts=False)) is None
    first, again, other = (turn_of(_table(name, counts=True)) for name in ("t", "t", "u"))
    assert isinstance(first, Turn)
    assert first == again != other


def test_rows_that_may_meet_rows_of_another_writer_take_no_turn() -> None:
    assert suits(b"INSERT INTO `d`.`t`", b"", 100.0)
    assert not suits(b"REPLACE INTO `d`.`t`", b"", 100.0)
    assert not suits(b"INSERT INTO `d`.`t`", b" ON DUPLICATE KEY UPDATE `id` = `d`.`t`.`id`", 100.0)


def test_large_rows_take_no_turn() -> None:
    assert not suits(b"INSERT INTO `d`.`t`", b"", 4096.0)
