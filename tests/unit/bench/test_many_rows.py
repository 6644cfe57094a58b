"""The peer that inserts many rows per statement must insert each row once, in order, and into its own table."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.process import HarnessError
from pkg.mysql.schema import Column, TableInfo
from tests.bench.many_rows import deal

_INFOS = {name: TableInfo("sb", name, (Column("id", "int", "int(11)"),)) for name in "ab"}


@given(st.lists(st.sampled_from("ab"), max_size=40), st.integers(1, 5), st.integers(1, 4))
def test_each_row_is_inserted_once_into_its_table(tables: list[str], rows: int, connections: int) -> None:
    dealt = deal([(_INFOS[table], None, [b"%d" % i]) for i, table in enumerate(tables)], rows, connections)
    assert len(dealt) == connections
    found: dict[int, str] = {}
    for text in (text for one in dealt for text in one):
        table, values = re.fullmatch(rb"INSERT INTO `sb`.`(.)` \(`id`\) VALUES (.*)", text).groups()  # type: ignore[union-attr]
        numbers = [int(number) for number in re.findall(rb"\((\d+)\)", values)]
        assert 1 <= len(numbers) <= rows
        # Successive rows of the binlog.
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        found |= dict.fromkeys(numbers, table.decode())
    assert [found[i] for i in sorted(found)] == tables


def test_statements_take_turns_on_the_connections() -> None:
    dealt = deal([(_INFOS["a"], None, [b"%d" % i]) for i in range(8)], 1, 4)
    assert [len(one) for one in dealt] == [2, 2, 2, 2]


def test_another_change_than_an_insert_is_refused() -> None:
    with pytest.raises(HarnessError, match="changes that are no inserts"):
        deal([(_INFOS["a"], [b"1"], [b"2"])], 10)
