"""What a stream of binlog events is: of a live server, of files, or of the relay log."""

from __future__ import annotations

from typing import Protocol

from pkg import errors
from pkg.binlog.events import Event
from pkg.errors import Code


class RawScan(Protocol):
    """Takes whole events out of ``raw`` from ``pos`` on and returns the position behind those that it took.

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
        """At least one event and about ``max_bytes`` at most, or none when ``timeout`` seconds pass first.

        ``scan`` may be given the raw bytes instead: when it takes any, the call returns no event. What it leaves comes
        as an event of the next call. A stream that has no raw bytes does not use it.

        Raises a :class:`pkg.errors.DMError` at the end of the stream and for every failure; ``retryable`` says
        whether opening a new stream at the last location may help.
        """

    def close(self) -> None:
        """Gives everything back. May be called twice."""

    def abort(self) -> None:
        """Makes a :meth:`read` in another thread, and every later one, raise 11041 at once."""


def aborted() -> errors.DMError:
    """What a read raises once its stream is aborted or closed."""
    return errors.new(Code.SyncClosed, "the binlog stream was closed")


def encrypted(file: str) -> errors.DMError:
    """What reading an encrypted file raises. Servers decrypt what they send."""
    return errors.new(
        Code.BinlogFileNotValid, f"{file} is encrypted", workaround="Read it through its server, which decrypts it."
    )
