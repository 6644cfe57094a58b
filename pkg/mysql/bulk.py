"""MariaDB's bulk execution: one prepared statement, executed for all rows in one packet.

The server neither parses the values nor creates objects for them: a quarter less work than a multi-row INSERT. Unlike
LOAD DATA it stays an INSERT: errors are errors, and other sessions do not wait for the table's AUTO_INCREMENT lock.
https://mariadb.com/kb/en/com_stmt_bulk_execute/
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from pymysql.connections import Connection
from pymysql.constants import COMMAND

from pkg.mysql import driver
from pkg.mysql.wire import Command, send_command

#: Types of parameters: text in the connection's character set, and bytes.
TEXT = b"\xfd\x00"
BYTES = b"\xfc\x00"
#: The oldest series that is still maintained.
_OLDEST = (10, 6)
_BULK_EXECUTE = 0xFA
_SEND_TYPES = 128


def takes_bulk(variables: Mapping[str, str]) -> bool:
    """Whether a server with these variables executes in bulk as part of the transaction.

    A Galera node may commit in between, and a statement-based binlog would hold each row as a statement.
    """
    version = variables.get("version", "")
    numbers = version.removeprefix("5.5.5-").split(".")[:2]
    return (
        "mariadb" in version.lower()
        and tuple(int(number) for number in numbers if number.isdigit()) >= _OLDEST
        and variables.get("wsrep_on", "OFF") != "ON"
        and (variables.get("log_bin") != "ON" or variables.get("binlog_format", "").upper() == "ROW")
    )


class PreparedStatement:
    """A prepared statement of a :class:`driver.BulkConnection` with one parameter for each of ``columns`` values."""

    def __init__(self, conn: Connection[Any], text: bytes, columns: int) -> None:
        """Raises the driver's exceptions when the server refuses the statement."""
        self._conn, self.text = conn, text
        driver.command(conn, COMMAND.COM_STMT_PREPARE, text)
        data = driver.read_packet(conn).get_all_data()
        self._number, fields, found = struct.unpack_from("<IHH", data, 1)
        for count in (found, fields):
            for _ in range(count + 1 if count else 0):
                driver.read_packet(conn)
        if found != columns:
            raise ValueError(f"{found} parameters for {columns} columns")

    def command(self, types: Sequence[bytes], rows: bytes) -> Command:
        """The command for all rows: for each value a byte 0, its length and bytes, or a byte 1 for NULL.

        When a row is refused, the rows before it are written.
        """
        return Command(_BULK_EXECUTE, (struct.pack("<IH", self._number, _SEND_TYPES) + b"".join(types), rows))

    def execute(self, types: Sequence[bytes], rows: bytes) -> None:
        """Runs :meth:`command`. Raises the driver's exceptions."""
        driver.number_next(self._conn, send_command(self._conn, self.command(types, rows)))
        driver.read_packet(self._conn)

    def size(self, rows: bytes) -> int:
        """Bytes of the command with these rows, for max_allowed_packet."""
        return len(rows) + 64 + 2 * self.text.count(b"?")

    def close(self) -> None:
        """Closes the statement; the server does not answer."""
        driver.command(self._conn, COMMAND.COM_STMT_CLOSE, struct.pack("<I", self._number))
