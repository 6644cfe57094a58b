"""Kinds of steps that are plain texts: DDL that is seldom, views, triggers, routines, sequences. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from tests.fuzz.made_tables import MadeTable

_T = "{s}.`t`"
Texts = Callable[[random.Random, MadeTable], Sequence[str]]


def _fixed(*texts: str) -> Texts:
    return lambda _rng, _made: texts


def _alter(*clauses: str) -> Texts:
    """One of these."""
    return lambda rng, _made: [f"ALTER TABLE {_T} {rng.choice(clauses)}"]


def _rename_index(rng: random.Random, made: MadeTable) -> Sequence[str]:
    return [f"ALTER TABLE {_T} RENAME INDEX `{rng.choice([*made.unique, 'i', 'by_n'])}` TO `renamed`"]


def _portion(rng: random.Random, made: MadeTable) -> Sequence[str]:
    """What lies outside of the portion stays, as rows of its own: without a primary key, or of a row that it covers."""
    portion = (
        f"FOR PORTION OF `when` FROM '2024-{rng.choice(('01-10', '02-15'))}' TO '2024-{rng.choice(('03-01', '06-01'))}'"
    )
    change = f"UPDATE {_T} {portion} SET `n` = 8" if rng.random() < 0.5 else f"DELETE FROM {_T} {portion}"
    return [f"{change} WHERE `id` = {rng.choice(made.literals['id'][:4])}"]


def _generated(rng: random.Random, _made: MadeTable) -> Sequence[str]:
    number, way = rng.randrange(9), rng.choice(["STORED", "VIRTUAL"])
    return [
        f"ALTER TABLE {_T} ADD COLUMN `g{number}` INT AS (`n` + 1) {way}",
        f"UPDATE {_T} SET `n` = 3 WHERE `id` = 2",
    ]


_TEXTS: Mapping[str, Texts] = {
    "create index": lambda rng, _made: [
        f"CREATE {rng.choice(['', 'UNIQUE '])}INDEX `made_i` ON {_T} (`n`)",
        f"DROP INDEX `made_i` ON {_T}",
    ],
    "rename index": _rename_index,
    "drop primary key": _alter("DROP PRIMARY KEY"),
    "foreign key": lambda rng, _made: [
        "CREATE TABLE {s}.`q` (`id` INT PRIMARY KEY)",
        "INSERT INTO {s}.`q` VALUES (0), (1), (2), (3), (9)",
        f"ALTER TABLE {_T} ADD CONSTRAINT `fk_n` FOREIGN KEY (`n`) REFERENCES {{s}}.`q` (`id`) ON DELETE SET NULL",
        "DELETE FROM {s}.`q` WHERE `id` = 1",
        *([f"ALTER TABLE {_T} DROP FOREIGN KEY `fk_n`"] if rng.random() < 0.5 else []),
    ],
    "add check": _alter("ADD CONSTRAINT `ck` CHECK (`n` IS NULL OR `n` > -100)"),
    "schema charset": _fixed(
        "ALTER DATABASE {s} CHARACTER SET latin1",
        "CREATE TABLE {s}.`l1` (`a` VARCHAR(5))",
        "INSERT INTO {s}.`l1` VALUES ('e'), ('é')",
    ),
    "table option": _alter("COMMENT 'x'", "ENGINE = InnoDB", "ROW_FORMAT = DYNAMIC", "FORCE", "AUTO_INCREMENT = 500"),
    "partition by": _alter("PARTITION BY HASH (`id`) PARTITIONS 2", "REMOVE PARTITIONING"),
    "add generated": _generated,
    "several clauses": _alter(
        "ADD COLUMN `m1` INT NULL AFTER `id`, ADD INDEX `m` (`m1`)",
        "DROP COLUMN `x`, ADD COLUMN `x` INT NULL",
        "ALTER `n` DROP DEFAULT, ADD COLUMN `m2` VARCHAR(5) NULL DEFAULT 'a' FIRST",
    ),
    "move column": _alter("MODIFY `n` INT NULL DEFAULT 0 FIRST", "MODIFY `n` BIGINT NULL DEFAULT 0 AFTER `id`"),
    "view": _fixed(
        f"CREATE OR REPLACE VIEW {{s}}.`v` AS SELECT `id`, `n` FROM {_T}",
        "UPDATE {s}.`v` SET `n` = 4 WHERE `id` = 1",
        "DROP VIEW {s}.`v`",
    ),
    "trigger": _fixed(
        "CREATE TABLE IF NOT EXISTS {s}.`tr_rows` (`id` INT, `n` INT)",
        f"CREATE TRIGGER {{s}}.`tr` AFTER UPDATE ON {_T} FOR EACH ROW"
        " INSERT INTO {s}.`tr_rows` VALUES (NEW.id, NEW.n)",
        f"UPDATE {_T} SET `n` = COALESCE(`n`, 0) + 1 WHERE `id` < 4",
        "DROP TRIGGER {s}.`tr`",
    ),
    "procedure": _fixed(
        f"CREATE PROCEDURE {{s}}.`pr` (k INT) UPDATE {_T} SET `n` = k WHERE `id` = k",
        "CALL {s}.`pr` (2)",
        "DROP PROCEDURE {s}.`pr`",
    ),
    "returning": _fixed(f"DELETE FROM {_T} WHERE `id` = 3 RETURNING `id`"),
    "with": _fixed(f"WITH w AS (SELECT 1 AS `k`) UPDATE {_T} AS a, w SET a.`n` = 7 WHERE a.`id` > w.`k`"),
    "create if not exists": _fixed(
        f"CREATE TABLE IF NOT EXISTS {_T} (`other` INT)", "CREATE TABLE IF NOT EXISTS {s}.`n1` (`other` INT)"
    ),
    "replace select": lambda rng, made: [
        f"REPLACE INTO {_T} ({', '.join(made.literals)}) SELECT {', '.join(made.literals)} FROM {{s}}.`u`"
        f" WHERE `id` {rng.choice(['<', '>='])} 6"
    ],
    "for portion of": _portion,
    "drop tables": _fixed(
        "CREATE TABLE {s}.`d1` (`id` INT)",
        "CREATE TABLE {s}.`d2` LIKE {s}.`d1`",
        "INSERT INTO {s}.`d2` VALUES (1)",
        "DROP TABLE IF EXISTS {s}.`d1`, {s}.`d3`, {s}.`d2`",
    ),
    "alter rename": _fixed(
        f"ALTER TABLE {_T} RENAME TO {{s}}.`other`, ADD COLUMN `rn` INT NULL",
        f"ALTER TABLE {{s}}.`other` DROP COLUMN `rn`, RENAME {_T}",
    ),
    "if exists": _alter(
        "ADD COLUMN IF NOT EXISTS `n` BIGINT, ADD COLUMN IF NOT EXISTS `ie` INT NULL",
        "DROP COLUMN IF EXISTS `nothing`, ADD INDEX IF NOT EXISTS `ii` (`n`)",
        "CHANGE COLUMN IF EXISTS `nothing` `n` INT, DROP INDEX IF EXISTS `ii`",
        "MODIFY COLUMN IF EXISTS `n` BIGINT NULL, DROP FOREIGN KEY IF EXISTS `nothing`",
    ),
    "sequence": _fixed("CREATE SEQUENCE {s}.`sq`", "DO NEXTVAL({s}.`sq`)", "DROP SEQUENCE {s}.`sq`"),
}
FURTHER: Sequence[str] = tuple(_TEXTS)


def texts_of(kind: str, rng: random.Random, made: MadeTable) -> Sequence[str]:
    return _TEXTS[kind](rng, made)
