"""Hazard: a table that can't roll back at the target, or a text that is changed where it names no engine."""

from __future__ import annotations

import pytest

from pkg.ddl import Dialect
from pkg.ddl.engines import in_innodb


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE t (a INT) ENGINE=MyISAM", "CREATE TABLE t (a INT) ENGINE=InnoDB"),
        (
            "create table t (a int) engine `Aria` row_format=PAGE",
            "create table t (a int) engine InnoDB row_format=DEFAULT",
        ),
        ("ALTER TABLE t ENGINE = 'memory', ADD b INT", "ALTER TABLE t ENGINE = InnoDB, ADD b INT"),
        (
            "CREATE TABLE t (a INT) ENGINE=MyISAM ROW_FORMAT=FIXED PARTITION BY RANGE (a)"
            " (PARTITION p VALUES LESS THAN (1) ENGINE = MyISAM, PARTITION q VALUES LESS THAN MAXVALUE)",
            "CREATE TABLE t (a INT) ENGINE=InnoDB ROW_FORMAT=DEFAULT PARTITION BY RANGE (a)"
            " (PARTITION p VALUES LESS THAN (1) ENGINE = InnoDB, PARTITION q VALUES LESS THAN MAXVALUE)",
        ),
        ("CREATE TABLE t (a INT) /*!50000 ENGINE=CSV */", "CREATE TABLE t (a INT) /*!50000 ENGINE=InnoDB */"),
    ],
)
def test_engines_without_transactions_become_innodb(sql: str, expected: str) -> None:
    assert in_innodb(sql, Dialect()) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a INT) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
        "CREATE TABLE t (a INT) ENGINE=MRG_MyISAM UNION=(m)",
        "CREATE TABLE t (a INT) ENGINE=BLACKHOLE",
        "CREATE TABLE t (engine VARCHAR(9) COMMENT 'ENGINE=MyISAM', `ENGINE` INT)",
        "ALTER TABLE t CHANGE engine memory INT",
        "ALTER TABLE t CHANGE COLUMN IF EXISTS engine memory INT, RENAME COLUMN engine TO csv",
    ],
)
def test_the_rest_stays(sql: str) -> None:
    assert in_innodb(sql, Dialect()) == sql
