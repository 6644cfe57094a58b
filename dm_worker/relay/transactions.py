"""Finds where transactions begin and end in a binlog. Pure.

The relay cuts its files, and publishes them to readers, only where no transaction is open.
"""

from __future__ import annotations

from collections.abc import Iterable

from pkg.binlog import constants as c
from pkg.binlog.events import event_from_bytes
from pkg.binlog.gtid import GTIDSet, source_name
from pkg.binlog.gtid_event import GTID_EVENTS, gtid_of, is_standalone

#: No transaction is open; only its GTID was read (a single statement may be the whole one); it is open until its end.
OUTSIDE, BEGUN, INSIDE = 0, 1, 2

#: The source of a GTID (MySQL: UUID; MariaDB: domain and server, 4 bytes each, little-endian), and its number.
SourceAndNumber = tuple[bytes, int]
#: Source, first and last number. Of a MariaDB domain only the newest GTID is kept.
TransactionRun = tuple[bytes, int, int]
#: The state after the events so far, and the open transaction's GTID (None: it has none).
OpenTransaction = tuple[int, SourceAndNumber | None]

_ENDS = frozenset({c.XID_EVENT, c.XA_PREPARE_EVENT, c.TRANSACTION_PAYLOAD_EVENT})
#: Statements that end an XA transaction which was prepared before.
_XA_ENDS = (b"XA COMMIT", b"XA ROLLBACK")


def follow(now: OpenTransaction, event: bytes, file: str = "") -> OpenTransaction:
    """The open transaction after ``event`` (whole, without checksum). If none, the GTID is that of the ended one.

    Raises 11071 for a torn GTID event.
    """
    kind = event[4]
    if kind in GTID_EVENTS:
        parsed = event_from_bytes(event)
        source, number = gtid_of(parsed, file)
        return (BEGUN if is_standalone(parsed) else INSIDE), ((source, number) if source else None)
    if kind in _ENDS:
        return OUTSIDE, now[1]
    if kind in c.QUERY_EVENTS:
        return _query(now[0], statement(event)), now[1]
    return now


def _query(state: int, text: bytes) -> int:
    if text.startswith(_XA_ENDS):
        return OUTSIDE
    if state == INSIDE:
        return OUTSIDE if text in (b"COMMIT", b"ROLLBACK") else INSIDE
    return INSIDE if text == b"BEGIN" or text.startswith(b"XA START") else OUTSIDE


def statement(event: bytes) -> bytes:
    """The statement of an event that has one (compressed ones unchanged); '' when it is torn."""
    schema, variables = event[27:28], event[30:32]
    head = 13 + (c.LOAD_QUERY_HEAD if event[4] == c.EXECUTE_LOAD_QUERY_EVENT else 0)
    start = c.HEADER_SIZE + head + int.from_bytes(variables, "little") + int.from_bytes(schema, "little") + 1
    return event[start:]


def add_run(runs: list[TransactionRun], gtid: SourceAndNumber) -> None:
    """Adds an ended transaction to ``runs``."""
    source, number = gtid
    for at, (known, first, last) in enumerate(runs):
        if len(source) == 8 and known[:4] == source[:4]:
            runs[at] = (source, number, number)
            return
        if known == source and last + 1 == number:
            runs[at] = (source, first, number)
            return
    runs.append((source, number, number))


def add_to(gtids: GTIDSet, runs: Iterable[TransactionRun]) -> None:
    """Adds ``runs`` to an executed set."""
    for source, first, last in runs:
        if len(source) == 8:
            domain, server = int.from_bytes(source[:4], "little"), int.from_bytes(source[4:], "little")
            gtids.add(f"{domain}-{server}-{last}")
        else:
            name = source_name(source)
            gtids.add(f"{name}:{first}" if first == last else f"{name}:{first}-{last}")
