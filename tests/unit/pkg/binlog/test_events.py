"""Hazard: what an event of either server says is misread, or torn bytes pass without an error with the position."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.charsets import collation_charset, decode_text
from pkg.errors import Code
from tests.harness import binlog_bytes

#: Of a MySQL 8.4.8, with what it shows: bytes of the UUID take one or two, as all numbers of such an event.
TAGGED = bytes.fromhex(
    "0278000000" "02fd03fd03fd03fd03010201 02fe0200f9030103fd03b90324ad026502" "046109" "06027a"
    "0808" "0a1c" "0c7f0f3ed752f26006" "1035" "0412c3d009"
)  # fmt: skip
TAGGED_TEXT = "ffffffff-8080-7f01-00fe-c0ffee12ab99:z:300"


def _query(status: bytes, schema: bytes, statement: bytes, kind: int = c.QUERY_EVENT) -> ev.Event:
    head = struct.pack("<IIBHH", 11, 2, len(schema), 0, len(status))
    return binlog_bytes.event(kind, head + status + schema + b"\0" + statement)


def test_query_keeps_the_session() -> None:
    status = b"\0" + struct.pack("<I", 1) + b"\1" + struct.pack("<Q", 1 << 21) + b"\6\3std\3" + bytes(4)
    status += b"\4" + struct.pack("<HHH", 28, 28, 8) + b"\5\6+05:30" + b"\7\0\0" + b"\x0c\2a\0b\0"
    status += b"\x0b\1u\1h" + b"\x80\x10\x27\0" + b"\x81" + bytes(8) + b"\x10\1" + b"\x83\1" + bytes(4)
    query = ev.parse_query(_query(status, b"db", "CREATE TABLE 語(a INT)".encode("gbk")))
    assert (query.schema, query.thread_id, query.execution_time) == ("db", 11, 2)
    assert query.sql_mode == 1 << 21
    assert query.charsets == (28, 28, 8)
    assert query.client_charset == "gbk"
    assert query.sql == "CREATE TABLE 語(a INT)"
    assert query.time_zone == "+05:30"
    assert query.microseconds == 10000
    assert query.explicit_defaults_for_timestamp is True


def test_query_of_mysql_8_keeps_what_its_definitions_mean() -> None:
    """As 8.0 writes them: which default collation, and after it number of the transaction and the policies."""
    status = b"\x10\0" + b"\x11" + bytes(8) + b"\x12" + struct.pack("<H", 45) + b"\x13\1" + b"\x14\0"
    query = ev.parse_query(_query(status + b"\1" + struct.pack("<Q", 5), b"d", b"CREATE TABLE t (a INT)"))
    assert query.explicit_defaults_for_timestamp is False
    assert query.utf8mb4_collation == 45
    assert query.sql_mode == 5


def test_unknown_status_variable_hides_nothing_before_it() -> None:
    query = ev.parse_query(_query(b"\1" + struct.pack("<Q", 5) + b"\xc8abc", b"d", b"BEGIN"))
    assert query.sql_mode == 5
    assert query.sql == "BEGIN"


def test_compressed_query() -> None:
    text = b"INSERT " * 30
    block = bytes([0x82]) + len(text).to_bytes(2, "big") + zlib.compress(text)
    assert ev.parse_query(_query(b"", b"d", block, c.MARIADB_QUERY_COMPRESSED_EVENT)).statement == text


def test_a_load_data_in_statement_format_is_a_statement() -> None:
    """As a MariaDB 10.11 writes it: the file's place and the names' ends are between the lengths and the variables."""
    names = struct.pack("<IIIB", 3, 9, 37, 1)
    status = b"\1" + struct.pack("<Q", 5)
    text = b"LOAD DATA LOCAL INFILE '/tmp/SQL_LOAD_MB-3-0' IGNORE INTO TABLE `t`"
    body = struct.pack("<IIBHH", 11, 2, 1, 0, len(status)) + names + status + b"d\0" + text
    query = ev.parse_query(binlog_bytes.event(c.EXECUTE_LOAD_QUERY_EVENT, body))
    assert (query.schema, query.statement, query.sql_mode) == ("d", text, 5)
    assert c.EXECUTE_LOAD_QUERY_EVENT in c.QUERY_EVENTS
    for kind in (c.BEGIN_LOAD_QUERY_EVENT, c.APPEND_BLOCK_EVENT, 11):
        # Without the statement, they change nothing.
        ev.ensure_supported(binlog_bytes.event(kind, b""), "b.000004")


def test_gtids_of_both_servers() -> None:
    source = uuid.UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")
    mysql = binlog_bytes.event(c.GTID_EVENT, b"\1" + source.bytes + struct.pack("<Q", 23) + b"\2" + bytes(16))
    assert ev.parse_gtid(mysql) == ev.GtidEvent(f"{source}:23")
    assert ev.parse_gtid(binlog_bytes.event(c.GTID_TAGGED_EVENT, TAGGED)) == ev.GtidEvent(TAGGED_TEXT)
    assert ev.parse_gtid(binlog_bytes.event(c.ANONYMOUS_GTID_EVENT, bytes(25))) == ev.GtidEvent("")
    mariadb = binlog_bytes.event(c.MARIADB_GTID_EVENT, struct.pack("<QIB", 99, 3, 1 | 32) + bytes(6))
    assert ev.parse_gtid(mariadb) == ev.GtidEvent("3-7-99", standalone=True, ddl=True)


def test_a_torn_tagged_gtid_is_an_error() -> None:
    for size in range(TAGGED.index(b"z") + 1):
        with pytest.raises(errors.DMError) as caught:
            ev.parse_gtid(binlog_bytes.event(c.GTID_TAGGED_EVENT, TAGGED[:size]))
        assert caught.value.kind is Code.BinlogParseSingleEv


def test_sets_at_a_file_start() -> None:
    listed = struct.pack("<I", 2 | 1 << 28) + struct.pack("<IIQ", 0, 1, 9) + struct.pack("<IIQ", 5, 2, 1 << 33)
    assert str(ev.parse_previous_gtids(binlog_bytes.event(c.MARIADB_GTID_LIST_EVENT, listed))) == f"0-1-9,5-2-{1 << 33}"
    source = bytes(range(16))
    sets = struct.pack("<Q", 1) + source + struct.pack("<QQQ", 1, 1, 6)
    assert (
        str(ev.parse_previous_gtids(binlog_bytes.event(c.PREVIOUS_GTIDS_EVENT, sets)))
        == f"{uuid.UUID(bytes=source)}:1-5"
    )


def test_rotate_and_heartbeat_and_xid() -> None:
    rotate = ev.event_from_bytes(binlog_bytes.rotate(b"b.000012"))
    assert rotate.artificial
    assert ev.parse_rotate(rotate) == ev.RotateEvent(4, "b.000012")


def test_rotate_to_nowhere_is_an_error() -> None:
    with pytest.raises(errors.DMError) as caught:
        ev.parse_rotate(binlog_bytes.event(c.ROTATE_EVENT, bytes(8)))
    assert caught.value.kind is Code.BinlogEmptyNextBinName


@pytest.mark.parametrize(
    ("server", "aware"), [(b"5.5.62-log", False), (b"5.6.24-log", True), (b"10.0.38-MariaDB", True)]
)
def test_format_of_old_and_new_servers(server: bytes, aware: bool) -> None:
    body = struct.pack("<H50sIB", 4, server, 5, 19) + bytes(range(27))
    data = binlog_bytes.raw(15, body + b"\1", checksum=True) if aware else binlog_bytes.raw(15, body)
    description = ev.parse_format_description(ev.event_from_bytes(data))
    assert description.post_header_lengths == bytes(range(27))
    assert (description.has_checksum_field, description.checksummed) == (aware, aware)


def test_unknown_formats_are_refused() -> None:
    for body in (
        struct.pack("<H50sIB", 3, b"4.1", 0, 19) + bytes(20),
        struct.pack("<H50sIB", 4, b"8.0.1", 0, 19) + b"\7",
    ):
        event = binlog_bytes.event(15, body)
        with pytest.raises(errors.DMError) as caught:
            ev.parse_format_description(event._replace(size=event.size + 4))
        assert caught.value.kind is Code.BinlogExpectFormatDescEv


PARSERS: list[tuple[Callable[..., object], int]] = [
    (ev.parse_query, c.QUERY_EVENT),
    (ev.parse_query, c.MARIADB_QUERY_COMPRESSED_EVENT),
    (ev.parse_gtid, c.GTID_EVENT),
    (ev.parse_gtid, c.GTID_TAGGED_EVENT),
    (ev.parse_gtid, c.MARIADB_GTID_EVENT),
    (ev.parse_rotate, c.ROTATE_EVENT),
    (ev.parse_xa_prepare, c.XA_PREPARE_EVENT),
    (ev.parse_format_description, c.FORMAT_DESCRIPTION_EVENT),
    (ev.parse_previous_gtids, c.PREVIOUS_GTIDS_EVENT),
    (ev.parse_previous_gtids, c.MARIADB_GTID_LIST_EVENT),
]


@given(st.binary(max_size=90), st.sampled_from(PARSERS))
def test_random_bytes_never_escape_as_other_errors(body: bytes, parser: tuple[Callable[..., object], int]) -> None:
    parse, kind = parser
    code = binlog_bytes.error_code(lambda: parse(binlog_bytes.event(kind, body), "b.000004"))
    assert code == 0 or code // 1000 == 11


def test_torn_event_names_its_position() -> None:
    with pytest.raises(errors.DMError, match=r"\(b\.000004, 1000\)") as caught:
        ev.parse_rotate(binlog_bytes.event(c.ROTATE_EVENT, b"\1"), "b.000004")
    assert caught.value.kind is Code.BinlogParseSingleEv


@pytest.mark.parametrize("kind", [c.TRANSACTION_PAYLOAD_EVENT, c.INCIDENT_EVENT, 6, 21])
def test_what_cannot_be_replicated_is_refused_with_a_way_out(kind: int) -> None:
    with pytest.raises(errors.DMError) as caught:
        ev.ensure_supported(binlog_bytes.event(kind, b""), "b.000004")
    assert caught.value.kind is Code.BinlogUnexpectedEv
    assert caught.value.workaround
    assert "(b.000004, 1000)" in caught.value.message


def test_unknown_events_pass_only_when_marked_ignorable() -> None:
    ev.ensure_supported(binlog_bytes.event(250, b"", flags=c.FLAG_IGNORABLE))
    with pytest.raises(errors.DMError):
        ev.ensure_supported(binlog_bytes.event(250, b""))
    with pytest.raises(errors.DMError):
        ev.ensure_supported(binlog_bytes.event(c.TRANSACTION_PAYLOAD_EVENT, b"", flags=c.FLAG_IGNORABLE))


def test_positions_go_on_beyond_4_gib() -> None:
    near = (1 << 32) - 10
    assert ev.end_position(near, binlog_bytes.event(16, b"", log_pos=near + 5)) == near + 5
    assert ev.end_position(near, binlog_bytes.event(16, b"", log_pos=90)) == (1 << 32) + 90
    assert ev.end_position((1 << 32) + 90, binlog_bytes.event(16, b"", log_pos=120)) == (1 << 32) + 120
    assert ev.end_position(near, binlog_bytes.event(15, bytes(40), log_pos=0)) == near
    assert ev.end_position(near, binlog_bytes.event(c.HEARTBEAT_EVENT, b"", log_pos=90)) == near


@pytest.mark.parametrize("kind", [c.QUERY_EVENT, c.TABLE_MAP_EVENT, 23, 31, 160, 250])
def test_an_event_that_names_no_end_is_stored_after_the_one_before(kind: int) -> None:
    """MariaDB 11.4 and later name none in what goes through a transaction's cache."""
    event = binlog_bytes.event(kind, b"12345", log_pos=0)
    assert not event.artificial
    assert ev.end_position(700, event) == 700 + 19 + 5
    assert ev.end_position((1 << 32) - 7, event) == (1 << 32) + 17
    assert binlog_bytes.event(kind, b"12345", log_pos=0, flags=c.FLAG_ARTIFICIAL).artificial
    with pytest.raises(errors.DMError, match=r"type 7, .* of b\.000004|type 7\) of b\.000004"):
        ev.ensure_supported(binlog_bytes.event(7, b"", log_pos=0), "b.000004")


