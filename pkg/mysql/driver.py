"""The only module that uses PyMySQL beyond its documented interface.

The driver has no public way to send without waiting, to read rows as bytes, to run commands other than queries, or to
change its handshake. Its internals may change with each of its series, so :data:`SERIES` is the tested one, here as in
pyproject.toml, and tests/integration/test_driver.py checks each function with real servers.
"""

from __future__ import annotations

import secrets
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from io import BufferedReader
from typing import Any, Protocol

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CLIENT, CR
from pymysql.protocol import OKPacketWrapper

from pkg.mysql import parsec

#: Major and minor version. A cluster's executors have their own driver.
SERIES = (1, 2)
if pymysql.VERSION[:2] != SERIES:
    raise ImportError(
        f"PyMySQL {'.'.join(map(str, pymysql.VERSION[:3]))} is installed, but {SERIES[0]}.{SERIES[1]} is needed:"
        f" pip install 'PyMySQL=={SERIES[0]}.{SERIES[1]}.*'"
    )
#: MARIADB_CLIENT_STMT_BULK_OPERATIONS among the capabilities that only MariaDB knows.
_BULK_OPERATIONS = 1 << 2
_MARIADB_FLAGS = slice(28, 32)


class ParsecExchange:
    """The driver's handler for accounts with MariaDB's plugin ``parsec``."""

    def __init__(self, conn: Connection[Any]) -> None:
        self._conn = conn

    def authenticate(self, scramble: Packet) -> Packet:
        """Proves the password; returns the server's last packet. Raises pymysql.Error."""
        raw: Any = self._conn
        write_packet(self._conn, b"")
        # A plugin's data has an extra first byte where it could look like another packet.
        derivation = read_packet(self._conn).get_all_data().removeprefix(b"\1")
        client = secrets.token_bytes(parsec.SCRAMBLE_SIZE)
        try:
            answer = parsec.signed_answer(raw.password, scramble.read_all(), derivation, client)
        except ValueError as exc:
            raise pymysql.err.OperationalError(CR.CR_AUTH_PLUGIN_ERR, f"Authentication plugin 'parsec': {exc}") from exc
        write_packet(self._conn, answer)
        return read_packet(self._conn)


class PreferringConnection(Connection):  # type: ignore[type-arg]  # generic only for the type checker
    """A connection that uses TLS if the server offers it, when no TLS settings are given.

    The driver does that too, but reads all of the system's CA certificates for each connection, 20 ms of CPU, and then
    verifies nothing. This class also connects accounts with MariaDB's plugin ``parsec``, which the driver lacks.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments, auth_plugin_map={parsec.PLUGIN: ParsecExchange})

    def _create_ssl_ctx(self, sslp: ssl.SSLContext | Mapping[str, Any]) -> ssl.SSLContext:
        if not sslp:
            return _unverified()
        inherited: Any = super()
        context: ssl.SSLContext = inherited._create_ssl_ctx(sslp)
        return context


@cache
def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class BulkConnection(PreferringConnection):
    """A connection that announces bulk executions to a MariaDB server; no difference for other servers."""

    _greeted = False

    def write_packet(self, payload: bytes) -> None:
        raw: Any = self
        # The first packet has the capabilities, over TLS the second too; both before the authentication.
        if not self._greeted and _speaks_mariadb(raw.server_version, raw.server_capabilities):
            changed = bytearray(payload)
            changed[0] &= ~CLIENT.LONG_PASSWORD & 0xFF  # clear: the flags of MariaDB count
            changed[_MARIADB_FLAGS] = _BULK_OPERATIONS.to_bytes(4, "little")
            payload = bytes(changed)
        raw_write: Any = super()
        raw_write.write_packet(payload)
        self._greeted = self._greeted or len(payload) > _MARIADB_FLAGS.stop

    def connect(self, sock: Any = None) -> None:
        self._greeted = False
        super().connect(sock)


def _speaks_mariadb(version: str, capabilities: int) -> bool:
    return "mariadb" in version.lower() and not capabilities & CLIENT.LONG_PASSWORD


def is_mariadb(conn: Connection[Any]) -> bool:
    """Whether the server says that it is MariaDB. A proxy may hide it."""
    raw: Any = conn
    return "mariadb" in str(raw.server_version).lower()


class Packet(Protocol):
    """A packet from the server, as the driver returns it."""

    def get_all_data(self) -> bytes: ...

    def read_all(self) -> bytes:
        """The unread rest."""
        ...

    def is_ok_packet(self) -> bool: ...

    def is_load_local_packet(self) -> bool: ...

    def read_length_encoded_integer(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """``matched`` rows (with FOUND_ROWS), the number of ``warnings``, and the server's message after its length."""

    matched: int
    warnings: int
    info: str


