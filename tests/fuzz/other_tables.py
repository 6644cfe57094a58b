"""Statements about other tables than those that are compared: temporary ones, those of schema change tools. Pure."""

from __future__ import annotations

import random

_T = "{s}.`t`"
#: What is done to a temporary table that has the name of a real one.
_SHADOW = {
    "temporary shadow": f"UPDATE {_T} SET `n` = 7",
    "temporary truncate": f"TRUNCATE TABLE {_T}",
    "temporary alter": f"ALTER TABLE {_T} ADD COLUMN `q` INT",
    "temporary rename": f"ALTER TABLE {_T} RENAME TO {{s}}.`tmp2`",
    "temporary drop": f"DROP TABLE {_T}",
}
GH_OST_HINTS = "CREATE TABLE {s}.`_t_ghc` (`id` BIGINT AUTO_INCREMENT PRIMARY KEY, `hint` VARCHAR(64), `value` TEXT)"


def temporary(kind: str, rng: random.Random) -> list[str]:
    """Statements about a temporary table, from its creation to its end."""
    if kind == "temporary create":
        rows = ["INSERT IGNORE INTO {s}.`tmp` VALUES (1)"] if rng.random() < 0.5 else []
        made = "CREATE TEMPORARY TABLE IF NOT EXISTS {s}.`tmp` (`id` INT PRIMARY KEY)"
        return [made, *rows, "DROP TEMPORARY TABLE {s}.`tmp`"]
    rows = [f"INSERT INTO {_T} VALUES (1, 1)"] if rng.random() < 0.3 else []
    ends = [f"DROP TEMPORARY TABLE IF EXISTS {_T}"]
    if kind == "temporary rename":
        ends.append("DROP TEMPORARY TABLE IF EXISTS {s}.`tmp2`")
    return [f"CREATE TEMPORARY TABLE {_T} (`id` INT, `n` INT)", *rows, _SHADOW[kind], *ends]


def table_exchange(new: str, old: str, number: int) -> list[str]:
    """A table is copied into a new one, with a column more, which takes its place."""
    fields = (
        "SET @fields = (SELECT GROUP_CONCAT('`', COLUMN_NAME, '`') FROM information_schema.COLUMNS WHERE"
        " TABLE_SCHEMA = '{s}' AND TABLE_NAME = 't' AND COALESCE(GENERATION_EXPRESSION, '') = '')"
    )
    copy = f"CONCAT('INSERT IGNORE INTO {{s}}.`{new}` (', @fields, ') SELECT ', @fields, ' FROM {_T}')"
    return [
        f"CREATE TABLE {{s}}.`{new}` LIKE {_T}",
        f"ALTER TABLE {{s}}.`{new}` ADD COLUMN `tool{number}` INT",
        fields,
        f"SET @copy = {copy}",
        "PREPARE copy FROM @copy",
        "EXECUTE copy",
        f"RENAME TABLE {_T} TO {{s}}.`{old}`, {{s}}.`{new}` TO {_T}",
        f"DROP TABLE IF EXISTS {{s}}.`{old}`",
    ]
