"""Which files of the relay log may be removed: pure decisions first, then the shell that removes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from dm_worker.relay.layout import RelayDir
from pkg import errors
from pkg.binlog.position import file_number
from pkg.errors import Code
from pkg.process.log import get_logger

log = get_logger(__name__)

_HOUR = 3600.0
_GB = 1 << 30


class NeededFile(NamedTuple):
    """A file of the relay log that a subtask or dump still reads, or will read."""

    subdir: str
    file: str


class RelayFile(NamedTuple):
    """``modified``: seconds since the epoch."""

    subdir: str
    file: str
    size: int
    modified: float


def removable(files: Sequence[RelayFile], needed: Sequence[NeededFile]) -> list[RelayFile]:
    """The files before every needed one; none when no needed file is known.

    A needed file in an unknown sub-folder keeps everything, because its position in the order is unknown.
    """
    if not needed:
        return []
    order = {name: number for number, name in enumerate(dict.fromkeys(file.subdir for file in files))}
    if any(file.subdir not in order for file in needed):
        return []
    first = min((order[file.subdir], file_number(file.file)) for file in needed)
    return [file for file in files if (order[file.subdir], file_number(file.file)) < first]


def expired(files: Sequence[RelayFile], now: float, hours: float) -> list[RelayFile]:
    """The oldest files, while their last write was more than ``hours`` ago; with 0 hours none."""
    found: list[RelayFile] = []
    for file in files:
        if not hours or file.modified >= now - hours * _HOUR:
            break
        found.append(file)
    return found


def in_excess(files: Sequence[RelayFile], available: int, remain: int) -> list[RelayFile]:
    """The oldest files to remove until ``remain`` bytes are available."""
    found: list[RelayFile] = []
    for file in files:
        if available >= remain:
            break
        found.append(file)
        available += file.size
    return found


class FilesBefore(NamedTuple):
    """The files before a named file. ``known``: the relay log has this file."""

    files: list[RelayFile]
    known: bool


def before(files: Sequence[RelayFile], subdir: str, file: str) -> FilesBefore:
    """The files before ``file``; without ``subdir``, of the newest sub-folder that has it.

    The number decides the position of a missing file, such as one that the relay has not fetched yet: in ``subdir``,
    or in the newest sub-folder. Raises 30042 where the number does not decide it.
    """
    numbers = [number for number, known in enumerate(files) if known.file == file and subdir in ("", known.subdir)]
    if numbers:
        return FilesBefore(list(files[: numbers[-1]]), known=True)
    folder = subdir or (files[-1].subdir if files else "")
    mates = [number for number, known in enumerate(files) if known.subdir == folder and _alike(known.file, file)]
    if not mates:
        where = f"sub-folder {subdir}" if subdir else "the relay log"
        raise errors.new(
            Code.RelayPurgeArgsNotValid,
            f"{where} has no file {file}",
            workaround="Name a file that query-status shows, or one in the source's relay folder.",
        )
    wanted = file_number(file)
    first = next((number for number in mates if file_number(files[number].file) > wanted), mates[-1] + 1)
    return FilesBefore(list(files[:first]), known=False)


def _alike(known: str, file: str) -> bool:
    """Whether the name of ``file`` is that of a binlog file of the same server, so that the numbers give the order."""
    (base, _, _), (wanted, _, digits) = known.rpartition("."), file.rpartition(".")
    return base == wanted and digits.isdigit()


class Purger:
    """Removes files of one source's relay log.

    ``needed`` returns the files that subtasks and dumps still need, and the file being written; ``space`` the free
    bytes of the disk; ``now`` the time.
    """

    def __init__(
        self,
        folder: RelayDir,
        needed: Callable[[], Sequence[NeededFile]],
        *,
        space: Callable[[], int],
        now: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._needed = needed
        self._space = space
        self._now = now

    def regularly(self, *, expires: float, remain_space: int) -> int:
        """Purges by free space (GB) first and then by age (hours), as in DM. Returns the number of removed files."""
        with self._disk():
            files = self._removable()
            count = self._remove(in_excess(files, self._space(), remain_space * _GB))
            return count + self._remove(expired(files[count:], self._now(), expires))

    def up_to(self, file: str, subdir: str = "") -> int:
        """Removes the files before ``file``. For a missing file, as in DM, only those that are not needed; else
        raises 30042 for one that is still needed, or whose position is unknown."""
        with self._disk():
            everything = list(self._files())
            wanted, known = before(everything, subdir, file)
            free = set(removable(everything, self._needed()))
            if not known:
                log.warning("the relay log does not have the file; what nothing needs before it is purged", file=file)
                return self._remove([one for one in wanted if one in free])
            for kept in wanted:
                if kept not in free:
                    raise errors.new(
                        Code.RelayPurgeArgsNotValid,
                        f"{kept.subdir}/{kept.file} before {file} is still needed",
                        workaround="Name an earlier file, or wait until the source's tasks have read past it.",
                    )
            return self._remove(wanted)

    def older_than(self, moment: float) -> int:
        """Removes files last written before ``moment`` (seconds since the epoch) that are not needed."""
        with self._disk():
            return self._remove([file for file in self._removable() if file.modified < moment])

    def unneeded(self) -> int:
        """Removes every file that is not needed."""
        with self._disk():
            return self._remove(self._removable())

    def _removable(self) -> list[RelayFile]:
        return removable(list(self._files()), self._needed())

    def _files(self) -> Iterator[RelayFile]:
        for subdir in self._folder.subdirs():
            for name in subdir.files():
                found = (subdir.path / name).stat()
                yield RelayFile(subdir.name, name, found.st_size, found.st_mtime)

    def _remove(self, files: Sequence[RelayFile]) -> int:
        """Removes the oldest first, so that a failure leaves no gap. Empty sub-folders are removed too."""
        for file in files:
            (self._folder.path / file.subdir / file.file).unlink()
            log.info("relay log file purged", subdir=file.subdir, file=file.file, size=file.size)
        for subdir in self._folder.subdirs()[:-1] if files else []:
            if not subdir.files():
                log.info("will try purge whole relay dir: it has no files left", subdir=subdir.name)
                self._folder.forget(subdir)
        return len(files)

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """Turns disk errors into 30041."""
        try:
            yield
        except OSError as exc:
            raise errors.new(
                Code.RelayRemoveFileFail,
                f"the relay log in {self._folder.path} can't be purged: {exc}",
                raw=exc,
                workaround="Check the disk and the permissions of the source's relay folder.",
            ) from exc
