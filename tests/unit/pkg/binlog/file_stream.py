"""Binlog files on disk as a stream: the same events that the server would send."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.events import Event
from pkg.binlog.streams.framing import FileFramer
from pkg.binlog.streams.stream import RawScan, aborted, encrypted
from pkg.errors import Code

_PIECE = 1 << 20
_ENCRYPTED_MAGIC = b"\xfdbin"


class FileStream:
    """Reads one binlog file from ``offset`` on; keeps the :class:`BinlogStream` protocol.

    The FORMAT_DESCRIPTION at the file's start is always read and returned first, for it says how to read the rest.
    At the end of the file :meth:`read` raises 11122; a torn last event raises 11071 with the place.
    """

    def __init__(self, path: Path, offset: int = 4) -> None:
        """Raises 11027 when the file can't be read or is no plain binlog file."""
        self._path = path
        self._start = offset
        self._open = True
        self._file = self._opened(path)
        self._framer = FileFramer(file=path.name)
        self._positioned = offset <= 4
        #: The FORMAT_DESCRIPTION is read.
        self._described = False

    def _opened(self, path: Path) -> IO[bytes]:
        try:
            file = path.open("rb")
            magic = file.read(len(c.MAGIC))
        except OSError as exc:
            raise errors.new(Code.BinlogFileNotValid, f"binlog file {path} can't be read", raw=exc) from exc
        if magic != c.MAGIC:
            file.close()
            if magic == _ENCRYPTED_MAGIC:
                raise encrypted(str(path))
            raise errors.new(Code.BinlogFileNotValid, f"{path} does not begin like a binlog file")
        return file

    @property
    def file(self) -> str:
        return self._framer.file

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        """See :meth:`BinlogStream.read`; a file never makes it wait, so ``timeout`` does not matter."""
        while self._open:
            if scan is not None and self._positioned and self._described:
                if self._framer.scan(scan):
                    return []
                # One at a time: after it the scan may go on.
                max_bytes = 1
            if not self._positioned:
                events = self._framer.split(1)
                if events:
                    self._seek()
                    return events
            elif events := self._framer.split(max_bytes):
                self._described = True
                return events
            piece = self._file.read(max(_PIECE if self._positioned else 1, self._framer.needed))
            if not piece:
                raise self._end()
            self._framer.feed(piece)
        raise aborted()

    def _seek(self) -> None:
        self._positioned = self._described = True
        self._file.seek(self._start)
        checksummed = self._framer.checksummed
        self._framer = FileFramer(file=self._framer.file, offset=self._start)
        self._framer.checksummed = checksummed

    def _end(self) -> errors.DMError:
        if self._framer.pending:
            return errors.new(
                Code.BinlogParseSingleEv,
                f"the event at offset {self._framer.offset} of {self._path} is incomplete: the file ends after "
                f"{self._framer.pending} of its bytes",
                workaround="The file was not written completely. Truncate it at this offset, or fetch it again.",
            )
        return errors.new(Code.ReaderReachEndOfFile, f"end of {self._path}")

    def close(self) -> None:
        self._open = False
        self._file.close()

    def abort(self) -> None:
        self._open = False
