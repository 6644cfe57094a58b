"""The interface of a stream of binlog events: from a live server, from files, or from the relay log."""

from __future__ import annotations

from typing import Protocol

from pkg import errors
from pkg.binlog.events import Event
from pkg.errors import Code


class RawScan(Protocol):
    """Takes complete events from ``raw`` at ``pos`` on and returns the offset after them.

    With ``packets`` each event follows a packet's header and status byte; with ``checksummed`` a CRC32 ends it, which
    the scan verifies. It takes no event that spans packets, no ROTATE and no FORMAT_DESCRIPTION.
    """

    def __call__(self, raw: bytes, pos: int, packets: bool, checksummed: bool, /) -> int: ...


class BinlogStream(Protocol):
    """Events in order, from a server or from files."""

    @property
    def file(self) -> str:
        """The binlog file of the last event that :meth:`read` returned; before the first, where it was opened."""

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        """At least one event and about ``max_bytes`` at most, or none if ``timeout`` seconds pass first.

        ``scan`` may read the raw bytes instead: if it takes any, the call returns no event. The next call returns what
        it leaves as an event. A stream without raw bytes does not use it.

        Raises a :class:`pkg.errors.DMError` at the end of the stream and for each failure; ``retryable`` says
        whether opening a new stream at the last location may help.
        """

    def close(self) -> None:
        """Releases all resources. May be called twice."""

    def abort(self) -> None:
        """Makes a :meth:`read` in another thread, and all later ones, raise 11041 at once."""


def aborted() -> errors.DMError:
    """The error of a read from an aborted or closed stream."""
    return errors.new(Code.SyncClosed, "the binlog stream was closed")


def encrypted(file: str) -> errors.DMError:
    """The error of a read from an encrypted file. Servers decrypt before they send."""
    return errors.new(
        Code.BinlogFileNotValid, f"{file} is encrypted", workaround="Read it through its server, which decrypts it."
    )
