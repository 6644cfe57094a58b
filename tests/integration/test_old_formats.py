"""Hazards: tables made by older servers, or with older settings, keep older forms of their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from pkg import errors
from pkg.binlog import constants as c
from pkg.errors import Code
from tests.integration.binlog_replay import apply_changes, decode, events_between, here
from tests.unit.pkg.binlog.file_stream import FileStream

_TIMES = ("00:00:00", "-838:59:59.999999", "838:59:59.999999", "-00:00:00.000001", "12:34:56.1", "-1:2:3.987654")
_MOMENTS = ("0000-00-00", "2024-00-31 1:2:3.5", "9999-12-31 23:59:59.999999", "0001-01-01", "1969-12-31 23:59:59.1")
_STAMPS = ("0000-00-00", "1970-01-01 00:00:01", "2038-01-19 03:14:07.999999", "2024-02-29 12:00:00.000009", "2001-1-1")


def _fill(server: SQLServer, digits: range) -> list[str]:
    """Rows of every old temporal type; returns the columns."""
    kinds = {"TIME": _TIMES, "DATETIME": _MOMENTS, "TIMESTAMP": _STAMPS}
    columns = {f"{kind}_{n}": f"{kind}({n}) NULL" for kind in kinds for n in digits}
    body = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    server.execute("CREATE DATABASE d", f"CREATE TABLE d.src (id INT PRIMARY KEY, {body})")
    names = ", ".join(columns)
    statements = ["SET SESSION time_zone='+00:00', sql_mode='ALLOW_INVALID_DATES'"]
    for row in range(max(map(len, kinds.values()))):
        values = (kinds[name.split("_")[0]] for name in columns)
        literals = ", ".join(f"'{options[row % len(options)]}'" for options in values)
        statements.append(f"INSERT INTO d.src (id, {names}) VALUES ({row}, {literals})")
    server.execute(*statements, "INSERT INTO d.src (id) VALUES (99)", "UPDATE d.src SET id = id + 100 WHERE id > 2")
    return list(columns)


@pytest.mark.parametrize("digits", [range(7), range(1)])
def test_temporals_of_mariadb_5_3_and_mysql_5_5_survive(
    new_mariadb: Callable[..., MariaDBServer], digits: range
) -> None:
    server = new_mariadb(extra=["--mysql56-temporal-format=OFF"])
    start = here(server)
    columns = _fill(server, digits)
    decoded = decode(server, events_between(server, start, here(server).position), "d", "src", key=[0])
    assert set(decoded.table_map.types[1:]) == {7, 11, 12}
    server.execute("CREATE TABLE d.dst LIKE d.src")
    conn = server.connect()
    apply_changes(conn, "d.dst", ["id", *columns], ["id"], decoded.changes)
    assert len(decoded.changes) > 8
    for name in columns:
        with conn.cursor() as cursor:
            cursor.execute(
                f"SELECT s.id, s.{name}, d.{name} FROM d.src s LEFT JOIN d.dst d USING (id) "
                f"WHERE NOT (HEX(s.{name}) <=> HEX(d.{name}))"
            )
            assert cursor.fetchall() == (), name
    conn.close()
    assert server.execute("SELECT COUNT(*) FROM d.dst") == server.execute("SELECT COUNT(*) FROM d.src")


def test_encrypted_binlog_is_read_through_the_server_and_its_file_is_refused(
    new_mariadb: Callable[..., MariaDBServer], tmp_path: Path
) -> None:
    """The server announces the encryption at the start of every file that it sends in the clear."""
    keys = tmp_path / "keys"
    keys.write_text("1;" + "5a" * 32 + "\n")
    plugin = ["--plugin-load-add=file_key_management", "--file-key-management"]
    server = new_mariadb(extra=[*plugin, f"--file-key-management-filename={keys}", "--encrypt-binlog=1"])
    start = here(server)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.src (id INT PRIMARY KEY)", "INSERT INTO d.src VALUES (1)")
    server.execute("FLUSH LOGS", "INSERT INTO d.src VALUES (2)")
    events = events_between(server, start, here(server).position)
    assert {event.log_pos > 0 for event in events if event.type == c.MARIADB_START_ENCRYPTION_EVENT} == {True, False}
    assert [key for _, key, *_ in decode(server, events, "d", "src", key=[0]).changes] == [b"1", b"2"]
    stream = FileStream(server.data / start.position.name)
    with pytest.raises(errors.DMError, match="encrypted") as caught:
        list(iter(lambda: stream.read(1 << 20, 0), None))
    assert caught.value.kind is Code.BinlogFileNotValid
