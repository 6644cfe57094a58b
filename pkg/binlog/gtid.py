"""Executed-GTID sets of MySQL and MariaDB: parse, print canonically, add, compare. Pure, no I/O.

MySQL: ``uuid:1-5:7,uuid:1:tag:1-2``: every source has intervals of numbers, and so has every tag of a source (8.3).
MariaDB: ``0-1-100,1-3-7``: every domain has one last ``domain-server-sequence``; the set holds everything in the domain
up to it.
"""

from __future__ import annotations

import re
import struct
import uuid
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from pkg import errors
from pkg.binlog.cursor import Cursor
from pkg.binlog.variable_length import variable_length, with_variable_length
from pkg.errors import Code

_UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_BARE_UUID = re.compile(r"^[0-9a-f]{32}$")
_INTERVAL = re.compile(r"^\s*(\d+)(?:\s*-\s*(\d+))?\s*$")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_MARIADB = re.compile(r"^\s*(\d+)-(\d+)-(\d+)\s*$")
#: The largest number a transaction can have, plus one.
_LIMIT = (1 << 63) - 1

#: The first and the eighth byte of a set with tags; the number of sources is between them.
_TAGGED = 1

#: Half-open: first number, first number after.
Interval = tuple[int, int]


class MySQLGTIDSet:
    """A mutable set of MySQL GTIDs; equal sets print the same."""

    flavor = "mysql"
    __slots__ = ("_intervals",)

    def __init__(self, text: str = "") -> None:
        """Raises 11093 for text that is no GTID set."""
        #: By source, or by tag of a source: ``uuid``, ``uuid:tag``.
        self._intervals: dict[str, list[Interval]] = {}
        for part in text.split(","):
            if part.strip():
                self._parse_source(part, text)

    def _parse_source(self, part: str, text: str) -> None:
        fields = part.strip().split(":")
        name = source = _canonical_uuid(fields[0], text)
        if not _INTERVAL.match(fields[-1]):
            raise _bad_mysql(text, f"{part.strip()!r} does not end with a number")
        for at, field in enumerate(fields[1:], 1):
            match = _INTERVAL.match(field)
            if not match:
                name = f"{source}:{field.strip().lower()}"
                if not _TAG.fullmatch(name[len(source) + 1 :]) or not _INTERVAL.match(fields[at + 1]):
                    raise _bad_mysql(text, f"{field.strip()!r} is neither an interval of numbers nor the tag of one")
                continue
            first = int(match[1])
            last = int(match[2]) if match[2] else first
            if first < 1 or last < first or last >= _LIMIT:
                raise _bad_mysql(text, f"{field.strip()!r} is not an interval of transaction numbers")
            self._insert(name, first, last + 1)

    @classmethod
    def decode(cls, data: bytes) -> MySQLGTIDSet:
        """The binary form of PREVIOUS_GTIDS. Raises 11093 for an unknown form and ``ValueError`` for torn bytes."""
        cursor = Cursor(data)
        gtids = cls()
        sources = cursor.uint(8)
        form = sources >> 56
        if form > _TAGGED:
            raise _bad_mysql("PREVIOUS_GTIDS", f"its form {form} is unknown")
        if form == _TAGGED:
            sources = sources >> 8 & (1 << 48) - 1
        for _ in range(sources):
            source = cursor.take(16)
            name = source_name(source + take_tag(cursor) if form == _TAGGED else source)
            for _ in range(cursor.uint(8)):
                first, after = cursor.uint(8), cursor.uint(8)
                if not 1 <= first < after:
                    raise ValueError(f"[{first}, {after}) is not an interval")
                gtids._insert(name, first, after)
        return gtids

    def encode(self) -> bytes:
        """The binary form for COM_BINLOG_DUMP_GTID; without tags in the form that all servers read."""
        tagged = any(":" in name for name in self._intervals)
        count = len(self._intervals)
        parts = [struct.pack("<Q", _TAGGED << 56 | count << 8 | _TAGGED if tagged else count)]
        for name, intervals in sorted(self._intervals.items()):
            source, _, tag = name.partition(":")
            parts.append(bytes.fromhex(source.replace("-", "")))
            if tagged:
                parts.append(with_variable_length(tag.encode()))
            parts.append(struct.pack("<Q", len(intervals)))
            parts.extend(struct.pack("<QQ", first, after) for first, after in intervals)
        return b"".join(parts)

    def add(self, gtid: str) -> None:
        """Adds one GTID as an event carries it (``uuid:7``, ``uuid:tag:7``), or a whole set as text. Raises 11093."""
        source, _, number = gtid.rpartition(":")
        intervals = self._intervals.get(source)
        if intervals and number.isdigit() and int(number) == intervals[-1][1]:
            # Nearly every GTID is the next of its source.
            intervals[-1] = (intervals[-1][0], int(number) + 1)
            return
        self.update(MySQLGTIDSet(gtid))

    def update(self, other: MySQLGTIDSet) -> None:
        """Adds all of ``other``."""
        for source, intervals in other._intervals.items():
            for first, after in intervals:
                self._insert(source, first, after)

    def _insert(self, source: str, first: int, after: int) -> None:
        self._intervals[source] = _merged([*self._intervals.get(source, ()), (first, after)])

    def union(self, other: MySQLGTIDSet) -> MySQLGTIDSet:
        both = self.copy()
        both.update(other)
        return both

    def subtract(self, other: MySQLGTIDSet) -> MySQLGTIDSet:
        """The GTIDs of this set that are not in ``other``."""
        left = MySQLGTIDSet()
        for source, intervals in self._intervals.items():
            rest = list(_difference(intervals, other._intervals.get(source, [])))
            if rest:
                left._intervals[source] = rest
        return left

    def of_sources(self, other: MySQLGTIDSet) -> MySQLGTIDSet:
        """The part of this set with the sources, and tags of sources, that ``other`` has."""
        found = MySQLGTIDSet()
        found._intervals = {name: list(spans) for name, spans in self._intervals.items() if name in other._intervals}
        return found

    def contains(self, other: MySQLGTIDSet) -> bool:
        """True when every GTID of ``other`` is in this set."""
        return all(self._holds(source, interval) for source, rest in other._intervals.items() for interval in rest)

    def _holds(self, source: str, interval: Interval) -> bool:
        intervals = self._intervals.get(source, [])
        at = bisect_right(intervals, interval[0], key=lambda known: known[0]) - 1
        return at >= 0 and intervals[at][1] >= interval[1]

    def copy(self) -> MySQLGTIDSet:
        twin = MySQLGTIDSet()
        twin._intervals = {source: list(intervals) for source, intervals in self._intervals.items()}
        return twin

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MySQLGTIDSet) and self._intervals == other._intervals

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        parts: list[str] = []
        # A source's own intervals come before those of its tags.
        last = ""
        for name, intervals in sorted(self._intervals.items()):
            source, _, tag = name.partition(":")
            text = ":".join([tag or source, *(_interval_text(interval) for interval in intervals)])
            if source == last:
                parts[-1] += f":{text}"
            else:
                parts.append(f"{source}:{text}" if tag else text)
            last = source
        return ",".join(parts)

    def __repr__(self) -> str:
        return f"MySQLGTIDSet({str(self)!r})"


