"""An upstream's binlog files built from transactions, and what the upstream would send of them."""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass, field
from zlib import crc32

from hypothesis import strategies as st

from pkg.binlog.gtid import parse_gtid_set
from tests.harness import binlog_bytes

SOURCES = [uuid.UUID(int=1), uuid.UUID(int=2)]
MAGIC = b"\xfebin"


@dataclass(frozen=True)
class Work:
    """One transaction: its shape, who wrote it, and the sizes of its rows events."""

    shape: str
    source: int
    rows: tuple[int, ...]
    gtid: bool = True


SHAPES = ["dml", "ddl", "plain", "rollback", "xa", "xa-commit", "payload", "load"]
works = st.builds(
    Work,
    shape=st.sampled_from(SHAPES),
    source=st.integers(0, 1),
    rows=st.lists(st.integers(0, 300), min_size=1, max_size=3).map(tuple),
    gtid=st.booleans(),
)
files_of_works = st.lists(st.lists(works, max_size=6), min_size=1, max_size=3)


@dataclass
class Built:
    """``boundaries``: offset after each transaction (and other event outside one), and the set executed there."""

    name: str
    checksum: bool
    #: What MariaDB 11.4 and later do: events inside a transaction do not name their ends.
    placeless: bool
    data: bytes = MAGIC
    events: list[bytes] = field(default_factory=list)
    boundaries: list[tuple[int, str]] = field(default_factory=list)
    #: The events of each transaction, by their number.
    transactions: list[range] = field(default_factory=list)

    def add(self, kind: int, body: bytes, flags: int = 0, *, inside: bool = False) -> None:
        log_pos = 0 if inside and self.placeless else self._end(body)
        self.put(binlog_bytes.raw(kind, body, checksum=self.checksum, flags=flags, log_pos=log_pos))

    def put(self, event: bytes) -> None:
        self.data += event
        self.events.append(event)

    def _end(self, body: bytes) -> int:
        return len(self.data) + 19 + len(body) + (4 if self.checksum else 0)

    def starts(self) -> list[int]:
        at, found = 4, []
        for event in self.events:
            found.append(at)
            at += len(event)
        return found


def query(text: bytes) -> bytes:
    return struct.pack("<IIBHH", 9, 0, 2, 0, 3) + b"\x04\x01\x02" + b"db\0" + text


def load_data(text: bytes) -> bytes:
    return struct.pack("<IIBHH", 9, 0, 2, 0, 3) + bytes(13) + b"\x04\x01\x02" + b"db\0" + text


