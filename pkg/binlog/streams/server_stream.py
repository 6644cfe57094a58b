"""The binlog of a live server, read as a replica reads it: MySQL 5.6 and later, MariaDB 10.0 and later."""

from __future__ import annotations

import socket
import struct
import time
import uuid
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.events import Event
from pkg.binlog.gtid import MariaDBGTIDSet, MySQLGTIDSet
from pkg.binlog.position import FileIdentity, Location, Position
from pkg.binlog.streams.framing import DumpEnded, PacketFramer, RawFramer, ServerErrorPacket
from pkg.binlog.streams.stream import BinlogStream, RawScan, aborted
from pkg.binlog.streams.transaction_payload import ExpandingStream
from pkg.errors import Code
from pkg.errors.workarounds import Advice
from pkg.mysql import driver
from pkg.mysql.connection import classify, connect, error_number
from pkg.mysql.introspect import variable
from pkg.settings.connections import DBConfig

_REGISTER_REPLICA, _DUMP, _DUMP_GTID = 0x15, 0x12, 0x1E
_THROUGH_GTID = 0x04
#: MariaDB sends its ANNOTATE_ROWS events only on demand. Events without an end position need the sizes of all events in
#: the file.
_SEND_ANNOTATE = 0x02
_PIECE = 1 << 20
_UNKNOWN_VARIABLE = 1193
#: After this many missing heartbeats the connection is dead.
_MISSED_HEARTBEATS = 4
_GRANT_HINT = "Grant REPLICATION SLAVE and REPLICATION CLIENT on *.* to the upstream's user."
_RECONNECT_HINT = "The stream is opened again automatically. If it keeps failing, check the upstream and the network."


def replica_id(*identity: str) -> int:
    """The replica server id for this identity: always the same, and unlikely to equal that of another."""
    return 1 + zlib.crc32("\0".join(identity).encode()) % 0xFFFFFFFE


def open_upstream(
    cfg: DBConfig,
    location: Location,
    *,
    flavor: str,
    server_id: int,
    use_gtid: bool,
    heartbeat: float = 5.0,
    received: Callable[[int], None] = lambda _: None,
) -> BinlogStream:
    """Connects as replica ``server_id`` and asks for the binlog from ``location`` on.

    ``use_gtid``: from ``location.gtid_set`` ('' is the very beginning), otherwise from ``location.position``.
    ``heartbeat`` in seconds: the idle server sends an event at this interval; four missing ones end the stream.
    ``received`` is called with each piece of bytes from the network.
    Raises 10001 when the server can't be reached, 36053 when it refuses to replicate, 11093/11095 for a bad GTID set.
    """
    conn, checksummed = _start_dump(
        cfg, location, flavor=flavor, server_id=server_id, use_gtid=use_gtid, heartbeat=heartbeat
    )
    framer = PacketFramer(checksummed=checksummed, file=location.position.name)
    stream = ServerStream(conn, framer, heartbeat=heartbeat, received=received)
    # MySQL alone compresses whole transactions; MariaDB compresses single events.
    return ExpandingStream(stream) if flavor == "mysql" else stream


def identity_of(cfg: DBConfig, file: str, *, flavor: str, server_id: int) -> FileIdentity:
    """The identity of the server's file of that name, read as replica ``server_id``. Raises DMError as a stream
    does."""
    location = Location(Position(file, 4))
    with closing(open_upstream(cfg, location, flavor=flavor, server_id=server_id, use_gtid=False)) as stream:
        # Missing heartbeats reveal a server that sends nothing.
        while True:
            for event in stream.read(1, 1.0):
                if event.type == c.FORMAT_DESCRIPTION_EVENT:
                    return FileIdentity(file, event.server_id, event.timestamp)


def open_raw(
    cfg: DBConfig, location: Location, *, flavor: str, server_id: int, use_gtid: bool, heartbeat: float = 5.0
) -> ServerStream:
    """As :func:`open_upstream`, with :class:`RawFramer`'s events and MariaDB's ANNOTATE_ROWS."""
    conn, checksummed = _start_dump(
        cfg,
        location,
        flavor=flavor,
        server_id=server_id,
        use_gtid=use_gtid,
        heartbeat=heartbeat,
        annotate=flavor == "mariadb",
    )
    return ServerStream(conn, RawFramer(checksummed=checksummed, file=location.position.name), heartbeat=heartbeat)