def answer_of(packet: Packet) -> ServerAnswer:
    """The content of an OK packet. Raises pymysql.Error for one that begins a result set."""
    if not packet.is_ok_packet():
        raise pymysql.err.InternalError(CR.CR_COMMANDS_OUT_OF_SYNC, "a statement that returns rows was sent ahead")
    ok: Any = OKPacketWrapper(packet)  # type: ignore[arg-type]
    return ServerAnswer(ok.affected_rows, ok.warning_count, ok.message.decode("utf-8", "replace"))


def command(conn: Connection[Any], code: int, data: bytes | str) -> None:
    """Sends a command, once the results of earlier ones are read. Raises the driver's exceptions."""
    raw: Any = conn
    raw._execute_command(code, data)


def write(conn: Connection[Any], data: bytes | memoryview) -> None:
    """Sends bytes that include the headers of their packets. Raises pymysql.Error."""
    raw: Any = conn
    if raw._sock is None:
        raise pymysql.err.InterfaceError(0, "the connection is closed")
    raw._write_bytes(data)


def write_packet(conn: Connection[Any], payload: bytes) -> None:
    """Sends a payload of less than 16 MiB as the packet with the next number. Raises pymysql.Error."""
    raw: Any = conn
    raw.write_packet(payload)


def number_next(conn: Connection[Any], sequence: int) -> None:
    """Sets the sequence number of the next packet of either side."""
    raw: Any = conn
    raw._next_seq_id = sequence


def read_packet(conn: Connection[Any]) -> Packet:
    """The server's next packet. Raises pymysql.Error for an error packet, and for a lost connection."""
    raw: Any = conn
    packet: Packet = raw._read_packet()
    return packet


def read_result(conn: Connection[Any]) -> None:
    """Reads a statement's whole answer, so that the next statement can be sent. Raises pymysql.Error."""
    raw: Any = conn
    raw._affected_rows = raw._read_query_result(unbuffered=False)


def reader(conn: Connection[Any]) -> BufferedReader:
    """The buffered reader of all packets; its buffered bytes are no longer in the socket."""
    raw: Any = conn
    found: BufferedReader = raw._rfile
    return found


def socket_of(conn: Connection[Any]) -> socket.socket:
    """The socket below the reader; with TLS the encrypted one."""
    raw: Any = conn
    found: socket.socket = raw._sock
    return found


@contextmanager
def reading_for(conn: Connection[Any], seconds: float) -> Iterator[None]:
    """Sets the timeout of each read of an answer to ``seconds``."""
    raw: Any = conn
    before, raw._read_timeout = raw._read_timeout, seconds
    try:
        yield
    finally:
        raw._read_timeout = before


@contextmanager
def texts_as_bytes(conn: Connection[Any]) -> Iterator[None]:
    """Makes the values of internal results bytes, as the server sent them. A value that is invalid in the connection's
    charset would leave the rest of its result on the wire."""
    conn.use_unicode = False
    try:
        yield
    finally:
        conn.use_unicode = True


def drop(conn: Connection[Any]) -> None:
    """Closes the socket without COM_QUIT, which would wait after unread data. May be called again."""
    raw: Any = conn
    raw._force_close()


def break_off(conn: Connection[Any]) -> None:
    """Ends a connection that another thread uses; that thread gets a lost connection. No effect on a closed one."""
    raw: Any = conn
    found: socket.socket | None = raw._sock
    if found is not None:
        with suppress(OSError):
            # Not the TLS shutdown: the other thread is still reading through it.
            socket.socket.shutdown(found, socket.SHUT_RDWR)
