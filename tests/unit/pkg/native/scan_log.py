"""A log in raw bytes, in the forms of both servers, for what reads such bytes."""

from __future__ import annotations

import struct
import zlib

from pkg.binlog import constants as c
from tests.unit.dm_worker.syncer.planning.support import Log

MYSQL_SOURCE = bytes(range(16))


class Writer(Log):
    """A log in raw bytes, in the forms of both servers."""

    def __init__(self, *, placeless: bool = False) -> None:
        super().__init__(placeless=placeless)
        self.number = 0

    def raws(self, checksum: bool) -> list[bytes]:
        if not checksum:
            sizes = [struct.pack("<I", len(event.data)) for event in self.events]
            return [event.data[:9] + size + event.data[13:] for event, size in zip(self.events, sizes, strict=True)]
        return [event.data + struct.pack("<I", zlib.crc32(event.data)) for event in self.events]

    def begin(self, form: str, *, flags: int = 0, extra: int = 0) -> None:
        self.number += 1
        if form == "mariadb":
            body = struct.pack("<QIB", self.number, self.number % 2, flags) + bytes([extra]) * 10
            self.add(c.MARIADB_GTID_EVENT, body)
            return
        if form == "mysql":
            self.add(c.GTID_EVENT, b"\1" + MYSQL_SOURCE + struct.pack("<Q", self.number) + bytes(18))
        elif form == "anonymous":
            self.add(c.ANONYMOUS_GTID_EVENT, bytes(43))
        self.query(b"BEGIN")

    def word(self, what: str, tag: int) -> None:
        """One event of a transaction, or what may stand between them."""
        if what == "rows":
            self.table_map(b"t", 1)
            self.rows(tag, 1)
        elif what == "other":
            self.table_map(b"uu", 2)
            self.rows(tag, 2)
        elif what == "filtered":
            self.table_map(b"x", 3)
            self.rows(tag, 3)
        elif what == "held":
            self.table_map(b"h", 4)
            self.rows(tag, 4)
        elif what == "again":
            # The table id now stands for another table.
            self.table_map(b"tt", 1)
            self.rows(tag, 1)
        elif what == "dummy":
            self.rows(tag, 0xFFFFFF)
        elif what == "note":
            self.add(c.MARIADB_ANNOTATE_ROWS_EVENT, b"UPDATE t")
        elif what == "heartbeat":
            self.add(c.HEARTBEAT_EVENT, b"bin.000001")
        elif what == "savepoint":
            self.query(b"SAVEPOINT a")
        else:
            self.query(b"ROLLBACK TO a")


WORDS = ["rows", "rows", "rows", "other", "filtered", "held", "again", "dummy", "note", "heartbeat", "savepoint"]
