"""Hazards: shards that ran one DDL in two spellings are taken for different; a spelling that matters is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pkg import ddl
from pkg.ddl.tokens import Dialect
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker import SchemaTracker, ServerDefaults
from tests.ddl_corpus import FLAVORS, Flavor
from tests.unit.pkg.ddl.respelling import respelt
from tests.unit.pkg.ddl.test_corpus_texts import NEWEST

PLAIN = Dialect.of("")


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("alter  table `t`\n\tadd column Foo int not null;", "ALTER TABLE `t` ADD COLUMN `Foo` INT NOT NULL"),
        ("/* app 7 */ ALTER TABLE t -- it\n DROP a # now\n", "ALTER TABLE `t` DROP COLUMN `a`"),
        ("ALTER TABLE t ADD a varchar (9) default 'x  /* y */ default'",
         "ALTER TABLE `t` ADD COLUMN `a` VARCHAR(9) DEFAULT 'x  /* y */ default'"),
        ("ALTER TABLE d . t ADD a/**/int", "ALTER TABLE `d`.`t` ADD COLUMN `a` INT"),
        ("ALTER TABLE d.index ADD a INT", "ALTER TABLE `d`.`index` ADD COLUMN `a` INT"),
        ("alter table t /*!50000 add */ a INT", "alter table t /*!50000 add */ a INT"),
        ("ALTER TABLE t ADD a INT comment ';'", "ALTER TABLE `t` ADD COLUMN `a` INT COMMENT ';'"),
        ("ALTER TABLE t modify a datetime after b", "ALTER TABLE `t` MODIFY COLUMN `a` DATETIME AFTER `b`"),
        ("ALTER TABLE t ADD (a INT,b INT,unique(a))",
         "ALTER TABLE `t` ADD COLUMN `a` INT, ADD COLUMN `b` INT, ADD UNIQUE INDEX(`a`)"),
        ("ALTER TABLE t ADD key k(a,`b c`( 3 ))", "ALTER TABLE `t` ADD INDEX `k`(`a`, `b c`(3))"),
        ("ALTER TABLE t ADD a INT DEFAULT (Now () + `if`(b,1,0))",
         "ALTER TABLE `t` ADD COLUMN `a` INT DEFAULT(Now () + `if`(b, 1, 0))"),
        ("ALTER TABLE t ADD a CHAR(9) DEFAULT \"b\"'c' comment \"it's\"",
         "ALTER TABLE `t` ADD COLUMN `a` CHAR(9) DEFAULT 'b' 'c' COMMENT \"it's\""),
        ("ALTER TABLE t engine = InnoDB , lock none, algorithm=copy",
         "ALTER TABLE `t` ENGINE=InnoDB, LOCK none, ALGORITHM=copy"),
        ("ALTER TABLE t drop KEY column_format, add column vector int",
         "ALTER TABLE `t` DROP KEY `column_format`, ADD COLUMN `vector` INT"),
        ("create unique index i using btree on t(a)", "CREATE UNIQUE INDEX `i` USING btree ON `t`(`a`)"),
    ],
)  # fmt: skip
def test_spellings_of_one_statement(sql: str, same: str) -> None:
    assert ddl.uniform(sql, PLAIN) == same
    assert ddl.uniform(same, PLAIN) == same


def test_quotes_of_names_in_both_modes() -> None:
    ansi = Dialect.of("ANSI_QUOTES")
    wanted = 'ALTER TABLE `t` ADD COLUMN `a"b` INT'
    assert ddl.uniform('ALTER TABLE "t" ADD "a""b" INT', ansi) == wanted == ddl.uniform(wanted, PLAIN)


def test_what_is_not_understood_stays_unchanged() -> None:
    assert ddl.uniform("alter table t  add versioning  a; b", PLAIN) == "ALTER TABLE t ADD versioning a; b"
    assert ddl.uniform("SET STATEMENT x=1 FOR drop table t", PLAIN) == "SET STATEMENT x=1 FOR DROP TABLE t"


@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_corpus_means_the_same_in_one_spelling(flavor: Flavor) -> None:
    """The schema tracker, fed with the one or the other, comes to the same structures."""
    server = ServerDefaults(flavor, NEWEST[flavor])
    changed = 0
    for one in respelt(flavor, server, lambda statement: ddl.uniform(statement.sql, statement.dialect)):
        dialect = one.statement.dialect
        assert _shown(one.before, dialect) == _shown(one.after, dialect), one.line.place
        changed += one.text != one.line.sql
    assert changed > 300


def _shown(tracker: SchemaTracker, dialect: Dialect) -> list[TableInfo]:
    """The structures; the text of a default value is the statement's, so its spelling differs, too."""
    return [
        replace(
            table,
            columns=tuple(
                replace(column, default=column.default and ddl.uniform(column.default, dialect))
                for column in table.columns
            ),
        )
        for table in tracker.tables()
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ALTER TABLE t ADD a INT", "ALTER TABLE t ADD A INT"),
        ("ALTER TABLE t ADD a CHAR(1) DEFAULT 'x'", "ALTER TABLE t ADD a CHAR(1) DEFAULT 'X'"),
        ("ALTER TABLE t ADD a CHAR(1) DEFAULT ' '", "ALTER TABLE t ADD a CHAR(1) DEFAULT '  '"),
        ("ALTER TABLE `t` ADD `int` INT", "ALTER TABLE `t` ADD `INT` INT"),
        ("ALTER TABLE t ADD a INT AS (ıf + 1)", "ALTER TABLE t ADD a INT AS (IF + 1)"),
    ],
)
def test_what_differs_stays_different(one: str, other: str) -> None:
    assert ddl.uniform(one, PLAIN) != ddl.uniform(other, PLAIN)
