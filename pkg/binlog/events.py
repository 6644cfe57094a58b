"""Binlog events: their common header, and the content of the events that replication needs.

The stream returns :class:`Event` tuples, which are cheap to create and to pass on; the functions here parse their
content. Torn or invalid bytes raise 11071 with the file and the position.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.charsets import collation_charset
from pkg.binlog.cursor import MALFORMED, Cursor, malformed, whereabouts
from pkg.binlog.gtid import MariaDBGTIDSet, MySQLGTIDSet, source_name, take_tag
from pkg.binlog.statement_text import outline, statement_text
from pkg.binlog.status_variables import read_status_variables
from pkg.binlog.variable_length import signed_variable_length, variable_length
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice

T = TypeVar("T")

HEADER = struct.Struct("<IBIIIH")
#: Version of the message in a tagged GTID event.
_TAGGED_GTID_VERSION = 1
_HEARTBEATS = frozenset({c.HEARTBEAT_EVENT, c.HEARTBEAT_EVENT_V2})
#: Events that a server sends again, with the end 0, before a position inside a file. In files they are at the head or
#: at the end and always have their end position.
_REPEATED = frozenset(
    {c.FORMAT_DESCRIPTION_EVENT, c.MARIADB_START_ENCRYPTION_EVENT, c.PREVIOUS_GTIDS_EVENT, c.MARIADB_GTID_LIST_EVENT}
    | {c.ROTATE_EVENT}
)


class Event(NamedTuple):
    """One binlog event.

    ``data`` is the whole event with its header and without its checksum; ``size`` is its length in the file, with
    checksum. ``log_pos`` is its end in the file, modulo 4 GiB, or 0: MariaDB 11.4 and later do not set it in events
    that pass through a transaction's cache. Their position follows from the sizes of the events before (see
    :func:`end_position`).
    """

    timestamp: int
    type: int
    server_id: int
    size: int
    log_pos: int
    flags: int
    data: bytes

    @property
    def artificial(self) -> bool:
        """True for an event that the server created for this connection: it is in no file."""
        if self.flags & c.FLAG_ARTIFICIAL or self.type in _HEARTBEATS:
            return True
        return self.log_pos == 0 and self.type in _REPEATED

    @property
    def is_rows(self) -> bool:
        return self.type in c.ROWS_EVENTS


def event_from_bytes(data: bytes) -> Event:
    """An event from its bytes, header included, checksum cut off. Raises 11053 for an incomplete header."""
    if len(data) < c.HEADER_SIZE:
        raise errors.new(Code.BinlogHeaderLengthNotValid, f"a binlog event of {len(data)} bytes has no complete header")
    timestamp, kind, server_id, size, log_pos, flags = HEADER.unpack_from(data)
    return Event(timestamp, kind, server_id, size, log_pos, flags, data)


def parsing(event: Event, file: str, parse: Callable[[], T]) -> T:
    """Runs ``parse``; malformed bytes raise 11071 with the file and position of ``event``."""
    try:
        return parse()
    except MALFORMED as exc:
        raise malformed(event.type, event.log_pos, event.size, file, exc) from exc


def end_position(current: int, event: Event) -> int:
    """The 64-bit offset after ``event``, read at offset ``current`` of its file.

    The header has 32 bits only, and a transaction can extend a file beyond 4 GiB, where they wrap around. An event
    without an end position ends after its bytes. Artificial events do not move the offset. Nor does the
    FORMAT_DESCRIPTION that starts a dump from the middle of a file: it has its position at the file's head, which is a
    step back and no wrap-around.
    """
    if event.artificial:
        return current
    if not event.log_pos:
        return current + event.size
    end = (current & ~0xFFFFFFFF) | event.log_pos
    if end >= current:
        return end
    return end + (1 << 32) if current - end > 1 << 31 else current


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """FORMAT_DESCRIPTION: the server's version and the format. ``created`` is 0 unless the server had just started.

    ``checksummed`` says whether the events that follow end with a CRC32.
    """

    binlog_version: int
    server_version: str
    created: int
    post_header_lengths: bytes
    checksummed: bool
    has_checksum_field: bool


def parse_format_description(event: Event, file: str = "") -> FormatDescription:
    """Raises 11067 for a binlog version other than 4 (servers before 5.0) and for an unknown checksum."""
    return parsing(event, file, lambda: _format_description(event))


def _format_description(event: Event) -> FormatDescription:
    cursor = Cursor(event.data, c.HEADER_SIZE)
    version = cursor.uint(2)
    server = cursor.take(50).split(b"\0")[0].decode("latin-1")
    created, header_length = cursor.uint(4), cursor.uint(1)
    if version != 4 or header_length != c.HEADER_SIZE:
        raise errors.new(
            Code.BinlogExpectFormatDescEv,
            f"binlog version {version} of server {server!r} is not supported",
            workaround="Upgrade the upstream to MySQL 5.6 or later or MariaDB 10.0 or later.",
        )
    lengths = cursor.rest()
    aware = _knows_checksums(server)
    if not aware:
        return FormatDescription(version, server, created, lengths, False, False)
    if len(event.data) == event.size:
        lengths = lengths[: -c.CHECKSUM_SIZE]
    algorithm = lengths[-1]
    if algorithm not in (0, 1):
        raise errors.new(
            Code.BinlogExpectFormatDescEv,
            f"checksum algorithm {algorithm} of server {server!r} is not supported",
            workaround="SET GLOBAL binlog_checksum=CRC32 on the upstream.",
        )
    return FormatDescription(version, server, created, lengths[:-1], algorithm == 1, True)


def _knows_checksums(server: str) -> bool:
    numbers = []
    for part in server.split("-")[0].split(".")[:3]:
        digits = "".join(ch for ch in part if ch.isdigit())
        numbers.append(int(digits or 0))
    return tuple(numbers) >= ((5, 3) if "mariadb" in server.lower() else (5, 6, 1))


class RotateEvent(NamedTuple):
    """The next event is at ``position`` of ``file``."""

    position: int
    file: str


def parse_rotate(event: Event, file: str = "") -> RotateEvent:
    """Raises 11055 for a ROTATE without a file name."""

    def parse() -> RotateEvent:
        cursor = Cursor(event.data, c.HEADER_SIZE)
        position, name = cursor.uint(8), cursor.rest().rstrip(b"\0").decode()
        if not name:
            raise errors.new(
                Code.BinlogEmptyNextBinName, f"ROTATE in {file or 'unknown file'} does not name the next file"
            )
        return RotateEvent(position, name)

    return parsing(event, file, parse)


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """QUERY: a statement with the variables of its session.

    Unset variables are None or ''. ``sql_mode`` is the server's bit mask. ``charsets`` are the collation ids of
    character_set_client, collation_connection and collation_server, ``utf8mb4_collation`` that of MySQL 8's
    default_collation_for_utf8mb4, ``charset_collations`` pairs (charset's default, chosen one) of MariaDB's
    character_set_collations. ``auto_increment`` is the increment and the offset. ``microseconds`` is the fraction of
    the statement's time, if the statement used it. ``flags`` and ``sql_mode`` differ between the families in some bits.
    ``statement`` are the client's bytes. ``unknown_variable`` is the code of a status variable that no known server
    writes. ``server_id`` and ``thread_id`` identify the session, ``file`` is the binlog file; ``thread_specific``: see
    FLAG_THREAD_SPECIFIC.
    """

    thread_id: int
    execution_time: int
    error_code: int
    schema: str
    statement: bytes
    sql_mode: int | None = None
    charsets: tuple[int, int, int] | None = None
    time_zone: str = ""
    explicit_defaults_for_timestamp: bool | None = None
    microseconds: int = 0
    flags: int | None = None
    utf8mb4_collation: int | None = None
    auto_increment: tuple[int, int] | None = None
    lc_time_names: int | None = None
    charset_collations: tuple[tuple[int, int], ...] = ()
    unknown_variable: int | None = None
    server_id: int = 0
    file: str = ""
    thread_specific: bool = False

    @property
    def client_charset(self) -> str:
        """The name of character_set_client; ``utf8mb4`` when the event does not name it."""
        return collation_charset(self.charsets[0]) if self.charsets else "utf8mb4"

    @property
    def sql(self) -> str:
        """The decoded statement. Raises 11054 for bytes that are invalid in its charset."""
        return statement_text(self.statement, self.client_charset, self.sql_mode or 0)

    @property
    def outline(self) -> str:
        """The part of the statement that is certain where :attr:`sql` fails, with U+FFFD for the rest; '' if nothing
        is."""
        try:
            return outline(self.statement, self.client_charset)
        except DMError:
            return ""


def parse_query(event: Event, file: str = "") -> QueryEvent:
    """QUERY, also in MariaDB's compressed form; EXECUTE_LOAD_QUERY, whose statement is a LOAD DATA."""
    return parsing(event, file, lambda: _query(event, file))


def _query(event: Event, file: str) -> QueryEvent:
    cursor = Cursor(event.data, c.HEADER_SIZE)
    thread_id, execution_time = cursor.uint(4), cursor.uint(4)
    schema_length, error_code, vars_length = cursor.uint(1), cursor.uint(2), cursor.uint(2)
    if event.type == c.EXECUTE_LOAD_QUERY_EVENT:
        cursor.take(c.LOAD_QUERY_HEAD)
    status = read_status_variables(cursor.take(vars_length))
    schema = cursor.take(schema_length).decode()
    cursor.take(1)
    statement = cursor.rest()
    if event.type == c.MARIADB_QUERY_COMPRESSED_EVENT:
        statement = inflate(statement)
    return QueryEvent(
        thread_id,
        execution_time,
        error_code,
        schema,
        statement,
        server_id=event.server_id,
        file=file,
        thread_specific=bool(event.flags & c.FLAG_THREAD_SPECIFIC),
        **status,
    )


def inflate(data: bytes) -> bytes:
    """MariaDB's log_bin_compress block: a header with the length, then zlib. Raises ``ValueError`` for other bytes."""
    cursor = Cursor(data)
    head = cursor.uint(1)
    if head & 0x80 == 0 or head & 0x70 != 0:
        raise ValueError(f"0x{head:02x} is not a zlib compression header")
    return unzip(cursor.take(head & 0x07), cursor.rest())


def unzip(length: bytes, data: bytes, wbits: int = zlib.MAX_WBITS) -> bytes:
    """Unpacks data to exactly ``length`` bytes (a big-endian number). Raises ``ValueError`` for another length.

    Never unpacks more than that, even if the data is larger.
    """
    wanted = int.from_bytes(length, "big")
    unpacker = zlib.decompressobj(wbits)
    try:
        plain = unpacker.decompress(data, wanted + 1)
    except zlib.error as exc:
        raise ValueError(f"compressed block: {exc}") from exc
    if len(plain) != wanted or not unpacker.eof:
        raise ValueError(f"the size of a compressed block is not the {wanted} bytes in its header")
    return plain


def parse_xa_prepare(event: Event, file: str = "") -> tuple[bool, int, bytes, bytes]:
    """For an XA_PREPARE: whether it commits at once (XA COMMIT … ONE PHASE) instead of waiting for its XA COMMIT, and
    its id: format id, gtrid, bqual."""

    def parse() -> tuple[bool, int, bytes, bytes]:
        cursor = Cursor(event.data, c.HEADER_SIZE)
        one_phase, format_id, gtrid, bqual = cursor.uint(1), cursor.uint(4), cursor.uint(4), cursor.uint(4)
        return one_phase != 0, format_id, cursor.take(gtrid), cursor.take(bqual)

    return parsing(event, file, parse)


@dataclass(frozen=True, slots=True)
class GtidEvent:
    """The start of a transaction. ``text`` is its GTID, '' for MySQL's anonymous ones.

    ``standalone``: one QUERY follows, without BEGIN and COMMIT (only MariaDB logs this; for MySQL it is always False).
    ``ddl``: MariaDB marks the transaction as DDL.
    """

    text: str
    standalone: bool = False
    ddl: bool = False


def parse_gtid(event: Event, file: str = "") -> GtidEvent:
    """GTID of MySQL and MariaDB and MySQL's ANONYMOUS_GTID."""
    if event.type == c.ANONYMOUS_GTID_EVENT:
        return GtidEvent("")
    return parsing(event, file, lambda: _gtid(event))


def _gtid(event: Event) -> GtidEvent:
    cursor = Cursor(event.data, c.HEADER_SIZE)
    if event.type == c.MARIADB_GTID_EVENT:
        sequence, domain, flags = cursor.uint(8), cursor.uint(4), cursor.uint(1)
        return GtidEvent(f"{domain}-{event.server_id}-{sequence}", bool(flags & 1), bool(flags & 32))
    source, number = mysql_gtid(event)
    return GtidEvent(f"{source_name(source)}:{number}")


def mysql_gtid(event: Event) -> tuple[bytes, int]:
    """Source (16 bytes, and the tag if there is one) and number of MySQL's GTID events. Raises ``ValueError``."""
    cursor = Cursor(event.data, c.HEADER_SIZE)
    if event.type == c.GTID_TAGGED_EVENT:
        return _tagged_gtid(cursor)
    cursor.take(1)
    return cursor.take(16), cursor.uint(8)


def _tagged_gtid(cursor: Cursor) -> tuple[bytes, int]:
    """The fields of a message, each after its number: flags, UUID, number, tag, and others that are not needed."""
    version, _size, _ignorable = variable_length(cursor), variable_length(cursor), variable_length(cursor)
    if version != _TAGGED_GTID_VERSION or [variable_length(cursor) for _ in range(3)][::2] != [0, 1]:
        raise ValueError("a tagged GTID of an unknown form")
    source = bytes(variable_length(cursor) for _ in range(16))
    if variable_length(cursor) != 2:
        raise ValueError("a tagged GTID without its number")
    number = signed_variable_length(cursor)
    if variable_length(cursor) != 3:
        raise ValueError("a tagged GTID without its tag")
    return source + take_tag(cursor), number


def parse_previous_gtids(event: Event, file: str = "") -> MySQLGTIDSet | MariaDBGTIDSet:
    """The GTID set at the file's start: MySQL's PREVIOUS_GTIDS or MariaDB's GTID_LIST."""
    if event.type == c.MARIADB_GTID_LIST_EVENT:
        return parsing(event, file, lambda: _gtid_list(event))
    return parsing(event, file, lambda: MySQLGTIDSet.decode(event.data[c.HEADER_SIZE :]))


def _gtid_list(event: Event) -> MariaDBGTIDSet:
    cursor = Cursor(event.data, c.HEADER_SIZE)
    count = cursor.uint(4) & 0x0FFFFFFF
    gtids = MariaDBGTIDSet()
    for _ in range(count):
        domain, server, sequence = cursor.uint(4), cursor.uint(4), cursor.uint(8)
        gtids.merge(f"{domain}-{server}-{sequence}")
    return gtids


#: Events that change data in a way that is not replicated: a description, and the operator action.
_REFUSED: dict[int, tuple[str, str]] = {
    **dict.fromkeys((6, 7, 8, 10, 12), ("LOAD DATA of a server before MySQL 5.0.3", "Upgrade the upstream.")),
    **dict.fromkeys((20, 21, 22), ("rows event of a MySQL 5.1 pre-release", "Upgrade the upstream.")),
    c.INCIDENT_EVENT: (
        "INCIDENT (the upstream reports that its binlog lacks changes)",
        f"The tables must be copied again: {Advice.COPY_AGAIN}.",
    ),
    c.TRANSACTION_PAYLOAD_EVENT: (
        "compressed transaction from an upstream that is not MySQL",
        "Set the source's flavor to mysql if it is one.",
    ),
}
#: Events without effect on rows and order: they can be skipped.
_HARMLESS = frozenset(
    {
        c.STOP_EVENT,
        c.IGNORABLE_EVENT,
        c.ROWS_QUERY_EVENT,
        c.TRANSACTION_CONTEXT_EVENT,
        c.VIEW_CHANGE_EVENT,
        c.HEARTBEAT_EVENT,
        c.HEARTBEAT_EVENT_V2,
        c.AURORA_PADDING_EVENT,
        c.MARIADB_ANNOTATE_ROWS_EVENT,
        c.MARIADB_BINLOG_CHECKPOINT_EVENT,
        c.PREVIOUS_GTIDS_EVENT,
        c.MARIADB_GTID_LIST_EVENT,
        # Only files are encrypted: a server announces the encryption and sends plain events.
        c.MARIADB_START_ENCRYPTION_EVENT,
        # Variables of a statement-based statement: the statement itself is rejected.
        c.INTVAR_EVENT,
        c.RAND_EVENT,
        c.USER_VAR_EVENT,
        # The file of a statement-based LOAD DATA: as above.
        c.BEGIN_LOAD_QUERY_EVENT,
        c.APPEND_BLOCK_EVENT,
        c.DELETE_FILE_EVENT,
    }
)
_HANDLED = frozenset(
    {
        c.QUERY_EVENT,
        c.ROTATE_EVENT,
        c.FORMAT_DESCRIPTION_EVENT,
        c.XID_EVENT,
        c.TABLE_MAP_EVENT,
        c.XA_PREPARE_EVENT,
        c.GTID_EVENT,
        c.ANONYMOUS_GTID_EVENT,
        c.MARIADB_GTID_EVENT,
        c.MARIADB_QUERY_COMPRESSED_EVENT,
        c.EXECUTE_LOAD_QUERY_EVENT,
        *c.ROWS_EVENTS,
    }
)


def ensure_supported(event: Event, file: str = "") -> None:
    """Raises 11070 for an event that changes data and can't be replicated, and for an unknown event.

    Returns for the events that have a parser or can be skipped, so that no event is dropped silently.
    """
    kind = event.type
    if kind in _HANDLED or kind in _HARMLESS or (kind not in _REFUSED and event.flags & c.FLAG_IGNORABLE):
        return
    what, workaround = _REFUSED.get(kind, ("unknown event", Advice.CONTINUE_AFTER_EVENT))
    raise errors.new(
        Code.BinlogUnexpectedEv,
        f"{what} (binlog event type {kind}) {whereabouts(file, event.log_pos)} is not supported",
        workaround=workaround,
        scope="upstream",
    )
