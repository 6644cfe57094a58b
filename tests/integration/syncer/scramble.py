"""Random changes to tables of every kind of key."""

from __future__ import annotations

import random
from typing import Any

from deploy.local.mysql import SQLServer

TABLES = {
    "plain": "id INT PRIMARY KEY, v VARCHAR(100), n INT",
    "composite": "a INT, b BIGINT UNSIGNED, v VARCHAR(100), n INT, PRIMARY KEY (b, a)",
    "unique_only": "id INT NOT NULL, v VARCHAR(100), n INT, UNIQUE KEY u (id)",
    "keyless": "id INT, v VARCHAR(100), n INT",
    "two_keys": "id INT PRIMARY KEY, u INT, v VARCHAR(100), n INT, UNIQUE KEY u (u)",
    "text_key": "id VARCHAR(40) PRIMARY KEY, v VARCHAR(100), n INT",
}


def make_tables(*servers: SQLServer) -> None:
    for server in servers:
        server.execute("CREATE DATABASE d", *[f"CREATE TABLE d.{name} ({body})" for name, body in TABLES.items()])


def scramble(upstream: SQLServer, seed: int, transactions: int = 60) -> None:
    """Random transactions over all tables: inserts, updates, deletes, changed keys, swapped unique values."""
    chance = random.Random(seed)
    conn = upstream.connect(autocommit=False)
    with conn.cursor() as cursor:
        for number in range(transactions):
            for _ in range(chance.randint(1, 8)):
                one_change(cursor, chance, number)
            (conn.rollback if chance.random() < 0.1 else conn.commit)()
    conn.commit()
    conn.close()


def one_change(cursor: Any, chance: random.Random, number: int) -> None:
    execute = cursor.execute
    table = chance.choice(list(TABLES))
    key, other = chance.randint(1, 30), chance.randint(1, 30)
    name = "a" if table == "composite" else "id"
    literal = f"'{'kK'[number % 2]}{key}'" if table == "text_key" else str(key)
    value = f"'v{number}-{chance.randint(0, 3)}\\\\ \\' é😀'"
    roll = chance.random()
    if roll < 0.4:
        columns = {"composite": "a, b, v, n", "two_keys": "id, u, v, n"}.get(table, "id, v, n")
        second = f"{other}, " if table in ("composite", "two_keys") else ""
        execute(f"INSERT IGNORE INTO d.{table} ({columns}) VALUES ({literal}, {second}{value}, {number})")
    elif roll < 0.6:
        execute(f"UPDATE d.{table} SET v = {value}, n = {number} WHERE {name} = {literal}")
    elif roll < 0.75:
        moved = f"'K{other}'" if table == "text_key" else str(other)
        execute(f"UPDATE IGNORE d.{table} SET {name} = {moved} WHERE {name} = {literal}")
    elif roll < 0.8 and table == "two_keys":
        swap_unique_values(cursor)
    else:
        execute(f"DELETE FROM d.{table} WHERE {name} = {literal} LIMIT 2")


def swap_unique_values(cursor: Any) -> None:
    cursor.execute("SELECT id, u FROM d.two_keys WHERE u IS NOT NULL ORDER BY v LIMIT 2")
    found = cursor.fetchall()
    if len(found) == 2:
        (one, u), (other, w) = found
        cursor.execute(f"UPDATE d.two_keys SET u = NULL WHERE id = {one}")
        cursor.execute(f"UPDATE d.two_keys SET u = {u} WHERE id = {other}")
        cursor.execute(f"UPDATE d.two_keys SET u = {w} WHERE id = {one}")
