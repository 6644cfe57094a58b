"""The server that answers as the upstream, its executed set, and its binlog's end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.relay.stream_follower import rotate_target
from pkg import errors
from pkg.binlog.gtid import MariaDBGTIDSet, MySQLGTIDSet, parse_gtid_set
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.server_position import master_status
from pkg.binlog.streams.server_stream import open_raw
from pkg.config.model import SourceConfig
from pkg.errors import Code
from pkg.errors.workarounds import Advice
from pkg.mysql.connection import classify, connect
from pkg.mysql.introspect import variable

#: Seconds to wait for the first event of a stream.
_FIRST_EVENT_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class UpstreamServer:
    """``uuid`` names its sub-folders; ``end`` is the end of its binlog at the time of the query."""

    uuid: str
    server_id: int
    end: Location


def identify_server(source: SourceConfig) -> UpstreamServer:
    """Queries the server. Raises DMError: 10001 when it can't be reached, 11125 when it writes no binlog."""
    conn = connect(source.from_, scope="upstream", read_timeout=30.0)
    try:
        number = int(variable(conn, "server_id") or 0)
        end = master_status(conn, source.flavor)
        uuid = _uuid(conn, source.flavor, number)
    except (pymysql.Error, OSError) as exc:
        raise classify(exc, scope="upstream", statement="asking for the server's identity") from exc
    finally:
        conn.close()
    if end is None:
        raise errors.new(
            Code.NoMasterStatus,
            f"the upstream {source.from_.host}:{source.from_.port} writes no binlog",
            workaround="Start it with log_bin, binlog_format=ROW and binlog_row_image=FULL.",
        )
    return UpstreamServer(uuid, number, end)


def _uuid(conn: Connection[Any], flavor: str, server_id: int) -> str:
    if flavor == "mariadb":
        return f"{variable(conn, 'gtid_domain_id') or 0}-{server_id}"
    return variable(conn, "server_uuid") or str(server_id)


def check_history(server: UpstreamServer, gtid_set: str, flavor: str, source: SourceConfig) -> None:
    """The server must have executed what the relay has: otherwise it was reset, or is another one. Raises 30029."""
    ours, theirs = parse_gtid_set(gtid_set, flavor), parse_gtid_set(server.end.gtid_set, flavor)
    if isinstance(ours, MySQLGTIDSet):
        held = isinstance(theirs, MySQLGTIDSet) and theirs.contains(ours)
    else:
        held = isinstance(theirs, MariaDBGTIDSet) and theirs.contains(ours)
    if not held:
        raise errors.new(
            Code.RelayCheckIsDuplicateEvent,
            f"the upstream {source.from_.host}:{source.from_.port} has executed {server.end.gtid_set or 'nothing'}: it "
            f"lacks transactions that the relay log has ({gtid_set})",
            workaround="Check the source's host, and whether the upstream was reset or failed over to a server that "
            f"was behind. If the host is correct, the tables must be copied again: {Advice.COPY_AGAIN}. "
            f"{Advice.FETCH_RELAY_AGAIN}",
            scope="upstream",
        )


def file_of(source: SourceConfig, server_id: int, gtid_set: str) -> str:
    """The file with the first transaction that ``gtid_set`` lacks. Raises DMError."""
    location = Location(Position("", 4), gtid_set)
    stream = open_raw(source.from_, location, flavor=source.flavor, server_id=server_id, use_gtid=True)
    try:
        for event in stream.read(1, _FIRST_EVENT_TIMEOUT):
            return rotate_target(event).file
    finally:
        stream.close()
    raise errors.new(
        Code.RelayTCPReaderGetEvent,
        f"the upstream sent nothing for {_FIRST_EVENT_TIMEOUT:.0f} s",
        workaround="The relay connects again automatically. If it keeps failing, check the upstream and the network.",
        retryable=True,
    )
