"""Hazards: a character of some character set arrives as another one, or makes the statement invalid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pymysql.connections import Connection

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from pkg.binlog.charsets import collation_charset, decode_text, same_charset
from pkg.errors import DMError
from tests.integration.binlog_replay import SESSION, checksum, decode, events_between, here
from tests.integration.charset_codes import STEPS, charsets, codes

#: Characters of one row: what the smallest text type takes in any character set.
_PER_ROW = 60
#: The basic plane without surrogates, and some of the others: emoji, CJK extension B, the last one.
_CODE_POINTS = [*range(0xD800), *range(0xE000, 0x10000), *range(0x1F300, 0x1F700), *range(0x20000, 0x20400), 0x10FFFF]

#: What some character sets let in: surrogates, the limits of UTF-8, three and four bytes a character, zero bytes.
_ODD = (
    "eda080",
    "edbfbf",
    "efbfbf",
    "f0908080",
    "f48fbfbf",
    "8fa1a1",
    "8fedfe",
    "d83ddc00",
    "0010ffff",
    "81308130",
    "0000",
)


def _charsets(conn: Connection[Any]) -> dict[str, int]:
    """Names, and how many bytes a character may take."""
    with conn.cursor() as cursor:
        cursor.execute("SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS ORDER BY 1")
        return {str(name): int(width) for name, width in cursor.fetchall()}


def _insert(cursor: Any, table: str, columns: int, ids: list[int], texts: list[str]) -> None:
    """The same text into every column; the server converts it, and puts ? for what a character set lacks."""
    rows = [
        b"(%d,%b)" % (number, b",".join([b"_utf8mb4 x'%b'" % text.encode().hex().encode()] * columns))
        for number, text in zip(ids, texts, strict=True)
    ]
    for first in range(0, len(rows), 100):
        cursor.execute(b"INSERT INTO %b VALUES %b" % (table.encode(), b",".join(rows[first : first + 100])))


def _fill(conn: Connection[Any], charsets: dict[str, int]) -> None:
    """Every code point, every single byte, and (MariaDB) every pair of bytes that is one or two characters."""
    body = ", ".join(f"`{name}` TINYTEXT CHARACTER SET {name}" for name in charsets)
    with conn.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode='', time_zone='+00:00'")
        cursor.execute(f"CREATE TABLE cs.src (id INT PRIMARY KEY, {body}) ENGINE=MyISAM")
        cursor.execute("CREATE TABLE cs.dst LIKE cs.src")
        cursor.execute("SELECT @@version LIKE '%MariaDB%'")
        mariadb = cursor.fetchone()[0]
    with conn.cursor() as cursor:
        cuts = range(0, len(_CODE_POINTS), _PER_ROW)
        rows = ["".join(map(chr, _CODE_POINTS[first : first + _PER_ROW])) for first in cuts]
        _insert(cursor, "cs.src", len(charsets), list(range(len(rows))), rows)
        singles = (f"({10_000 + n}" + f",_binary x'{n:02x}'" * len(charsets) + ")" for n in range(256))
        cursor.execute("INSERT IGNORE INTO cs.src VALUES " + ",".join(singles))
        odd = (f"({20_000 + n}" + f",_binary x'{text}'" * len(charsets) + ")" for n, text in enumerate(_ODD))
        cursor.execute("INSERT IGNORE INTO cs.src VALUES " + ",".join(odd))
        if mariadb:
            pairs = ",".join("UNHEX(HEX(seq))" if charsets[name] > 1 else "NULL" for name in charsets)
            cursor.execute(f"INSERT IGNORE INTO cs.src SELECT 100000 + seq, {pairs} FROM cs.seq_32768_to_65535")


def _round_trip(server: SQLServer) -> None:
    server.execute("CREATE DATABASE cs")
    conn = server.connect()
    charsets = _charsets(conn)
    assert len(charsets) > 35
    start = here(server)
    _fill(conn, charsets)
    decoded = decode(server, events_between(server, start, here(server).position), "cs", "src", key=[0])
    with conn.cursor() as cursor:
        cursor.execute(SESSION)
        head = b"INSERT INTO cs.dst VALUES "
        for first in range(0, len(decoded.changes), 200):
            part = decoded.changes[first : first + 200]
            cursor.execute(head + b",".join(values for _, _, values, _ in part))
        for name in charsets:
            cursor.execute(
                f"SELECT s.id, HEX(s.`{name}`), HEX(d.`{name}`) FROM cs.src s LEFT JOIN cs.dst d USING (id) "
                f"WHERE NOT (HEX(s.`{name}`) <=> HEX(d.`{name}`)) LIMIT 3"
            )
            assert cursor.fetchall() == (), name
    assert checksum(conn, "cs.src") == checksum(conn, "cs.dst")
    conn.close()


def test_every_character_of_every_charset_of_mariadb_survives(mariadb_upstream: MariaDBServer) -> None:
    _round_trip(mariadb_upstream)


def test_every_character_of_every_charset_of_mysql_survives(mysql_upstream: MySQLServer) -> None:
    _round_trip(mysql_upstream)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("flavor", "names"),
    [
        (
            "mariadb",
            ("cp932", "sjis", "ujis", "eucjpms", "euckr", "gbk", "gb2312", "big5", "cp1256", "tis620", "utf16"),
        ),
        ("mysql", ("gb18030", "ujis")),
    ],
)
def test_codes_are_read_as_the_server_converts_them(
    flavor: str, names: Sequence[str], step: int, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer
) -> None:
    server = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    server.execute("CREATE DATABASE cs")
    for name in names:
        found = codes(name, charsets(server)[name], step)
        if name in ("ujis", "eucjpms"):
            found += [f"8F{high:02X}{low:02X}" for high in range(0xA1, 0xFF) for low in range(0xA1, 0xFF)]
        rows = [f"({number},0x{code})" for number, code in enumerate(found)]
        answers = server.execute(
            "SET SESSION sql_mode = ''",
            f"CREATE TABLE cs.{name} (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET {name}) ENGINE=MyISAM",
            *(f"INSERT IGNORE INTO cs.{name} VALUES {','.join(rows[n : n + 5000])}" for n in range(0, len(rows), 5000)),
            f"SELECT HEX(v), CONVERT(v USING utf8mb4) FROM cs.{name}",
        )
        assert len(answers) == len(found)
        wrong = [(code, text, _read(code, name)) for code, text in answers if _read(code, name) != _text_or_none(text)]
        assert wrong == [], name


def _read(code: str, charset: str) -> str | None:
    try:
        text = decode_text(bytes.fromhex(code), charset)
    except DMError:
        return None
    return None if "?" in text else text


def _text_or_none(text: str) -> str | None:
    """The server stores a question mark, or a character of its own, for what is no character."""
    return None if "?" in text or "\ufffd" in text else text


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_every_collation_of_the_server_is_known(
    flavor: str, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer
) -> None:
    server = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    if flavor == "mariadb":
        rows = server.execute(
            "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
        )
    else:
        rows = server.execute("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS")
    assert len(rows) > 200
    wrong = [(number, name) for number, name in rows if not same_charset(collation_charset(number), name)]
    assert wrong == []
