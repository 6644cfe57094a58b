"""Finds a position or a GTID set of the upstream's binlog in the relay log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dm_worker.relay.layout import RelayDir, SubDir
from dm_worker.relay.readable_end import RelayLogEnd
from pkg.binlog import constants as c
from pkg.binlog.events import parse_previous_gtids
from pkg.binlog.gtid import GTIDSet, parse_gtid_set
from pkg.binlog.position import Location, file_number, relay_suffix, upstream_name
from pkg.binlog.streams.framing import FileFramer

#: The head of a file is read in pieces of this many bytes, and at most this many pieces.
_PIECE, _PIECES = 1 << 16, 1 << 10
_GTID_LISTS = (c.PREVIOUS_GTIDS_EVENT, c.MARIADB_GTID_LIST_EVENT)


@dataclass(frozen=True, slots=True)
class ReadStart:
    """Where a reader starts. ``before``: the GTID set executed before ``file``, for a search by GTID set."""

    subdir: SubDir
    file: str
    offset: int
    before: GTIDSet | None = None


def find_position(relay: RelayDir, end: RelayLogEnd, location: Location) -> ReadStart | None:
    """Finds ``location.position``: in the sub-folder that its name contains, or in the newest one with such a file.

    None when the relay log up to ``end`` does not contain it (yet).
    """
    name, suffix = upstream_name(location.position.name), relay_suffix(location.position.name)
    for subdir, files in reversed(_readable(relay, end)):
        if suffix in (0, subdir.suffix) and name in files:
            offset = max(location.position.pos, len(c.MAGIC))
            newest = (subdir.name, name) == (end.subdir, end.file)
            size = end.size if newest else _size(subdir.path / name)
            return ReadStart(subdir, name, offset) if offset <= size else None
    return None


def find_gtids(relay: RelayDir, end: RelayLogEnd, executed: GTIDSet) -> ReadStart | None:
    """The newest file up to ``end`` that contains all after ``executed``; None when there is none."""
    found = _readable(relay, end)
    for index in reversed(range(len(found))):
        subdir, files = found[index]
        for file in reversed(files):
            before = gtids_before(subdir.path / file, executed.flavor)
            if before is None or not _contains(executed, before):
                continue
            if file == files[0] and index:
                # The first file of another server was requested by GTID set: it lacks what the former server had sent.
                had = _sent(found[index - 1][0], executed.flavor)
                if had is None or not _contains(executed, had):
                    continue
                before.update(had)  # type: ignore[arg-type]
            return ReadStart(subdir, file, len(c.MAGIC), before)
    return None


def _readable(relay: RelayDir, end: RelayLogEnd) -> list[tuple[SubDir, list[str]]]:
    """The sub-folders in order with their files, without files after ``end``."""
    found = []
    for subdir in relay.subdirs():
        files = subdir.files()
        if subdir.name == end.subdir:
            found.append((subdir, [file for file in files if file_number(file) <= file_number(end.file)]))
            break
        found.append((subdir, files))
    return found


def _sent(former: SubDir, flavor: str) -> GTIDSet | None:
    """The GTID set of everything from ``former``'s server and the servers before it."""
    meta = former.meta()
    return parse_gtid_set(meta.binlog_gtid, flavor) if meta is not None else None


def _contains(whole: GTIDSet, part: GTIDSet) -> bool:
    return whole.contains(part)  # type: ignore[arg-type]


def gtids_before(path: Path, flavor: str) -> GTIDSet | None:
    """The GTID set in the head of a binlog file; None when it has none (yet). Raises 11071 and 11027."""
    framer = FileFramer(file=path.name)
    for piece in _head(path):
        framer.feed(piece)
        while events := framer.split(1):
            if events[0].type in _GTID_LISTS:
                found = parse_previous_gtids(events[0], path.name)
                return found if found.flavor == flavor else None
            if events[0].type != c.FORMAT_DESCRIPTION_EVENT:
                return None
    return None


def _head(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            if file.read(len(c.MAGIC)) != c.MAGIC:
                return
            for _ in range(_PIECES):
                piece = file.read(_PIECE)
                if not piece:
                    return
                yield piece
    except FileNotFoundError:
        # Purged a moment ago.
        return


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
