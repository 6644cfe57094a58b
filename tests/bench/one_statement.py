"""The peer "one statement per row", DM's default way to apply.

Rows are hashed by key onto 16 connections, 100 statements per transaction; before a row whose keys (primary and unique)
are on different connections, all of them finish. Safe mode is off: INSERT, UPDATE and DELETE by key.
The statements are rendered before the clock starts: reading and decoding the binlog is not counted, an advantage for
the peer. One thread serves all connections, so that no statement waits for an interpreter lock.
"""

from __future__ import annotations

import selectors
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError
from pkg.binlog import constants as c
from pkg.binlog.position import Location
from pkg.mysql import driver
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import TableInfo
from tests.bench.binlog import Tables, end_of_binlog, events
from tests.bench.figures import Cost
from tests.bench.peers import cost_beside
from tests.bench.workloads import SCHEMA

CONNECTIONS, PER_TRANSACTION = 16, 100
_OK, _ERROR = 0x00, 0xFF
_COM_QUERY = b"\x03"

#: The keys that a statement touches, and the statement.
Keyed = tuple[tuple[bytes, ...], bytes]
#: The row's table, and its images before and after the change, as SQL literals.
Change = tuple[TableInfo, list[bytes] | None, list[bytes] | None]
#: Statements of each connection; a round is complete before the next one begins.
Round = list[list[bytes]]


def rounds(statements: Iterable[Keyed], connections: int = CONNECTIONS) -> list[Round]:
    """Distributes statements so that those with a common key keep their order. Pure."""
    current: Round = [[] for _ in range(connections)]
    made, owners = [current], dict[bytes, int]()
    for keys, statement in statements:
        found = {owners[key] for key in keys if key in owners}
        if len(found) > 1:
            current = [[] for _ in range(connections)]
            made.append(current)
            owners.clear()
            found.clear()
        owner = found.pop() if found else zlib.crc32(keys[0]) % connections
        owners.update(dict.fromkeys(keys, owner))
        current[owner].append(statement)
    return made


def changes(source: SQLServer, start: Location) -> Iterator[Change]:
    """Every row change from ``start`` to the end of the binlog."""
    tables = Tables(source, SCHEMA)
    for piece in events(source, start, end_of_binlog(source).position):
        for event in piece:
            if event.type == c.TABLE_MAP_EVENT:
                tables.learn(event)
            elif event.is_rows and (found := tables.of(event)):
                decoder, info = found
                for _, before, after in decoder.images(event.data):
                    yield info, before, after
    tables.close()


def statements(source: SQLServer, start: Location) -> list[Keyed]:
    """Every row change from ``start`` to the end of the binlog as a statement."""
    return [_statement(*change) for change in changes(source, start)]


def _statement(info: TableInfo, before: list[bytes] | None, after: list[bytes] | None) -> Keyed:
    table = qualified(info.schema, info.name).encode()
    names = [quote(column.name).encode() for column in info.columns]
    row_key = info.row_key()
    assert row_key is not None
    keys = tuple(dict.fromkeys(key for image in (before, after) if image for key in _keys(info, image)))
    if before is None:
        assert after is not None
        return keys, insert(info, [after])
    where = b" AND ".join(b"%b = %b" % (names[i], before[i]) for i in map(info.index_of, row_key.columns))
    if after is None:
        return keys, b"DELETE FROM %b WHERE %b LIMIT 1" % (table, where)
    pairs = b", ".join(b"%b = %b" % pair for pair in zip(names, after, strict=True))
    return keys, b"UPDATE %b SET %b WHERE %b LIMIT 1" % (table, pairs, where)


def insert(info: TableInfo, rows: Sequence[Sequence[bytes]]) -> bytes:
    """One INSERT of all rows."""
    names = b",".join(quote(column.name).encode() for column in info.columns)
    values = b",".join(b"(%b)" % b",".join(row) for row in rows)
    return b"INSERT INTO %b (%b) VALUES %b" % (qualified(info.schema, info.name).encode(), names, values)


def _keys(info: TableInfo, image: Sequence[bytes]) -> list[bytes]:
    return [
        b"\0".join([info.name.encode(), index.name.encode(), *(image[info.index_of(name)] for name in index.columns)])
        for index in info.unique_keys
    ]


def packets(texts: Sequence[bytes], per_transaction: int = PER_TRANSACTION) -> list[bytes]:
    """The packets that one connection sends, one after each answer. A single statement commits by itself."""
    sent: list[bytes] = []
    for i in range(0, len(texts), per_transaction):
        part = texts[i : i + per_transaction]
        sent += part if per_transaction == 1 else [b"BEGIN", *part, b"COMMIT"]
    return [(len(text) + 1).to_bytes(3, "little") + b"\0" + _COM_QUERY + text for text in sent]


def apply(target: SQLServer, dealt: Sequence[Round], per_transaction: int = PER_TRANSACTION) -> Cost:
    """Applies the rounds. Raises HarnessError if a statement fails."""
    ready = [[packets(texts, per_transaction) for texts in one] for one in dealt]
    connections = [_open(target) for _ in range(CONNECTIONS)]

    def work() -> None:
        for one in ready:
            _round(connections, one)

    cost = cost_beside(work, target)
    for conn in connections:
        conn.close()
    return cost


def _open(target: SQLServer) -> Any:
    conn = target.connect()
    with conn.cursor() as cursor:
        cursor.execute("SET SESSION time_zone='+00:00', foreign_key_checks=0, sql_mode='STRICT_TRANS_TABLES'")
    return conn


def _round(connections: Sequence[Any], work: Sequence[Sequence[bytes]]) -> None:
    with selectors.DefaultSelector() as selector:
        for conn, sent in zip(connections, work, strict=True):
            if sent:
                remaining = iter(sent)
                sock = driver.socket_of(conn)
                sock.sendall(next(remaining))
                selector.register(sock, selectors.EVENT_READ, remaining)
        while selector.get_map():
            for key, _ in selector.select():
                _answered(key.fileobj.recv(65536))  # type: ignore[union-attr]
                packet = next(key.data, None)
                if packet is None:
                    selector.unregister(key.fileobj)
                else:
                    key.fileobj.sendall(packet)  # type: ignore[union-attr]


def _answered(data: bytes) -> None:
    """Checks the answer to one statement, which is one small packet."""
    if len(data) < 7 or len(data) != 4 + int.from_bytes(data[:3], "little"):
        raise HarnessError(f"not one whole answer to a statement: {data[:200]!r}")
    if data[4] == _ERROR:
        raise HarnessError(f"a statement failed: {data[7:].decode(errors='replace')}")
    if data[4] != _OK:
        raise HarnessError(f"unexpected answer to a statement: {data[:200]!r}")
