"""Numbers of the binlog format: event types, event flags, column types."""

from __future__ import annotations

from typing import Final

MAGIC: Final = b"\xfebin"
HEADER_SIZE: Final = 19
CHECKSUM_SIZE: Final = 4

QUERY_EVENT: Final = 2
STOP_EVENT: Final = 3
ROTATE_EVENT: Final = 4
INTVAR_EVENT: Final = 5
APPEND_BLOCK_EVENT: Final = 9
DELETE_FILE_EVENT: Final = 11
RAND_EVENT: Final = 13
USER_VAR_EVENT: Final = 14
FORMAT_DESCRIPTION_EVENT: Final = 15
XID_EVENT: Final = 16
BEGIN_LOAD_QUERY_EVENT: Final = 17
EXECUTE_LOAD_QUERY_EVENT: Final = 18
TABLE_MAP_EVENT: Final = 19
WRITE_ROWS_EVENT_V1: Final = 23
UPDATE_ROWS_EVENT_V1: Final = 24
DELETE_ROWS_EVENT_V1: Final = 25
INCIDENT_EVENT: Final = 26
HEARTBEAT_EVENT: Final = 27
IGNORABLE_EVENT: Final = 28
ROWS_QUERY_EVENT: Final = 29
WRITE_ROWS_EVENT: Final = 30
UPDATE_ROWS_EVENT: Final = 31
DELETE_ROWS_EVENT: Final = 32
GTID_EVENT: Final = 33
ANONYMOUS_GTID_EVENT: Final = 34
PREVIOUS_GTIDS_EVENT: Final = 35
TRANSACTION_CONTEXT_EVENT: Final = 36
VIEW_CHANGE_EVENT: Final = 37
XA_PREPARE_EVENT: Final = 38
PARTIAL_UPDATE_ROWS_EVENT: Final = 39
TRANSACTION_PAYLOAD_EVENT: Final = 40
HEARTBEAT_EVENT_V2: Final = 41
GTID_TAGGED_EVENT: Final = 42
#: Padding that Amazon Aurora writes; it has no content.
AURORA_PADDING_EVENT: Final = 100

MARIADB_ANNOTATE_ROWS_EVENT: Final = 160
MARIADB_BINLOG_CHECKPOINT_EVENT: Final = 161
MARIADB_GTID_EVENT: Final = 162
MARIADB_GTID_LIST_EVENT: Final = 163
MARIADB_START_ENCRYPTION_EVENT: Final = 164
MARIADB_QUERY_COMPRESSED_EVENT: Final = 165
MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1: Final = 166
MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1: Final = 167
MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1: Final = 168
MARIADB_WRITE_ROWS_COMPRESSED_EVENT: Final = 169
MARIADB_UPDATE_ROWS_COMPRESSED_EVENT: Final = 170
MARIADB_DELETE_ROWS_COMPRESSED_EVENT: Final = 171

#: The file is open for writing (only in FORMAT_DESCRIPTION; not covered by its checksum).
FLAG_BINLOG_IN_USE: Final = 0x01
#: The statement used a temporary table of its session, or another statement in the same procedure call did.
FLAG_THREAD_SPECIFIC: Final = 0x04
#: The server created it for this connection; it is in no file.
FLAG_ARTIFICIAL: Final = 0x20
#: A replica that does not know the event may skip it.
FLAG_IGNORABLE: Final = 0x80

#: Flag of a rows event, in the 16 bits at :data:`ROWS_FLAGS`: its session had foreign_key_checks=0.
FLAG_NO_FOREIGN_KEY_CHECKS: Final = 0x02
#: Offset of the flags in a rows event: after the header and the table id.
ROWS_FLAGS: Final = HEADER_SIZE + 6

OP_INSERT: Final = 0
OP_UPDATE: Final = 1
OP_DELETE: Final = 2

#: Every rows event that this project decodes, with its operation.
ROWS_EVENTS: Final[dict[int, int]] = {
    WRITE_ROWS_EVENT_V1: OP_INSERT,
    UPDATE_ROWS_EVENT_V1: OP_UPDATE,
    DELETE_ROWS_EVENT_V1: OP_DELETE,
    WRITE_ROWS_EVENT: OP_INSERT,
    UPDATE_ROWS_EVENT: OP_UPDATE,
    DELETE_ROWS_EVENT: OP_DELETE,
    PARTIAL_UPDATE_ROWS_EVENT: OP_UPDATE,
    MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1: OP_INSERT,
    MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1: OP_UPDATE,
    MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1: OP_DELETE,
    MARIADB_WRITE_ROWS_COMPRESSED_EVENT: OP_INSERT,
    MARIADB_UPDATE_ROWS_COMPRESSED_EVENT: OP_UPDATE,
    MARIADB_DELETE_ROWS_COMPRESSED_EVENT: OP_DELETE,
}
#: Rows events whose header carries extra data (version 2).
ROWS_EVENTS_V2: Final = frozenset(
    {
        WRITE_ROWS_EVENT,
        UPDATE_ROWS_EVENT,
        DELETE_ROWS_EVENT,
        PARTIAL_UPDATE_ROWS_EVENT,
        MARIADB_WRITE_ROWS_COMPRESSED_EVENT,
        MARIADB_UPDATE_ROWS_COMPRESSED_EVENT,
        MARIADB_DELETE_ROWS_COMPRESSED_EVENT,
    }
)
#: Rows events whose row images are one compressed block.
ROWS_EVENTS_COMPRESSED: Final = frozenset(range(166, 172))
#: Events that carry a statement.
QUERY_EVENTS: Final = frozenset({QUERY_EVENT, MARIADB_QUERY_COMPRESSED_EVENT, EXECUTE_LOAD_QUERY_EVENT})
#: The bytes that EXECUTE_LOAD_QUERY has between a QUERY's lengths and its status variables.
LOAD_QUERY_HEAD: Final = 13

TYPE_TINY: Final = 1
TYPE_SHORT: Final = 2
TYPE_LONG: Final = 3
TYPE_FLOAT: Final = 4
TYPE_DOUBLE: Final = 5
TYPE_TIMESTAMP: Final = 7
TYPE_LONGLONG: Final = 8
TYPE_INT24: Final = 9
TYPE_DATE: Final = 10
TYPE_TIME: Final = 11
TYPE_DATETIME: Final = 12
TYPE_YEAR: Final = 13
TYPE_NEWDATE: Final = 14
TYPE_VARCHAR: Final = 15
TYPE_BIT: Final = 16
TYPE_TIMESTAMP2: Final = 17
TYPE_DATETIME2: Final = 18
TYPE_TIME2: Final = 19
TYPE_BLOB_COMPRESSED: Final = 140
TYPE_VARCHAR_COMPRESSED: Final = 141
TYPE_VECTOR: Final = 242
TYPE_JSON: Final = 245
TYPE_NEWDECIMAL: Final = 246
TYPE_ENUM: Final = 247
TYPE_SET: Final = 248
TYPE_TINY_BLOB: Final = 249
TYPE_MEDIUM_BLOB: Final = 250
TYPE_LONG_BLOB: Final = 251
TYPE_BLOB: Final = 252
TYPE_VAR_STRING: Final = 253
TYPE_STRING: Final = 254
TYPE_GEOMETRY: Final = 255
