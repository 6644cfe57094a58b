"""Hazard: another release of PyMySQL keeps the names of what it does not document, and changes what they do."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.constants import COMMAND

from deploy.local.mysql import SQLServer
from deploy.local.process import wait_until
from pkg.mysql import driver
from pkg.mysql.connection import connect


@pytest.fixture(params=["mariadb_upstream", "mysql_upstream"])
def server(request: pytest.FixtureRequest) -> SQLServer:
    found: SQLServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def conn(server: SQLServer) -> Iterator[Connection[Any]]:
    made = connect(server.db_config, scope="upstream", local_data=True, bulk=True)
    yield made
    if made.open:
        made.close()


def _one(conn: Connection[Any], sql: str) -> Any:
    with conn.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def test_a_command_is_answered_by_packets_in_order(conn: Connection[Any]) -> None:
    driver.command(conn, COMMAND.COM_QUERY, "SELECT 'ä', NULL")
    assert driver.read_packet(conn).read_length_encoded_integer() == 2
    rest = [driver.read_packet(conn).get_all_data() for _ in range(5)]
    assert rest[3] == b"\2\xc3\xa4\xfb"
    assert [data[0] for data in rest] == [3, 3, 0xFE, 2, 0xFE]
    assert _one(conn, "SELECT 7") == 7


def test_a_string_that_is_invalid_in_the_charset_is_read_as_bytes(conn: Connection[Any]) -> None:
    with driver.texts_as_bytes(conn):
        assert _one(conn, "SELECT 'ä'") == "ä".encode()
        assert _one(conn, "SELECT CONVERT('ä' USING latin1), 7") == "ä".encode(), "as the connection's results are"
        assert _one(conn, "SELECT x'00ff'") == b"\x00\xff"
    assert _one(conn, "SELECT 'ä'") == "ä"


def test_a_command_waits_for_nothing_that_an_earlier_statement_left(conn: Connection[Any]) -> None:
    assert _one(conn, "SELECT 1") == 1
    driver.command(conn, COMMAND.COM_PING, b"")
    assert driver.answer_of(driver.read_packet(conn)) == driver.ServerAnswer(0, 0, "")


def test_bytes_sent_ahead_are_answered_under_the_numbers_that_were_set(
    server: SQLServer, conn: Connection[Any]
) -> None:
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (2), (3)")
    text = b"\3UPDATE d.t SET a = a + 10 WHERE a < 3"
    for _ in range(2):
        driver.write(conn, len(text).to_bytes(3, "little") + b"\0")
        driver.write(conn, memoryview(text))
    answers = []
    for _ in range(2):
        driver.number_next(conn, 1)
        answers.append(driver.answer_of(driver.read_packet(conn)))
    assert [(answer.matched, answer.warnings) for answer in answers] == [(2, 0), (0, 0)]
    for answer, matched in zip(answers, (2, 0), strict=True):
        assert answer.info[1:] == f"Rows matched: {matched}  Changed: {matched}  Warnings: 0"


def test_the_answer_to_a_statement_is_read_to_its_end(conn: Connection[Any]) -> None:
    text = b"\3SELECT 1 UNION SELECT 2"
    driver.write(conn, len(text).to_bytes(3, "little") + b"\0" + text)
    driver.number_next(conn, 1)
    driver.read_result(conn)
    assert conn.affected_rows() == 2  # type: ignore[no-untyped-call]
    assert _one(conn, "SELECT 3") == 3


def test_an_error_packet_is_raised_and_the_connection_goes_on(conn: Connection[Any]) -> None:
    driver.command(conn, COMMAND.COM_QUERY, "SELECT nothing")
    with pytest.raises(pymysql.err.OperationalError, match="nothing"):
        driver.read_packet(conn)
    assert _one(conn, "SELECT 4") == 4


def test_a_packet_out_of_order_ends_the_connection(conn: Connection[Any]) -> None:
    driver.command(conn, COMMAND.COM_PING, b"")
    driver.number_next(conn, 9)
    with pytest.raises(pymysql.err.InternalError, match="sequence"):
        driver.read_packet(conn)
    assert not conn.open


def test_rows_are_read_from_the_buffer_and_from_the_socket_after_it(conn: Connection[Any]) -> None:
    driver.command(conn, COMMAND.COM_QUERY, "SELECT REPEAT('z', 3000000)")
    for _ in range(3):
        driver.read_packet(conn)
    reader, found = driver.reader(conn), bytearray()
    view = memoryview(bytearray(1 << 16))
    while not found.endswith(b"\xfe\0\0\2\0") and (size := reader.readinto1(view)):
        found += view[:size]
    assert len(found) > 3_000_000
    assert found.count(b"z") == 3_000_000
    driver.number_next(conn, 0)
    assert _one(conn, "SELECT 5") == 5


def test_a_server_that_asks_for_the_rows_of_a_load_gets_them_and_no_file(
    server: SQLServer, conn: Connection[Any]
) -> None:
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)")
    text = b"\3LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE d.t"
    driver.write(conn, len(text).to_bytes(3, "little") + b"\0" + text)
    driver.number_next(conn, 1)
    assert driver.read_packet(conn).is_load_local_packet()
    driver.write_packet(conn, b"1\n2\n")
    driver.write_packet(conn, b"")
    assert driver.answer_of(driver.read_packet(conn)).matched == 2
    assert server.execute("SELECT a FROM d.t ORDER BY a") == [(1,), (2,)]
    with pytest.raises(RuntimeError, match="local_infile"), conn.cursor() as cursor:
        cursor.execute(text[1:])  # the driver itself sends nothing


def test_an_answer_with_rows_is_none_to_a_statement_sent_ahead(conn: Connection[Any]) -> None:
    driver.command(conn, COMMAND.COM_QUERY, "SELECT 1")
    with pytest.raises(pymysql.err.InternalError, match="returns rows"):
        driver.answer_of(driver.read_packet(conn))


def test_an_answer_may_take_longer_for_a_while(conn: Connection[Any]) -> None:
    with driver.reading_for(conn, 0.2), pytest.raises(pymysql.err.OperationalError, match="timed out"):
        _one(conn, "SELECT SLEEP(20)")
    conn.connect()
    with driver.reading_for(conn, 0.2):
        assert _one(conn, "SELECT 1") == 1
    assert _one(conn, "SELECT SLEEP(1)") == 0


def test_a_dropped_connection_is_closed_without_reading_what_waits(server: SQLServer, conn: Connection[Any]) -> None:
    number = _one(conn, "SELECT CONNECTION_ID()")
    driver.command(conn, COMMAND.COM_QUERY, "SELECT SLEEP(600)")
    driver.socket_of(conn).getpeername()
    driver.drop(conn)
    driver.drop(conn)
    assert not conn.open
    with pytest.raises(pymysql.err.InterfaceError):
        driver.write(conn, b"\1\0\0\0\x0e")
    server.end_connections(lambda row: row[0] == number)


def test_the_socket_of_an_encrypted_connection_is_the_one_that_deciphers(server: SQLServer) -> None:
    if server.flavor != "mysql":  # MySQL makes its certificates by itself; MariaDB 10.11 has none
        plain = connect(server.db_config, scope="upstream")
        assert not isinstance(driver.socket_of(plain), ssl.SSLSocket)
        plain.close()
        return
    conn = connect(server.db_config, scope="upstream")
    found = driver.socket_of(conn)
    assert isinstance(found, ssl.SSLSocket) == bool(_one(conn, "SELECT @@have_ssl = 'YES'"))
    conn.close()


def test_a_connection_for_bulk_executions_tells_mariadb_alone(server: SQLServer, conn: Connection[Any]) -> None:
    assert conn.server_capabilities & 1 == (server.flavor == "mysql")  # type: ignore[attr-defined]
    assert _one(conn, "SELECT 6") == 6


def test_a_question_of_another_thread_is_broken_off(server: SQLServer, conn: Connection[Any]) -> None:
    found: list[BaseException] = []

    def ask() -> None:
        try:
            with conn.cursor() as cursor:
                cursor.execute("SELECT SLEEP(600)")
        except pymysql.Error as exc:
            found.append(exc)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    wait_until(lambda: any("SLEEP" in str(row[7]) for row in server.execute("SHOW PROCESSLIST")), "it is asked")
    driver.break_off(conn)
    thread.join(60)
    assert [type(exc) for exc in found] == [pymysql.err.OperationalError]
    driver.drop(conn)
    driver.break_off(conn)


def test_a_password_may_have_any_characters(server: SQLServer) -> None:
    server.execute("CREATE USER odd@'%' IDENTIFIED BY 'Pässwörd €'")
    try:
        with connect(replace(server.db_config, user="odd", password="Pässwörd €"), scope="upstream") as conn:
            assert _one(conn, "SELECT CURRENT_USER()") == "odd@%"
    finally:
        server.execute("DROP USER odd@'%'")
