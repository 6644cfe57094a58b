"""The benchmark's tables and their changes. The server itself creates them, which is fast.

Every version of a row differs from the one before: the server skips an image that equals the stored row. So
transactions write values from negative numbers, and the initial rows have values from positive ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from deploy.local.mysql import SQLServer

SCHEMA = "sb"
#: Contains the procedures: not migrated, so that creating them is not a barrier in the binlog.
TOOLS = "bench"
TABLE = "sb.sbtest1"
_STEP = 100_000
#: A step that reaches all ids of a table whose size is not a multiple of it.
_PRIME = 48_271

_C = "LEFT(CONCAT_WS('-', MD5({0}), MD5({0} + 1), MD5({0} + 2), MD5({0} + 3)), 119)"
_PAD = "LEFT(CONCAT_WS('-', MD5({0} + 4), MD5({0} + 5)), 59)"
_SHAPE = """(
  id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '',
  pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k_1 (k)
)"""
#: Secondary keys of sysbench's table, which has the first one by itself.
SECONDARY_KEYS = ("k_1 (k)", "c_1 (c)", "pad_1 (pad)", "k_pad (k, pad)")
_UNIQUES_SHAPE = """(
  id INT NOT NULL PRIMARY KEY, email VARCHAR(60) NOT NULL, code BIGINT NOT NULL, c CHAR(120) NOT NULL,
  UNIQUE KEY email (email), UNIQUE KEY code (code)
)"""
#: MariaDB 11.8's default collation.
_UCA_1400 = "VARCHAR(40) COLLATE utf8mb4_uca1400_ai_ci"
#: Column and its value from the number {0}.
_WIDE = {
    "a_tiny TINYINT": "{0} % 128",
    "b_small SMALLINT UNSIGNED": "{0} % 65536",
    "c_medium MEDIUMINT": "CAST({0} % 8388608 AS SIGNED) - 100",
    "d_big BIGINT UNSIGNED": "18446744073709551615 - {0}",
    "e_dec DECIMAL(30,10)": "{0} * 1.0000000123",
    "f_float FLOAT": "RAND() * 1000",
    "g_double DOUBLE": "RAND() * 1e100",
    "h_bit BIT(12)": "{0} % 4096",
    "i_date DATE": "DATE_ADD('2000-01-01', INTERVAL {0} % 9000 DAY)",
    "j_time TIME(3)": "SEC_TO_TIME({0} % 80000 + 0.125)",
    "k_datetime DATETIME(6)": "DATE_ADD('2001-02-03 04:05:06.000007', INTERVAL {0} SECOND)",
    "l_stamp TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00'": "FROM_UNIXTIME(1600000000 + {0})",
    "m_year YEAR": "1970 + {0} % 100",
    "n_char CHAR(20)": "LEFT(MD5({0}), 18)",
    "o_varchar VARCHAR(200)": "CONCAT('é''\\\\', MD5({0} + 1), MD5({0} + 2))",
    "p_binary VARBINARY(40)": "UNHEX(MD5({0} + 3))",
    "q_blob BLOB": "UNHEX(CONCAT(MD5({0} + 4), MD5({0} + 5), MD5({0} + 6)))",
    "r_text TEXT": "REPEAT(MD5({0} + 7), 4)",
    "s_enum ENUM('red','green','blue')": "1 + {0} % 3",
    "t_set SET('a','b','c','d')": "{0} % 16",
    "u_json JSON": "JSON_OBJECT('n', {0}, 'list', JSON_ARRAY({0}, 'x'))",
    "v_null INT NULL": "IF({0} % 3, {0}, NULL)",
}


@dataclass(frozen=True)
class Workload:
    """Tables and the transactions that change them.

    ``create(server, rows)`` creates tables in ``SCHEMA``; ``body(rows)`` gives the SQL of transaction ``n`` (counted
    from 1; the variables a, b, d are free to use), which makes ``changes`` row changes.
    """

    name: str
    changes: int
    create: Callable[[SQLServer, int], None]
    body: Callable[[int], str]
    tables: tuple[str, ...] = (TABLE,)
    #: How many changes each row of the table allows before ids run out.
    per_row: float = math.inf

    def prepare(self, server: SQLServer, rows: int) -> None:
        """Creates tables with ``rows`` rows in total, and the procedure that writes to them."""
        server.execute(f"CREATE DATABASE {SCHEMA}", f"CREATE DATABASE {TOOLS}")
        self.create(server, rows)
        server.execute(
            f"CREATE PROCEDURE {TOOLS}.mix(first INT, last INT) BEGIN"
            " DECLARE n INT DEFAULT first; DECLARE a INT; DECLARE b INT; DECLARE d INT;"
            f" WHILE n <= last DO START TRANSACTION; {self.body(rows)}; COMMIT; SET n = n + 1; END WHILE; END"
        )

    def write(self, server: SQLServer, rows: int, changes: int, first: int = 1) -> int:
        """Writes about ``changes`` row changes, or as many as ``rows`` allow, beginning with transaction ``first``.

        Returns their number.
        """
        transactions = max(1, int(min(changes, rows * self.per_row)) // self.changes)
        server.execute(f"CALL {TOOLS}.mix({first}, {first + transactions - 1})")
        return transactions * self.changes


def zipf_sql(rows: int) -> str:
    """SQL for an id of 1..``rows`` - 1, distributed by Zipf's law with exponent 1; see :func:`zipf`."""
    return f"FLOOR(POW({rows}, RAND()))"


