"""Hazard: a statement's bytes mean other names or strings to us than to the server that ran it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from pkg.binlog.charsets import decode_text, encode_text
from pkg.binlog.events import QueryEvent
from pkg.binlog.single_byte_charsets import HIGH
from pkg.ddl.tokens import DEFAULT_DIALECT, tokenize
from pkg.errors import DMError

#: What Unicode calls blank, and ASCII's signs that may be one.
BLANKS = [chr(code) for code in (*range(0x21), 0x7F, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200C), 0x2028, 0x3000)]
NO_BACKSLASH_ESCAPES = 1 << 20


@pytest.fixture(params=["target", "mysql_upstream"])
def server(request: pytest.FixtureRequest) -> SQLServer:
    found: SQLServer = request.getfixturevalue(request.param)
    return found


def run(conn: Connection[Any], statement: bytes) -> Any:
    """The answer's columns and rows."""
    with conn.cursor() as cursor:
        cursor.execute(statement)  # type: ignore[arg-type]
        return [column[0] for column in cursor.description or ()], cursor.fetchall()


def client_charsets(conn: Connection[Any]) -> dict[str, int]:
    """Charset → the id of its default collation, for those that a client's statements can be in."""
    rows = run(conn, b"SELECT CHARACTER_SET_NAME, ID FROM information_schema.COLLATIONS WHERE IS_DEFAULT = 'Yes'")[1]
    wide = ("ucs2", "utf16", "utf16le", "utf32")
    return {name: int(number) for name, number in rows if name not in wide and int(number) < 1024}


def logged(statement: bytes, collation: int, sql_mode: int = 0) -> QueryEvent:
    return QueryEvent(1, 0, 0, "", statement, sql_mode=sql_mode, charsets=(collation, 45, 45))


def test_what_parts_a_name_from_the_word_before_it(server: SQLServer) -> None:
    conn = server.connect()
    compared = set()
    for charset, collation in client_charsets(conn).items():
        run(conn, f"SET character_set_client = {charset}, character_set_results = utf8mb4".encode())
        blanks = {bytes([byte]) for byte in range(0x80, 0x100)}
        for char in BLANKS:
            try:
                blanks.add(encode_text(char, charset))
            except DMError:
                continue
        for blank, before in product(blanks, (b"AS", b"AS ")):
            statement = b"SELECT 1 " + before + blank + b"b"
            try:
                names, _ = run(conn, statement)
                text = logged(statement, collation).sql
            except (pymysql.Error, DMError, UnicodeDecodeError):
                continue  # Such a statement does not get into the binlog, or stops the task.
            found = [token.text for token in tokenize(text, DEFAULT_DIALECT)[:-1]][2:]
            assert found[found[0] == "AS" :] == names, (charset, blank)
            compared.add((charset, blank))
    assert {("latin1", b"\xa0"), ("gbk", b"\xa1\xa1"), ("cp866", b"\xff"), ("utf8mb4", b"\xe3\x80\x80")} <= compared
    assert len({charset for charset, _ in compared}) > 30
    conn.close()


def test_a_no_break_space_in_quotes_and_comments_stays() -> None:
    text = "CREATE\xa0TABLE t (`a\xa0` INT COMMENT '\xa0\\'\xa0', /* '\xa0 */\xa0b INT) -- '\xa0\n COMMENT\xa0\"\xa0\""
    want = "CREATE TABLE t (`a\xa0` INT COMMENT '\xa0\\'\xa0', /* '\xa0 */ b INT) -- '\xa0\n COMMENT \"\xa0\""
    assert logged(text.encode("latin1"), 8).sql == want
    assert logged(text.encode(), 45).sql == text
    plain = "COMMENT '\xa0\\'\xa0b"
    assert logged(plain.encode("latin1"), 8, NO_BACKSLASH_ESCAPES).sql == "COMMENT '\xa0\\' b"


@pytest.mark.parametrize("charset", [*HIGH, "swe7", "latin1", "cp1250", "macce", "koi8u", "greek", "cp866", "tis620"])
def test_single_bytes_are_the_servers_characters(server: SQLServer, charset: str) -> None:
    conn = server.connect()
    for byte in range(1, 0x100):
        data = bytes([byte])
        answer = run(conn, f"SELECT CONVERT(_{charset} X'{data.hex()}' USING utf8mb4)".encode())[1][0][0]
        try:
            text = decode_text(data, charset)
        except DMError:
            continue  # Refused: not taken for another.
        assert text == answer
        assert decode_text(encode_text(text, charset), charset) == text
    conn.close()


SWE7 = rb"""CREATE TABLE d.`a[b``@` (`c{` INT COMMENT 'x[y\\z@\[\%|~''\'', d[e^~{}] INT, /* {' */
 f VARCHAR(20) DEFAULT 'a\n{', `k` INT, g VARCHAR(9) DEFAULT _latin1'[' COMMENT "{`")"""


@pytest.mark.parametrize("mode", ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"])
def test_a_session_in_swe7(server: SQLServer, mode: str) -> None:
    statement = SWE7 if not mode else SWE7.replace(b"\\'", b"").replace(b'"{`"', b"'{'")
    if mode == "ANSI_QUOTES":
        statement = statement.replace(b"`k`", b'"k{"')
    bits = {"": 0, "NO_BACKSLASH_ESCAPES": NO_BACKSLASH_ESCAPES, "ANSI_QUOTES": 4}[mode]
    text = logged(statement, 10, bits).sql
    conn = server.connect()
    shown = []
    for charset, one in (("swe7", statement), ("utf8mb4", text.encode())):
        run(conn, b"DROP DATABASE IF EXISTS d")
        run(conn, b"CREATE DATABASE d")
        run(conn, f"SET sql_mode = '{mode}', character_set_client = {charset}".encode())
        run(conn, one)
        run(conn, b"SET character_set_client = utf8mb4")
        shown.append(run(conn, "SHOW CREATE TABLE d.`aÄbéÉ`".encode())[1])
    conn.close()
    assert shown[0] == shown[1]
    assert logged(b"ALTER TABLE `t` ADD a INT", 10).sql == "ALTER TABLE `t` ADD a INT"