def _start_dump(
    cfg: DBConfig,
    location: Location,
    *,
    flavor: str,
    server_id: int,
    use_gtid: bool,
    heartbeat: float,
    annotate: bool = False,
) -> tuple[Connection[Any], bool]:
    """Starts the server's binlog dump; returns the connection, and whether the dump's first events have checksums.

    ``annotate``: with MariaDB's ANNOTATE_ROWS events, which are in its files. The rest is as in :func:`open_upstream`.
    """
    _ensure_askable(location, use_gtid)
    conn = connect(cfg, scope="upstream", read_timeout=30.0)
    try:
        checksummed = _prepare(conn, location, flavor, use_gtid, heartbeat)
        annotate = flavor == "mariadb" and (annotate or not _names_ends(conn))
        _register(conn, server_id)
        _send(conn, _dump_request(location, flavor, server_id, use_gtid, _SEND_ANNOTATE if annotate else 0))
    except (pymysql.Error, OSError) as exc:
        conn.close()
        known = classify(exc, scope="upstream", statement="registering as a replica")
        raise errors.new(
            Code.SyncerUnitRemoteSteamerStartSync,
            f"the upstream {cfg.host}:{cfg.port} refuses to send its binlog: {known.message}",
            raw=known.raw_cause,
            workaround=_RECONNECT_HINT if known.retryable else _GRANT_HINT,
            scope="upstream",
            retryable=known.retryable,
        ) from exc
    return conn, checksummed


def _ensure_askable(location: Location, use_gtid: bool) -> None:
    if not use_gtid and location.position.pos >= 1 << 32:
        raise errors.new(
            Code.SyncerUnitRemoteSteamerStartSync,
            f"position {location.position} is beyond 4 GiB, and a server can't send events from there",
            workaround="Use enable-gtid: true for this source, or read it through the relay.",
            scope="upstream",
        )


def _names_ends(conn: Connection[Any]) -> bool:
    """Whether all events of a MariaDB's binlog have an end position; since 11.4 a setting decides, off by default."""
    return variable(conn, "binlog_legacy_event_pos") in (None, "1")


def _dump_request(location: Location, flavor: str, server_id: int, use_gtid: bool, flags: int) -> bytes:
    name = location.position.name.encode()
    if use_gtid and flavor == "mysql":
        gtids = MySQLGTIDSet(location.gtid_set).encode()
        head = struct.pack("<BHII", _DUMP_GTID, _THROUGH_GTID, server_id, 0)
        return head + struct.pack("<QI", 4, len(gtids)) + gtids
    if use_gtid:
        name, pos = b"", 4
    else:
        pos = max(location.position.pos, 4)
    return struct.pack("<BIHI", _DUMP, pos, flags, server_id) + name


def _prepare(conn: Connection[Any], location: Location, flavor: str, use_gtid: bool, heartbeat: float) -> bool:
    """Sets the session up; returns whether events come with checksums."""
    period = max(int(heartbeat * 1e9), 1_000_000)
    with conn.cursor() as cursor:
        cursor.execute(f"SET @master_heartbeat_period={period}, @source_heartbeat_period={period}")
        checksummed = _ask_for_checksums(cursor)
        if flavor == "mariadb":
            cursor.execute("SET @mariadb_slave_capability=4")
            if use_gtid:
                state = str(MariaDBGTIDSet(location.gtid_set))
                cursor.execute(f"SET @slave_connect_state='{state}'")
                cursor.execute("SET @slave_gtid_strict_mode=1, @slave_gtid_ignore_duplicates=0")
        else:
            # A server cancels an older connection of the same replica by this name; ours must not cancel each other.
            name = uuid.uuid4()
            cursor.execute(f"SET @slave_uuid='{name}', @replica_uuid='{name}'")
    return checksummed


def _ask_for_checksums(cursor: Any) -> bool:
    try:
        cursor.execute("SET @master_binlog_checksum=@@global.binlog_checksum")
    except pymysql.Error as exc:
        if error_number(exc) == _UNKNOWN_VARIABLE:
            return False
        raise
    cursor.execute("SET @source_binlog_checksum=@master_binlog_checksum")
    cursor.execute("SELECT @master_binlog_checksum")
    (kind,) = cursor.fetchone()
    text = kind.decode() if isinstance(kind, bytes) else str(kind)
    return text.upper() == "CRC32"


def _register(conn: Any, server_id: int) -> None:
    """Registers as a replica for SHOW SLAVE HOSTS; some servers only dump to registered replicas."""
    _send(conn, struct.pack("<BI3sHII", _REGISTER_REPLICA, server_id, b"\0\0\0", 0, 0, 0))
    driver.read_packet(conn)


def _send(conn: Any, payload: bytes) -> None:
    # The driver's own command sender waits for results of earlier statements; here are none.
    driver.number_next(conn, 0)
    driver.write_packet(conn, payload)