def zipf(rows: int, chance: float) -> int:
    """The id that :func:`zipf_sql` gives when RAND() gives ``chance``: id k in ln(1 + 1/k) / ln(rows) of all cases."""
    return int(rows**chance)


def scattered(step: str, rows: int) -> str:
    """SQL for an id of 1..``rows`` that differs for ``rows`` successive values of ``step``."""
    if rows % _PRIME == 0:
        raise ValueError(f"a table of {rows} rows can't be stepped through by {_PRIME}")
    return f"(1 + ({step}) * {_PRIME} % {rows})"


def fill(server: SQLServer, table: str, rows: int, columns: str) -> None:
    """Inserts ``rows`` rows; ``columns`` are SQL expressions of ``seq``, the row's number from 1."""
    for start in range(1, rows + 1, _STEP):
        end = min(rows, start + _STEP - 1)
        server.execute(f"INSERT INTO {table} SELECT {columns} FROM {SCHEMA}.seq_{start}_to_{end}")


def big_transaction(server: SQLServer, first: int, last: int) -> None:
    """Writes rows ``first``..``last`` of the sysbench table in one transaction."""
    server.execute(f"INSERT INTO {TABLE} SELECT {sysbench_columns(last)} FROM {SCHEMA}.seq_{first}_to_{last}")


def sysbench_columns(rows: int) -> str:
    return f"seq, 1 + FLOOR(RAND(seq) * {rows}), {_C.format('seq')}, {_PAD.format('seq')}"


def _sysbench(server: SQLServer, rows: int, table: str = TABLE) -> None:
    server.execute(f"CREATE TABLE {table} {_SHAPE}")
    fill(server, table, rows, sysbench_columns(rows))


def _indexed(server: SQLServer, rows: int) -> None:
    _sysbench(server, rows)
    server.execute(f"ALTER TABLE {TABLE} " + ", ".join(f"ADD KEY {key}" for key in SECONDARY_KEYS[1:]))


def _random(rows: int) -> str:
    return f"1 + FLOOR(RAND() * {rows})"


def _insert_only(rows: int) -> str:
    number = "(n * 100 + seq)"
    return (
        f"INSERT INTO {TABLE} SELECT {rows} - 99 + {number}, 1 + FLOOR(RAND() * {rows}), {_C.format(number)},"
        f" {_PAD.format('seq')} FROM {TOOLS}.seq_0_to_99"
    )


def _oltp(rows: int, table: str = TABLE) -> str:
    """sysbench's write mix: two updates, one delete and one insert of the same id, random ids."""
    ids = _random(rows)
    return (
        f"SET a = {ids}, b = {ids}, d = {ids}; UPDATE {table} SET k = k + 1 WHERE id = a;"
        f" UPDATE {table} SET c = {_C.format('(-2 * n)')} WHERE id = b; DELETE FROM {table} WHERE id = d;"
        f" INSERT INTO {table} VALUES (d, n, {_C.format('(-2 * n - 1)')}, {_PAD.format('n')})"
    )


def _update_heavy(rows: int) -> str:
    """Four updates, mostly of a few hot rows, like counters and sessions. Setting a value again would be no change."""
    hot = zipf_sql(rows)
    return (
        f"SET a = {hot}, b = {hot}, d = {hot}; UPDATE {TABLE} SET k = k + 1 WHERE id = a;"
        f" UPDATE {TABLE} SET c = {_C.format('(-2 * n)')} WHERE id = b;"
        f" UPDATE {TABLE} SET pad = {_PAD.format('(-5 * n)')} WHERE id = d;"
        f" SET a = {_random(rows)}; UPDATE {TABLE} SET k = k + 2, c = {_C.format('(-2 * n - 1)')} WHERE id = a"
    )


def _no_reuse(rows: int) -> str:
    """Two updates, a delete and an insert; every id is touched once in ``rows`` / 3 transactions."""
    first, second, third = (scattered(f"n * 3 + {i}", rows) for i in range(3))
    return (
        f"UPDATE {TABLE} SET k = k + 1 WHERE id = {first};"
        f" UPDATE {TABLE} SET c = {_C.format('(-7 * n)')} WHERE id = {second}; DELETE FROM {TABLE} WHERE id = {third};"
        f" INSERT INTO {TABLE} VALUES ({rows} + n, n, {_C.format('(-3 * n)')}, {_PAD.format('n')})"
    )


def _delete_heavy(_: int) -> str:
    return f"DELETE FROM {TABLE} WHERE id BETWEEN n * 200 - 199 AND n * 200 AND id % 2 = 0"