def take_tag(cursor: Cursor) -> bytes:
    """A tag after its length; empty for a source without one. Raises ``ValueError`` for an invalid tag."""
    tag = cursor.take(variable_length(cursor))
    if tag and not _TAG.fullmatch(tag.decode("ascii")):
        raise ValueError(f"{tag!r} is not a tag")
    return tag


def source_name(source: bytes) -> str:
    """``uuid`` or ``uuid:tag`` of a MySQL source as events have it: 16 bytes, and the tag's if it has one."""
    name = str(uuid.UUID(bytes=source[:16]))
    return f"{name}:{source[16:].decode('ascii')}" if len(source) > 16 else name


def _canonical_uuid(text: str, whole: str) -> str:
    low = text.strip().lower()
    if _BARE_UUID.match(low):
        return f"{low[:8]}-{low[8:12]}-{low[12:16]}-{low[16:20]}-{low[20:]}"
    if not _UUID.match(low):
        raise _bad_mysql(whole, f"{text.strip()!r} is not a server UUID")
    return low


def _interval_text(interval: Interval) -> str:
    first, after = interval
    return f"{first}" if after == first + 1 else f"{first}-{after - 1}"


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Sorted, with overlapping and adjacent intervals joined."""
    result: list[Interval] = []
    for first, after in sorted(intervals):
        if result and first <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], after))
        else:
            result.append((first, after))
    return result


def _difference(intervals: list[Interval], without: list[Interval]) -> Iterator[Interval]:
    for first, after in intervals:
        at = first
        for cut_first, cut_after in without:
            if cut_after <= at or cut_first >= after:
                continue
            if cut_first > at:
                yield (at, cut_first)
            at = max(at, cut_after)
        if at < after:
            yield (at, after)


def _bad_mysql(text: str, why: str) -> errors.DMError:
    return errors.new(
        Code.BinlogDecodeMySQLGTIDSet,
        f"{text!r} is not a MySQL GTID set: {why}",
        workaround="Write it as the upstream's @@gtid_executed shows it, such as "
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7.",
    )


class MariaDBGTIDSet:
    """A mutable set of MariaDB GTIDs: the last one of each domain."""

    flavor = "mariadb"
    __slots__ = ("_domains",)

    def __init__(self, text: str = "") -> None:
        """Raises 11095 for text that is no GTID list. Keeps the highest sequence of each domain."""
        self._domains: dict[int, tuple[int, int]] = {}
        for part in text.split(","):
            if part.strip():
                self.merge(part)

    def add(self, gtid: str) -> None:
        """The domain now ends with ``gtid`` (``0-1-7``), the next one of the stream. Raises 11095.

        It replaces the domain's last GTID, whatever its number: without ``gtid_strict_mode`` numbers may go back, and
        the server resumes from the exact GTID.
        """
        domain, server, sequence = _parse_mariadb(gtid)
        self._domains[domain] = (server, sequence)

    def merge(self, gtid: str) -> None:
        """Like :meth:`add`, for a GTID of unknown order: the higher sequence number wins."""
        domain, server, sequence = _parse_mariadb(gtid)
        known = self._domains.get(domain)
        if known is None or sequence > known[1]:
            self._domains[domain] = (server, sequence)

    def update(self, other: MariaDBGTIDSet) -> None:
        """Adds all of ``other``; per domain the higher sequence number wins."""
        for domain, (server, sequence) in other._domains.items():
            self.merge(f"{domain}-{server}-{sequence}")

    def union(self, other: MariaDBGTIDSet) -> MariaDBGTIDSet:
        both = self.copy()
        both.update(other)
        return both

    def domains(self) -> dict[int, tuple[int, int]]:
        """Domain → server id and sequence number of its last GTID."""
        return dict(self._domains)

    def contains(self, other: MariaDBGTIDSet) -> bool:
        """True when each domain of ``other`` is here with the same or a higher sequence number."""
        return all(
            domain in self._domains and self._domains[domain][1] >= sequence
            for domain, (_, sequence) in other._domains.items()
        )

    def copy(self) -> MariaDBGTIDSet:
        twin = MariaDBGTIDSet()
        twin._domains = dict(self._domains)
        return twin

    def __bool__(self) -> bool:
        return bool(self._domains)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MariaDBGTIDSet) and self._domains == other._domains

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{seq}" for domain, (server, seq) in sorted(self._domains.items()))

    def __repr__(self) -> str:
        return f"MariaDBGTIDSet({str(self)!r})"


def _parse_mariadb(text: str) -> tuple[int, int, int]:
    match = _MARIADB.match(text)
    if not match or int(match[1]) >= 1 << 32 or int(match[2]) >= 1 << 32 or int(match[3]) >= 1 << 64:
        raise errors.new(
            Code.BinlogParseMariaDBGTIDSet,
            f"{text.strip()!r} is not a MariaDB GTID",
            workaround="Write domain-server-sequence as the upstream's @@gtid_binlog_pos shows it, such as 0-1-100.",
        )
    return int(match[1]), int(match[2]), int(match[3])


GTIDSet = MySQLGTIDSet | MariaDBGTIDSet


def parse_gtid_set(text: str, flavor: str) -> GTIDSet:
    """The set of ``flavor`` ('mysql' or 'mariadb'). Raises 11093, 11095, and 11080 for another flavor."""
    if flavor == "mysql":
        return MySQLGTIDSet(text)
    if flavor == "mariadb":
        return MariaDBGTIDSet(text)
    raise errors.new(
        Code.BinlogFlavorNotSupport,
        f"flavor {flavor!r} is not supported",
        workaround="Set the source's flavor to mysql or mariadb, or remove it.",
    )