class Upstream:
    """Files ``bin.000001`` and on, each ended by ROTATE but for the last."""

    def __init__(self, flavor: str, checksum: bool, contents: list[list[Work]], *, placeless: bool = False) -> None:
        self.flavor = flavor
        self.placeless = placeless
        self.executed = parse_gtid_set("", flavor)
        self._numbers = [0, 0]
        self.files: list[Built] = []
        for number, transactions in enumerate(contents, 1):
            self.files.append(self._file(number, checksum, transactions, last=number == len(contents)))

    def _file(self, number: int, checksum: bool, transactions: list[Work], *, last: bool) -> Built:
        file = Built(f"bin.{number:06d}", checksum, self.placeless)
        described = binlog_bytes.format_description(checksum=checksum)
        at = len(MAGIC) + len(described)
        body = described[:13] + struct.pack("<I", at) + described[17:-4]
        file.put(body + struct.pack("<I", crc32(body)))
        self._boundary(file)
        kind, previous = (163, self._listed()) if self.flavor == "mariadb" else (35, self.executed.encode())  # type: ignore[union-attr]
        file.add(kind, previous)
        self._boundary(file)
        for work in transactions:
            first = len(file.events)
            self._transaction(file, work)
            file.transactions.append(range(first, len(file.events)))
            self._boundary(file)
        if not last:
            file.add(4, struct.pack("<Q", 4) + f"bin.{number + 1:06d}".encode())
            self._boundary(file)
        return file

    def _boundary(self, file: Built) -> None:
        file.boundaries.append((len(file.data), str(self.executed)))

    def _listed(self) -> bytes:
        gtids = [tuple(map(int, part.split("-"))) for part in str(self.executed).split(",") if part]
        return struct.pack("<I", len(gtids)) + b"".join(struct.pack("<IIQ", d, s, n) for d, s, n in gtids)

    def _transaction(self, file: Built, work: Work) -> None:
        alone = work.shape in ("ddl", "xa-commit", "load")
        self._gtid(file, work, alone)
        if work.shape == "load":
            # In statement format; with a GTID, into a table of an engine without transactions.
            named = work.gtid or self.flavor == "mysql"
            if not named:
                file.add(2, query(b"BEGIN"))
            file.add(17, bytes(4) + b"1\t2\n")
            file.add(18, load_data(b"LOAD DATA INFILE 'x' INTO TABLE t"))
            if not named:
                file.add(16, bytes(8))
            return
        if alone:
            file.add(2, query(b"XA COMMIT X'01'" if work.shape == "xa-commit" else b"CREATE TABLE t (a INT)"))
            return
        if work.shape == "payload":
            file.add(40, bytes(sum(work.rows)))
            return
        if self.flavor == "mysql" or not work.gtid or work.shape == "xa":
            file.add(2, query(b"XA START X'01'" if work.shape == "xa" else b"BEGIN"))
        for size in work.rows:
            kind, flags = 160 if self.flavor == "mariadb" else 29, 0 if size % 2 else 0x80
            file.add(kind, bytes(size % 40), flags=flags, inside=True)
            file.add(19, b"\x2a" + bytes(20), inside=True)
            file.add(30, bytes(size), inside=True)
        file.add(2, query(b"SAVEPOINT s"), inside=True)
        if work.shape == "xa":
            file.add(2, query(b"XA END X'01'"), inside=True)
            file.add(38, bytes(15))
        elif work.shape == "dml":
            file.add(16, bytes(8))
        else:
            file.add(2, query(b"COMMIT" if work.shape == "plain" else b"ROLLBACK"))

    def _gtid(self, file: Built, work: Work, alone: bool) -> None:
        if not work.gtid:
            if self.flavor == "mysql":
                file.add(34, bytes(25))
            return
        self._numbers[work.source] += 1
        number = self._numbers[work.source]
        if self.flavor == "mysql":
            file.add(33, b"\1" + SOURCES[work.source].bytes + struct.pack("<Q", number) + bytes(17))
            self.executed.add(f"{SOURCES[work.source]}:{number}")
        else:
            file.add(162, struct.pack("<QIB", number, work.source, int(alone)) + bytes(6))
            self.executed.add(f"{work.source}-7-{number}")


def fake_rotate(name: str, position: int = 4, *, checksum: bool = False) -> bytes:
    return binlog_bytes.raw(4, struct.pack("<Q", position) + name.encode(), checksum=checksum, log_pos=0, flags=0x20)


def heartbeat(name: str, log_pos: int, *, checksum: bool) -> bytes:
    return binlog_bytes.raw(27, name.encode(), checksum=checksum, log_pos=log_pos)


def sent(upstream: Upstream, first: str, position: int, *, checksum_of_fake: bool = False) -> list[bytes]:
    """What a server sends from a position on: with made-up events, and FORMAT_DESCRIPTION changed inside a file."""
    stream: list[bytes] = []
    for file in upstream.files:
        if file.name < first:
            continue
        stream.append(fake_rotate(file.name, position, checksum=checksum_of_fake))
        described = file.events[0]
        if position > 4:
            # Its end is 0, and so is the time at which the server started.
            body = described[:13] + bytes(4) + described[17 : 19 + 52] + bytes(4) + described[19 + 56 : -4]
            described = body + struct.pack("<I", crc32(body))
        stream.append(described)
        if position > 4:
            stream.append(binlog_bytes.raw(163, bytes(4), checksum=file.checksum, log_pos=0, flags=0x20))
        for at, event in list(zip(file.starts(), file.events, strict=True))[1:]:
            if at >= position:
                stream.append(event)
        stream.append(heartbeat(file.name, len(file.data) & 0xFFFFFFFF, checksum=file.checksum))
        position = 4
    return stream
