"""Hazard: a bulk form reads a literal as another value than an INSERT does and stores it without an error."""

from __future__ import annotations

import pytest

from pkg.mysql.bulk import BYTES, TEXT
from pkg.mysql.bulk_types import STRING, can_load, types_of
from pkg.mysql.schema import Column

ID = Column("id", "bigint", "bigint", nullable=False)
NOTE = Column("note", "varchar", "varchar(9)", charset="utf8mb4")


@pytest.mark.parametrize(
    ("upstream", "target", "expected"),
    [
        (ID, ID, True),
        (NOTE, NOTE, True),
        (Column("v", "int", "int"), Column("v", "bigint", "bigint"), True),
        (Column("v", "int", "int"), Column("v", "year", "year"), False),
        (Column("v", "int", "int"), Column("v", "bit", "bit(8)"), False),
        (Column("v", "int", "int"), Column("v", "enum", "enum('1')"), False),
        (Column("v", "year", "year"), Column("v", "year", "year"), False),
        (Column("v", "double", "double"), Column("v", "varchar", "varchar(9)", charset="utf8mb4"), False),
        (Column("v", "varchar", "varchar(9)", charset="gbk"), NOTE, False),
        (Column("v", "blob", "blob"), Column("v", "blob", "blob"), False),
        (Column("v", "timestamp", "timestamp"), Column("v", "timestamp", "timestamp", nullable=False), False),
    ],
)
def test_columns_whose_literals_a_load_would_read_differently_are_not_loaded(
    upstream: Column, target: Column, expected: bool
) -> None:
    assert can_load([(upstream, target)]) is expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (NOTE, BYTES),
        (Column("v", "longtext", "longtext", charset="utf8mb4"), BYTES),
        (Column("v", "varchar", "varchar(9)", charset="latin1"), TEXT),
        (Column("v", "varchar", "varchar(9)", charset="utf8mb3"), TEXT),
        (Column("v", "enum", "enum('1')", charset="utf8mb4"), TEXT),
        (Column("v", "date", "date"), TEXT),
    ],
)
def test_only_text_that_the_server_stores_unconverted_is_sent_as_bytes(column: Column, expected: bytes) -> None:
    assert types_of([column], bytes([STRING]), raw=False) == [expected]
