"""Hazard: parts that run one by one lead to another table than all of them at once, or stop half way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.ddl import parse
from pkg.ddl.serial_parts import serial_parts
from pkg.mysql.schema import TableInfo
from tests.harness.altered_tables import SERVERS, after, alters


def texts(sql: str, flavor: str = "mysql") -> list[str]:
    parts = serial_parts(parse(sql, default_schema="s", flavor=flavor))
    return [part.sql.removeprefix("ALTER TABLE t ") for part in parts]


@pytest.mark.parametrize(
    ("alter", "parts"),
    [
        ("ADD INDEX i (n), ADD n INT", ["ADD n INT", "ADD INDEX i (n)"]),
        ("ADD (n INT, KEY i (n), m INT)", ["ADD COLUMN n INT", "ADD COLUMN m INT", "ADD KEY i (n)"]),
        ("RENAME TO u, ADD n INT", ["ADD n INT", "RENAME TO u"]),
        (
            "CHANGE a b VARCHAR(9), CHANGE b a INT",
            [
                "RENAME COLUMN `a` TO `dm_aside_a`",
                "CHANGE b a INT",
                "CHANGE COLUMN `dm_aside_a` `b` VARCHAR(9)",
            ],
        ),
        ("CHANGE a b INT, CHANGE b z INT", ["CHANGE b z INT", "CHANGE a b INT"]),
        ("RENAME INDEX ka TO kb, DROP INDEX kb", ["DROP INDEX kb", "RENAME INDEX ka TO kb"]),
        (
            "RENAME INDEX ka TO kb, RENAME KEY kb TO ka",
            ["RENAME INDEX `ka` TO `dm_aside_ka`", "RENAME KEY kb TO ka", "RENAME INDEX `dm_aside_ka` TO `kb`"],
        ),
        ("ADD INDEX ka (b), DROP INDEX ka", ["DROP INDEX ka", "ADD INDEX ka (b)"]),
        ("DROP INDEX ka, ADD INDEX other (a)", ["ADD INDEX other (a)", "DROP INDEX ka"]),
        ("ADD a BIGINT, DROP COLUMN a", ["DROP COLUMN a", "ADD a BIGINT"]),
        (
            "CHANGE COLUMN IF EXISTS a z BIGINT UNIQUE COMMENT 'x, y' AFTER n, ADD n INT FIRST",
            [
                "RENAME COLUMN `a` TO `z`",
                "MODIFY COLUMN `z` BIGINT  COMMENT 'x, y' AFTER n",
                "ADD n INT FIRST",
                "ADD UNIQUE (`z`)",
            ],
        ),
        ("CHANGE a a INT UNIQUE COMMENT 'c'", ["CHANGE a a INT  COMMENT 'c'", "ADD UNIQUE (`a`)"]),
        ("ALTER a SET DEFAULT 5, CHANGE a z INT", ["CHANGE a z INT", "ALTER COLUMN `z` SET DEFAULT 5"]),
        (
            "ADD n VARCHAR(9), CONVERT TO CHARACTER SET utf8mb4, DROP FOREIGN KEY f, COMMENT 'c'",
            ["DROP FOREIGN KEY f", "ADD n VARCHAR(9)", "CONVERT TO CHARACTER SET utf8mb4", "COMMENT 'c'"],
        ),
        ("ADD n VARCHAR(9), CHARSET utf8mb4", ["CHARSET utf8mb4", "ADD n VARCHAR(9)"]),
        (
            "ADD FOREIGN KEY (n) REFERENCES p (id), ADD n INT, ADD KEY k (n), ALGORITHM=COPY",
            [
                "ADD n INT, ALGORITHM=COPY",
                "ADD KEY k (n), ALGORITHM=COPY",
                "ADD FOREIGN KEY (n) REFERENCES p (id), ALGORITHM=COPY",
            ],
        ),
        ("RENAME TO u", ["RENAME TO u"]),
    ],
)
def test_the_order_of_parts(alter: str, parts: list[str]) -> None:
    assert texts(f"ALTER TABLE t {alter}", "") == parts


def test_what_an_option_and_a_conversion_decide_stays() -> None:
    late = ["CONVERT TO CHARACTER SET utf8", "CHARSET latin2"]
    assert texts("ALTER TABLE t CHARSET latin2, CONVERT TO CHARACTER SET utf8", "mysql") == late[::-1]
    assert texts("ALTER TABLE t CHARSET latin2, CONVERT TO CHARACTER SET utf8", "mariadb") == late
    assert texts("ALTER TABLE t CONVERT TO CHARACTER SET utf8, CHARSET latin2", "mysql") == late


@pytest.mark.parametrize("flavor", SERVERS)
@given(st.data())
def test_the_parts_lead_where_the_whole_leads(flavor: str, data: st.DataObject) -> None:
    whole = data.draw(alters(flavor))
    serial = serial_parts(whole)
    found, expected = after(serial, flavor), after([whole], flavor)
    assert expected is not None
    assert _comparable(found) == _comparable(expected), (whole.sql, [part.sql for part in serial])


def _comparable(info: TableInfo | None) -> TableInfo | None:
    return None if info is None else replace(info, indexes=tuple(sorted(info.indexes, key=lambda one: one.name)))