def _mixed(rows: int) -> str:
    """Three updates of even ids, one of them hot, an insert at the end and a delete of the next odd id."""
    even = f"2 * (1 + FLOOR(RAND() * {rows // 2 - 1}))"
    return (
        f"SET a = {even}, b = {even}, d = 2 * {zipf_sql(rows // 2)}; UPDATE {TABLE} SET k = k + 1 WHERE id = a;"
        f" UPDATE {TABLE} SET c = {_C.format('(-7 * n)')} WHERE id = b; UPDATE {TABLE} SET k = k + 1 WHERE id = d;"
        f" DELETE FROM {TABLE} WHERE id = 2 * n - 1;"
        f" INSERT INTO {TABLE} VALUES ({rows} + n, n, {_C.format('(-3 * n)')}, {_PAD.format('n')})"
    )


def _several(rows: int) -> str:
    bodies = [_oltp(rows // 8, f"{SCHEMA}.sbtest{i + 1}") for i in range(8)]
    return "CASE n % 8 " + " ".join(f"WHEN {i} THEN {body};" for i, body in enumerate(bodies)) + " END CASE"


def _create_several(server: SQLServer, rows: int) -> None:
    for i in range(8):
        _sysbench(server, rows // 8, f"{SCHEMA}.sbtest{i + 1}")


def _create_uniques(server: SQLServer, rows: int) -> None:
    server.execute(f"CREATE TABLE {SCHEMA}.uniques {_UNIQUES_SHAPE}")
    fill(server, f"{SCHEMA}.uniques", rows, f"seq, CONCAT(MD5(seq), '@a'), seq, {_C.format('seq')}")


def _uniques(rows: int) -> str:
    """Updates of both additional unique keys and of none, and a delete and an insert that reuses the keys."""
    table, ids = f"{SCHEMA}.uniques", _random(rows)
    return (
        f"SET a = {ids}, b = {ids}, d = {ids}; UPDATE {table} SET email = CONCAT(MD5(n), '@b') WHERE id = a;"
        f" UPDATE {table} SET code = {rows} + 2 * n, c = {_C.format('(-7 * n)')} WHERE id = b;"
        f" DELETE FROM {table} WHERE id = d;"
        f" INSERT INTO {table} VALUES (d, CONCAT(MD5(n), '@c'), {rows} + 2 * n + 1, {_C.format('(-3 * n)')})"
    )


def _wide(key: str, value: str) -> tuple[Callable[[SQLServer, int], None], Callable[[int], str]]:
    """Mixed types with a primary key: ``key`` is its definition, ``value`` creates it from a number."""
    table = f"{SCHEMA}.wide"
    updated = [(column.split()[0], sql) for column, sql in _WIDE.items()][3:20]

    def columns(number: str) -> str:
        return ", ".join([value.format(number), *(sql.format(number) for sql in _WIDE.values())])

    def create(server: SQLServer, rows: int) -> None:
        server.execute(f"CREATE TABLE {table} (id {key} PRIMARY KEY, {', '.join(_WIDE)})")
        fill(server, table, rows, columns("seq"))

    def body(rows: int) -> str:
        """Ten inserts, five updates and two deletes per transaction."""
        old = scattered("n * 7 + {0}", rows)
        sets = ", ".join(f"{name} = {sql.format('(n * 11)')}" for name, sql in updated)
        ids = [value.format(old.format(i)) for i in range(7)]
        return (
            f"INSERT INTO {table} SELECT {columns(f'({rows} + n * 10 + seq)')} FROM {TOOLS}.seq_0_to_9;"
            f" UPDATE {table} SET {sets} WHERE id IN ({', '.join(ids[:5])});"
            f" DELETE FROM {table} WHERE id IN ({', '.join(ids[5:])})"
        )

    return create, body


def all_workloads() -> dict[str, Workload]:
    made = [
        Workload("insert-only", 100, _sysbench, _insert_only),
        Workload("insert-4-keys", 100, _indexed, _insert_only),
        Workload("oltp", 4, _sysbench, _oltp),
        Workload("update-heavy", 4, _sysbench, _update_heavy),
        Workload("no-reuse", 4, _sysbench, _no_reuse, per_row=4 / 3),
        Workload("delete-heavy", 100, _sysbench, _delete_heavy, per_row=0.5),
        Workload("mixed", 5, _sysbench, _mixed, per_row=2.5),
        Workload("wide", 17, *_wide("BIGINT", "{0}"), (f"{SCHEMA}.wide",), 17 / 7),
        Workload("wide-string", 17, *_wide("VARCHAR(40)", "CONCAT('key-', {0})"), (f"{SCHEMA}.wide",), 17 / 7),
        Workload("wide-uca1400", 17, *_wide(_UCA_1400, "CONCAT('key-', {0})"), (f"{SCHEMA}.wide",), 17 / 7),
        Workload("several", 4, _create_several, _several, tuple(f"{SCHEMA}.sbtest{i + 1}" for i in range(8))),
        Workload("uniques", 4, _create_uniques, _uniques, (f"{SCHEMA}.uniques",)),
    ]
    return {one.name: one for one in made}
