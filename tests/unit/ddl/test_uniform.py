"""Hazards: shards that ran one DDL in two spellings are taken for different; a spelling that matters is lost."""

from __future__ import annotations

import pytest

from pkg import ddl
from pkg.ddl.tokens import Dialect

PLAIN = Dialect.of("")


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("alter  table `t`\n\tadd column Foo int not null;", "ALTER TABLE `t` ADD COLUMN Foo INT NOT NULL"),
        ("/* app 7 */ ALTER TABLE t -- it\n DROP a # now\n", "ALTER TABLE t DROP a"),
        ("ALTER TABLE t ADD a varchar(9) default 'x  /* y */ default'",
         "ALTER TABLE t ADD a VARCHAR(9) DEFAULT 'x  /* y */ default'"),
        ("ALTER TABLE d . t ADD a/**/int", "ALTER TABLE d . t ADD a INT"),
        ("ALTER TABLE d.index ADD a INT", "ALTER TABLE d.index ADD a INT"),
        ("alter table t /*!50000 add */ a INT", "alter table t /*!50000 add */ a INT"),
        ("ALTER TABLE t ADD a INT comment ';'", "ALTER TABLE t ADD a INT comment ';'"),
    ],
)  # fmt: skip
def test_spellings_of_one_statement(sql: str, same: str) -> None:
    assert ddl.uniform(sql, PLAIN) == same
    assert ddl.uniform(same, PLAIN) == same
    parsed, again = ddl.parse(sql, default_schema="d"), ddl.parse(same, default_schema="d")
    assert parsed.specs
    assert parsed.actions == again.actions


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ALTER TABLE t ADD a INT", "ALTER TABLE t ADD A INT"),
        ("ALTER TABLE t ADD a CHAR(1) DEFAULT 'x'", "ALTER TABLE t ADD a CHAR(1) DEFAULT 'X'"),
        ("ALTER TABLE t ADD a CHAR(1) DEFAULT ' '", "ALTER TABLE t ADD a CHAR(1) DEFAULT '  '"),
        ("ALTER TABLE `t` ADD `int` INT", "ALTER TABLE `t` ADD `INT` INT"),
    ],
)
def test_what_differs_stays_different(one: str, other: str) -> None:
    assert ddl.uniform(one, PLAIN) != ddl.uniform(other, PLAIN)