class ServerStream:
    """A running dump over one connection of :func:`_start_dump`; :func:`open_upstream` creates it."""

    def __init__(
        self, conn: Any, framer: PacketFramer, *, heartbeat: float, received: Callable[[int], None] = lambda _: None
    ) -> None:
        self._conn = conn
        self._received = received
        self._socket = driver.socket_of(conn)
        self._framer = framer
        self._silence_limit = max(_MISSED_HEARTBEATS * heartbeat, 10.0)
        self._heard = time.monotonic()
        self._open = True

    @property
    def file(self) -> str:
        return self._framer.file

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        """See :meth:`BinlogStream.read`. A lost connection is retryable (36069); server errors name the operator
        action."""
        deadline = time.monotonic() + timeout
        while True:
            if not self._open:
                raise aborted()
            if scan is not None and self._framer.scan(scan):
                return []
            try:
                # After an event that the scan left, the scan may continue.
                events = self._framer.split(max_bytes if scan is None else 1)
            except DumpEnded:
                raise self._lost("the upstream ended the stream (it may be shutting down)") from None
            except ServerErrorPacket as exc:
                raise server_refusal(exc) from exc
            if events or not self._receive(deadline):
                return events

    def _receive(self, deadline: float) -> bool:
        """Feeds one piece of bytes; False if none arrives before ``deadline``."""
        try:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.0005))
            piece = self._socket.recv(_PIECE)
        except TimeoutError:
            # Checked only here: after a pause of the reader, heartbeats wait in the socket and nothing is wrong.
            silent = time.monotonic() - self._heard
            if silent > self._silence_limit:
                raise self._lost(f"no heartbeat for {silent:.0f} s") from None
            return False
        except (OSError, ValueError) as exc:
            raise self._lost(exc) from exc
        if not piece:
            raise self._lost("connection closed by the upstream")
        self._heard = time.monotonic()
        self._received(len(piece))
        self._framer.feed(piece)
        return True

    def _lost(self, cause: BaseException | str) -> errors.DMError:
        if not self._open:
            return aborted()
        return errors.new(
            Code.SyncerGetEvent,
            f"the binlog stream broke after {self.file or 'its start'}: {cause}",
            raw=cause,
            workaround=_RECONNECT_HINT,
            scope="upstream",
            retryable=True,
        )

    def close(self) -> None:
        self._open = False
        # A server in a dump reads no COM_QUIT; only the socket's end stops it.
        driver.drop(self._conn)

    def abort(self) -> None:
        self._open = False
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


_FULL_COPY = (
    f"The upstream no longer has the binlog that is needed, so the tables must be copied again: {Advice.COPY_AGAIN}. "
    "First let the upstream keep its binlogs for longer (expire_logs_days, binlog_expire_logs_seconds)."
)
#: A server's dump errors: a part of the message, whether a retry may help, and the operator action.
_DUMP_ERRORS: tuple[tuple[str, bool, str], ...] = (
    ("purged", False, _FULL_COPY),
    ("Could not find first log file", False, _FULL_COPY),
    ("Could not find GTID state", False, _FULL_COPY),
    (
        "GTID position",
        False,
        (
            "The upstream never had this GTID: it was reset, or the source points to another server. "
            f"Check the source's host. If it is correct, the tables must be copied again: {Advice.COPY_AGAIN}."
        ),
    ),
    (
        "more GTIDs than",
        False,
        (
            "The upstream lacks transactions that were already replicated: check that the source "
            f"points to the right server. If it does, the tables must be copied again: {Advice.COPY_AGAIN}."
        ),
    ),
    (
        "impossible position",
        False,
        (
            "The upstream's binlog is shorter than the position: check that the source points "
            f"to the right server. After a crash of the upstream, the tables must be copied again: {Advice.COPY_AGAIN}."
        ),
    ),
    ("same server_uuid/server_id", False, "Another replica uses this server id: set another server-id in the source."),
    ("max_allowed_packet", False, "Raise max_allowed_packet of the upstream to its largest event (at most 1G)."),
    ("Binary log is not open", False, "Start the upstream with log_bin, binlog_format=ROW and binlog_row_image=FULL."),
    ("log event entry exceeded", False, "Raise max_allowed_packet of the upstream to its largest event (at most 1G)."),
    ("shutdown", True, _RECONNECT_HINT),
    ("error reading log event", True, _RECONNECT_HINT),
)
_ACCESS_DENIED = frozenset({1045, 1227, 1142})
_SERVER_GOES_AWAY = frozenset({1053, 1077, 1079, 1317, 1927})


def server_refusal(exc: ServerErrorPacket) -> errors.DMError:
    """The error for a dump's error packet (36069): whether to retry, and the operator action."""
    retryable = exc.code in _SERVER_GOES_AWAY
    workaround = _RECONNECT_HINT if retryable else "See the upstream's error log."
    if exc.code in _ACCESS_DENIED:
        workaround = _GRANT_HINT
    for part, again, hint in _DUMP_ERRORS:
        if part.lower() in exc.text.lower():
            retryable, workaround = again, hint
            break
    text = f"ERROR {exc.code} ({exc.sql_state}): {exc.text}"
    return errors.new(
        Code.SyncerGetEvent,
        f"the upstream does not send its binlog: {text}",
        raw=text,
        workaround=workaround,
        scope="upstream",
        retryable=retryable,
    )