@pytest.mark.parametrize("kind", [c.FORMAT_DESCRIPTION_EVENT, c.MARIADB_START_ENCRYPTION_EVENT, c.ROTATE_EVENT])
def test_what_is_sent_again_in_front_of_a_position_inside_a_file_is_not_there(kind: int) -> None:
    assert binlog_bytes.event(kind, bytes(9), log_pos=0).artificial
    assert ev.end_position(700, binlog_bytes.event(kind, bytes(9), log_pos=0)) == 700
    assert not binlog_bytes.event(kind, bytes(9), log_pos=900).artificial


def test_charsets_by_collation_of_both_servers() -> None:
    known = {
        8: "latin1",
        28: "gbk",
        33: "utf8mb3",
        45: "utf8mb4",
        255: "utf8mb4",
        309: "utf8mb4",
        1069: "utf8mb4",
        2304: "utf8mb4",
    }
    assert {number: collation_charset(number) for number in known} == known
    with pytest.raises(errors.DMError):
        collation_charset(60_000)


def test_undecodable_text_is_not_replaced() -> None:
    assert decode_text(b"\x80\x81", "latin1") == "€\x81"
    assert decode_text("語".encode("utf-16-be"), "ucs2") == "語"
    for data, charset in ((b"\xff\xfe", "utf8mb4"), (b"\xff", "geostd8")):
        with pytest.raises(errors.DMError) as caught:
            decode_text(data, charset)
        assert caught.value.kind is Code.BinlogEventDecode
