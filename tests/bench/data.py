"""The benchmark's table and its changes: sysbench's shape, made inside the server so that making it is quick."""

from __future__ import annotations

from tests.harness.mysql import SQLServer

TABLE = "sb.sbtest1"
#: 119 and 59 characters, different for every row and every version of a row.
_C = "LEFT(CONCAT_WS('-', MD5({0}), MD5({0} + 1), MD5({0} + 2), MD5({0} + 3)), 119)"
_PAD = "LEFT(CONCAT_WS('-', MD5({0} + 4), MD5({0} + 5)), 59)"
SHAPE = """(
  id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '',
  pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k_1 (k)
)"""


def create(server: SQLServer, rows: int) -> None:
    """Creates the table with ``rows`` rows."""
    server.execute("CREATE DATABASE sb", f"CREATE TABLE {TABLE} {SHAPE}")
    step = 100_000
    for start in range(1, rows + 1, step):
        end = min(rows, start + step - 1)
        server.execute(
            f"INSERT INTO {TABLE} SELECT seq, 1 + FLOOR(RAND(seq) * {rows}), {_C.format('seq')}, {_PAD.format('seq')}"
            f" FROM sb.seq_{start}_to_{end}"
        )


def insert_only(server: SQLServer, rows: int, changes: int) -> int:
    """``changes`` new rows, 100 a statement and transaction, beyond the ``rows`` there are. Returns the row changes."""
    server.execute(
        "CREATE OR REPLACE PROCEDURE sb.fill(first INT, last INT) BEGIN WHILE first <= last DO"
        f" INSERT INTO {TABLE} SELECT first + seq, 1 + FLOOR(RAND() * {rows}), {_C.format('(first + seq)')},"
        f" {_PAD.format('seq')} FROM seq_0_to_99; SET first = first + 100; END WHILE; END",
        f"CALL sb.fill({rows + 1}, {rows + changes})",
        "DROP PROCEDURE sb.fill",
    )
    return changes


def oltp(server: SQLServer, rows: int, changes: int) -> int:
    """sysbench's write mix: transactions of two updates, one delete and one insert of the same id, random ids."""
    transactions = changes // 4
    server.execute(
        "CREATE OR REPLACE PROCEDURE sb.mix(n INT) BEGIN DECLARE a INT; DECLARE b INT; DECLARE d INT; WHILE n > 0 DO"
        f" SET a = 1 + FLOOR(RAND() * {rows}), b = 1 + FLOOR(RAND() * {rows}), d = 1 + FLOOR(RAND() * {rows});"
        f" START TRANSACTION; UPDATE {TABLE} SET k = k + 1 WHERE id = a;"
        f" UPDATE {TABLE} SET c = {_C.format('(n * 7)')} WHERE id = b; DELETE FROM {TABLE} WHERE id = d;"
        f" INSERT INTO {TABLE} VALUES (d, n, {_C.format('(n * 3)')}, {_PAD.format('n')}); COMMIT;"
        " SET n = n - 1; END WHILE; END",
        f"CALL sb.mix({transactions})",
        "DROP PROCEDURE sb.mix",
    )
    return transactions * 4


def delete_heavy(server: SQLServer, rows: int, changes: int) -> int:
    """Deletes of ``changes`` scattered rows, 100 a transaction."""
    server.execute(
        "CREATE OR REPLACE PROCEDURE sb.thin(n INT) BEGIN DECLARE i INT DEFAULT 0; WHILE i < n DO"
        f" DELETE FROM {TABLE} WHERE id BETWEEN 1 + i * 200 AND 200 + i * 200 AND id % 2 = 0;"
        " SET i = i + 1; END WHILE; END",
        f"CALL sb.thin({changes // 100})",
        "DROP PROCEDURE sb.thin",
    )
    return changes // 100 * 100


MIXES = {"insert-only": insert_only, "oltp": oltp, "delete-heavy": delete_heavy}
