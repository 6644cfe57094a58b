"""Random tables with several unique keys or foreign keys, and random transactions on them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

from tests.harness.targets import TARGET
from tests.integration.syncer.replay import attempt

SEED = int(os.environ.get("DM_TEST_SEED", "1"))
Value = Callable[[random.Random], str]
CI = "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
#: TiDB has no other collation of latin1.
LATIN = f"CHARACTER SET latin1 COLLATE {'latin1_bin' if TARGET == 'tidb' else 'latin1_swedish_ci'}"
UCA = "CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"


def word(chance: random.Random) -> str:
    text = "".join(chance.choice("aAáÁbBßſsS ") for _ in range(chance.randint(1, 3)))
    return f"'{text}'"


def number(chance: random.Random) -> str:
    return str(chance.randint(1, 25))


#: Definition, its values, and the definition of a key over it.
KEYS: list[tuple[str, Value, str]] = [
    ("k INT", number, "k"),
    ("k BIGINT UNSIGNED", number, "k"),
    (f"k VARCHAR(20) {CI}", word, "k"),
    (f"k CHAR(9) {UCA}", word, "k"),
    (
        f"k VARCHAR(20) {LATIN}",
        lambda c: f"'{c.choice('aAäÄéEß')}{c.randint(1, 3)}'",
        "k",
    ),
    ("k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", word, "k"),
    (f"k VARCHAR(20) {CI}", word, "k(2)"),
    ("k VARBINARY(20)", lambda c: f"'{c.randint(1, 40):03d}'", "k(2)"),
    ("k DECIMAL(10,3)", lambda c: f"{c.randint(-9, 9)}.{c.choice('05')}", "k"),
    ("k DOUBLE", lambda c: c.choice(["-0e0", "0e0", "1.5e0", "-2e0", "3e0", "1e20"]), "k"),
    ("k DATETIME(3)", lambda c: f"'2020-01-01 00:00:0{c.randint(0, 9)}.{c.randint(0, 3)}'", "k"),
    ("k BINARY(4)", lambda c: f"'{c.choice('abcd')}{c.choice(['', 'x'])}'", "k"),
]
FURTHER: list[tuple[str, str, Value]] = [
    ("u INT", "u", number),
    (f"u VARCHAR(20) {CI}", "u", word),
    (f"u VARCHAR(20) {UCA}", "u(2)", word),
    ("u DECIMAL(8,2)", "u", lambda c: f"{c.randint(1, 20)}.5"),
    ("u FLOAT", "u", lambda c: c.choice(["-0e0", "0e0", "1.5e0", "-2e0", "3e0"])),
    ("u TIMESTAMP(2) NULL", "u", lambda c: f"'2020-01-01 00:00:0{c.randint(0, 9)}.5'"),
]


class Table:
    """A random table, with the random changes that fit it."""

    def __init__(self, chance: random.Random, name: str) -> None:
        self._chance = chance
        self.name = name
        key, self._key, key_part = chance.choice(KEYS)
        columns, keys = [f"{key} NOT NULL", "part INT NOT NULL"], []
        keys.append(f"PRIMARY KEY ({key_part}{chance.choice(['', '', ', part'])})")
        self._values: dict[str, Value] = {"k": self._key, "part": lambda c: str(c.randint(1, 2))}
        for n in range(chance.randint(0, 3)):
            definition, part, value = chance.choice(FURTHER)
            column = f"u{n}"
            columns.append(column + definition[1:])
            more = chance.choice(["", "", ", part"])
            keys.append(f"UNIQUE KEY {column} ({column}{part[1:]}{more})")
            self._values[column] = value
        self.uniques = [column for column in self._values if column.startswith("u")]
        self._values["v"] = lambda c: f"'v{c.randint(1, 10**6)}'"
        columns.append("v VARCHAR(30)")
        self.create = f"CREATE TABLE d.{name} ({', '.join(columns + keys)}) CHARACTER SET utf8mb4"

    def _value(self, column: str) -> str:
        if column in self.uniques and self._chance.random() < 0.2:
            return "NULL"
        return self._values[column](self._chance)

    def change(self, conn: Any) -> None:
        chance, name = self._chance, f"d.{self.name}"
        roll, key = chance.random(), self._key(chance)
        one = f"WHERE k = {key} LIMIT 1"
        if roll < 0.45:
            verb = chance.choice(["INSERT IGNORE", "INSERT IGNORE", "REPLACE"])
            rows = [
                f"({', '.join(self._value(column) for column in self._values)})" for _ in range(chance.randint(1, 3))
            ]
            attempt(conn, f"{verb} INTO {name} ({', '.join(self._values)}) VALUES {', '.join(rows)}")
        elif roll < 0.55:
            attempt(conn, f"UPDATE {name} SET v = {self._value('v')} {one}")
        elif roll < 0.65:
            attempt(conn, f"UPDATE IGNORE {name} SET k = {self._key(chance)}, v = {self._value('v')} {one}")
        elif roll < 0.75 and self.uniques:
            column = chance.choice(self.uniques)
            attempt(conn, f"UPDATE IGNORE {name} SET {column} = {self._value(column)} {one}")
        elif roll < 0.9 and self.uniques:
            self._cycle(conn, chance.choice(self.uniques), chance.randint(2, 4))
        else:
            attempt(conn, f"DELETE FROM {name} {one}")

    def _cycle(self, conn: Any, column: str, length: int) -> None:
        """Rows pass their values around: a ↔ b, a → b → c → a."""
        chance, name = self._chance, f"d.{self.name}"
        with conn.cursor() as cursor:
            found = cursor.execute(
                f"SELECT QUOTE(k), part, QUOTE({column}) FROM {name} WHERE {column} IS NOT NULL ORDER BY"
                f" MD5(CONCAT(k, {chance.randint(1, 99)})) LIMIT {length}"
            )
            rows = cursor.fetchall()
        if found < 2 or any("'" not in str(row[0]) for row in rows):
            return
        places = [f"WHERE k = {key} AND part = {part} LIMIT 1" for key, part, _ in rows]
        attempt(
            conn,
            f"UPDATE {name} SET {column} = NULL {places[0]}",
            *[f"UPDATE {name} SET {column} = {rows[i - 1][2]} {places[i]}" for i in range(len(rows) - 1, 0, -1)],
            f"UPDATE {name} SET {column} = {rows[-1][2]} {places[0]}",
        )


def transactions(conn: Any, chance: random.Random, count: int, change: Callable[[], None]) -> None:
    for _ in range(count):
        conn.begin()
        for _ in range(chance.randint(1, 6)):
            change()
        conn.rollback() if chance.random() < 0.1 else conn.commit()


FAMILY = (
    "CREATE TABLE d.p (id INT PRIMARY KEY, code VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,"
    " v INT, UNIQUE KEY (code))",
    "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, code VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,"
    " boss INT, v INT, FOREIGN KEY (p) REFERENCES d.p (id), FOREIGN KEY (code) REFERENCES d.p (code),"
    " FOREIGN KEY (boss) REFERENCES d.c (id))",
    "CREATE TABLE d.other (id INT PRIMARY KEY, v INT)",
)


def family_change(conn: Any, chance: random.Random) -> None:
    """A change to parents and children that the server may refuse."""

    def id_() -> str:
        return str(chance.randint(1, 25))

    def code() -> str:
        return f"'{chance.choice('aAbBcC')}{chance.randint(1, 4)}'"

    def some(value: str) -> str:
        return value if chance.random() < 0.7 else "NULL"

    changes = (
        f"INSERT INTO d.p VALUES ({id_()}, {code()}, {id_()})",
        f"INSERT INTO d.c VALUES ({id_()}, {some(id_())}, {some(code())}, {some(id_())}, {id_()})",
        f"DELETE FROM d.p WHERE id = {id_()}",
        f"DELETE FROM d.c WHERE id = {id_()}",
        f"UPDATE d.p SET id = {id_()}, v = {id_()} WHERE id = {id_()}",
        f"UPDATE d.p SET code = {code()} WHERE id = {id_()}",
        f"UPDATE d.c SET p = {some(id_())}, v = {id_()} WHERE id = {id_()}",
        f"UPDATE d.c SET boss = {some(id_())}, code = {some(code())} WHERE id = {id_()}",
        f"REPLACE INTO d.other VALUES ({id_()}, {id_()})",
    )
    attempt(conn, chance.choice(changes))
