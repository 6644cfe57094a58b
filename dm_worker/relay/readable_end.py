"""How far the relay log may be read: the writer moves the end, readers wait for it without polling."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple


class RelayLogEnd(NamedTuple):
    """An end of the relay log: ``size`` bytes of ``file`` in ``subdir``."""

    subdir: str
    file: str
    size: int


class ReadableEnd:
    """The readable end of one source's relay log. Thread-safe; one writer, any number of readers.

    It moves only over whole transactions, and what is before it never changes: what is cut off after a lost
    connection or a switch of the upstream was never readable. Files before the current one are complete.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._end: RelayLogEnd | None = None

    def moved(self, subdir: str, file: str, size: int) -> None:
        """For the writer: ``file`` can be read up to ``size``, and every file before it to its end."""
        with self._changed:
            self._end = RelayLogEnd(subdir, file, size)
            self._changed.notify_all()

    def end(self) -> RelayLogEnd | None:
        """The current end; None until the writer has recovered the files."""
        with self._changed:
            return self._end

    def wake(self) -> None:
        """Lets all readers look whether they should still wait."""
        with self._changed:
            self._changed.notify_all()

    def wait(
        self, subdir: str, file: str, beyond: int, timeout: float, ended: Callable[[], bool] = lambda: False
    ) -> int:
        """The readable size of ``file`` once it exceeds ``beyond``; the current size after ``timeout`` seconds, or
        at a :meth:`wake` after which ``ended`` is true.

        -1 when the file is complete and a next one exists, in this sub-folder or a later one: then read to the end
        of the file on disk and continue with the next one. 0 after ``timeout`` if the writer has not recovered the
        files yet.
        """
        with self._changed:
            self._changed.wait_for(lambda: ended() or self._known(subdir, file, beyond), timeout)
            end = self._end
            if end is None:
                return 0
            return end.size if (end.subdir, end.file) == (subdir, file) else -1

    def _known(self, subdir: str, file: str, beyond: int) -> bool:
        end = self._end
        return end is not None and ((end.subdir, end.file) != (subdir, file) or end.size > beyond)
