"""Restores the last whole transaction after a crash: the files decide, ``relay.meta`` only helps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from dm_worker.relay.atomic_files import sync_folder
from dm_worker.relay.layout import RelayMeta, SubDir
from dm_worker.relay.scan import CRC_RESIDUE, scan
from dm_worker.relay.stream_follower import FileAction, StreamFollower
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.gtid import GTIDSet, parse_gtid_set
from pkg.binlog.position import file_number
from pkg.binlog.streams.framing import RawFramer
from pkg.errors import Code
from pkg.process.log import get_logger

log = get_logger(__name__)

_PIECE = 4 << 20


def recover(subdir: SubDir, *, flavor: str, base: str = "") -> StreamFollower:
    """Cuts the last file of ``subdir`` after its last whole, undamaged transaction; returns a follower at that end.

    A file without a whole transaction is removed, and the one before it becomes the last. ``base`` is
    the GTID set at the start of the sub-folder. The executed set is derived from the file itself (its list of earlier
    GTIDs and its transactions), ``base``, and ``relay.meta`` where that is not ahead of the file.

    Raises 30025 when a file can't be read or cut, 11093 or 11095 for a base or a file with another server's GTIDs.
    """
    try:
        follower = _last_file(subdir, flavor)
    except OSError as exc:
        raise errors.new(
            Code.RelayWriterFileOperate,
            f"the relay log in {subdir.path} can't be recovered: {exc}",
            raw=exc,
            workaround="Check the folder's file system and its permissions; then resume-relay.",
        ) from exc
    _join(follower.gtids, base, flavor)
    meta = _readable_meta(subdir)
    if meta is not None and _is_covered(meta, follower):
        _join(follower.gtids, meta.binlog_gtid, flavor)
    return follower


def _last_file(subdir: SubDir, flavor: str) -> StreamFollower:
    for name in reversed(subdir.files()):
        path = subdir.path / name
        follower, why = examine(path, flavor)
        size = path.stat().st_size
        if follower.begun:
            if size > follower.boundary:
                log.warning("cutting the relay log", file=str(path), size=size, to=follower.boundary, reason=why)
                _cut(path, follower.boundary)
            return follower
        log.warning("removing a relay log file without a complete event", file=str(path), size=size, reason=why)
        path.unlink()
        sync_folder(subdir.path)
    return StreamFollower(flavor=flavor)


def examine(path: Path, flavor: str) -> tuple[StreamFollower, str]:
    """Follows a file to its last whole transaction; the text says why it stops there ('' at the file's end).

    The follower's boundary is 0 when the file holds no whole transaction. Raises ``OSError``.
    """
    follower = StreamFollower(flavor=flavor)
    follower.reading(path.name)
    try:
        for _ in _followed(path, follower):
            pass
    except errors.DMError as exc:
        why = exc.message
        if exc.kind is Code.BinlogExpectFormatDescEv:
            follower = StreamFollower(flavor=flavor)
    else:
        why = "" if follower.boundary == follower.size else "its last transaction is incomplete"
    follower.connected(0)
    return follower, why


def _followed(path: Path, follower: StreamFollower) -> Iterator[None]:
    """Follows event after event; raises DMError before a torn or damaged one."""
    framer = RawFramer(checksummed=False, file=path.name)
    with path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size - len(c.MAGIC)
        if file.read(len(c.MAGIC)) != c.MAGIC:
            raise errors.new(Code.BinlogFileNotValid, "it does not begin like a binlog file")
        raw, pos = b"", 0
        while True:
            if follower.flowing:
                found = scan(raw, pos, False, follower.checksummed, follower.size, *follower.open)
                follower.scanned(found, found.pos - pos)
                pos = found.pos
            needed = _event_size(raw, pos)
            have = len(raw) - pos
            if have < needed:
                if needed - have > left:
                    if have or left:
                        raise errors.new(
                            Code.BinlogParseSingleEv, f"it ends inside the event at offset {follower.size}"
                        )
                    return
                piece = file.read(max(min(_PIECE, left), needed - have))
                left -= len(piece)
                raw, pos = raw[pos:] + piece, 0
                continue
            _one(framer.finish(raw[pos : pos + needed]).data, follower)
            pos += needed
            yield


def _event_size(raw: bytes, pos: int) -> int:
    """The size of the event at ``pos``; the size of a header until the header is read."""
    if len(raw) - pos < c.HEADER_SIZE:
        return c.HEADER_SIZE
    return max(int.from_bytes(raw[pos + 9 : pos + 13], "little"), c.HEADER_SIZE)


def _one(whole: bytes, follower: StreamFollower) -> None:
    """Follows an event that the scan did not take. An unexpected event is damage."""
    at = max(follower.size, len(c.MAGIC))
    if int.from_bytes(whole[13:17], "little") not in (0, (at + len(whole)) & 0xFFFFFFFF):
        raise errors.new(Code.BinlogParseSingleEv, f"the end position in the event at offset {at} is wrong")
    if whole[4] != c.FORMAT_DESCRIPTION_EVENT and not follower.checksummed and crc32(whole) == CRC_RESIDUE:
        # Without checksums, nothing else shows that the checksum flag of FORMAT_DESCRIPTION was damaged.
        raise errors.new(
            Code.BinlogExpectFormatDescEv, "events have checksums, but FORMAT_DESCRIPTION says that they have none"
        )
    if follower.event(whole).action is FileAction.SKIP:
        raise errors.new(
            Code.BinlogParseSingleEv, f"the event at offset {at} is of a type that binlog files do not contain"
        )


def _cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def _readable_meta(subdir: SubDir) -> RelayMeta | None:
    try:
        return subdir.meta()
    except errors.DMError as exc:
        log.warning("continuing without relay.meta", error=str(exc))
        return None


def _is_covered(meta: RelayMeta, follower: StreamFollower) -> bool:
    """Whether the files contain everything that ``relay.meta`` counts."""
    if not meta.binlog_name or not follower.file:
        return not meta.binlog_name
    here, there = file_number(follower.file), file_number(meta.binlog_name)
    return (there, meta.binlog_pos) <= (here, follower.boundary)


def _join(gtids: GTIDSet, text: str, flavor: str) -> None:
    if text:
        gtids.update(parse_gtid_set(text, flavor))  # type: ignore[arg-type]
