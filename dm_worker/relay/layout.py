"""The layout of the relay log on disk, as in DM::

    <relay-dir>/server-uuid.index                the sub-folders in order, one per line
    <relay-dir>/<server-uuid>.000001/            what one upstream server sent, until the next one replaced it
    <relay-dir>/<server-uuid>.000001/relay.meta  its complete end (TOML)
    <relay-dir>/<server-uuid>.000001/mysql-bin.000001 …

MariaDB has no server UUID: its sub-folders are named ``<domain id>-<server id>``.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from dm_worker.relay.atomic_files import PENDING, replace_file, sync_folder
from pkg import errors
from pkg.binlog.position import file_number
from pkg.errors import Code
from pkg.errors.workarounds import Advice

INDEX = "server-uuid.index"
META = "relay.meta"
#: Names the source whose relay log the folder holds.
OWNER = "source-id"
_BINLOG = re.compile(r"^.+\.\d+$")
_SUFFIX = re.compile(r"^\d{6,}$")


@dataclass(frozen=True, slots=True)
class RelayMeta:
    """The complete end of a sub-folder: the end of a transaction. ``binlog_gtid`` is the set executed there."""

    binlog_name: str
    binlog_pos: int
    binlog_gtid: str

    def to_toml(self) -> str:
        return (
            f'binlog-name = "{self.binlog_name}"\nbinlog-pos = {self.binlog_pos}\nbinlog-gtid = "{self.binlog_gtid}"\n'
        )


@dataclass(frozen=True, slots=True)
class SubDir:
    """``<uuid>.<suffix>``: the files of one upstream server."""

    name: str
    path: Path
    suffix: int
    uuid: str

    def files(self) -> list[str]:
        """The binlog files in order; [] when the folder is gone."""
        try:
            found = [entry.name for entry in self.path.iterdir() if _BINLOG.match(entry.name)]
        except FileNotFoundError:
            return []
        return sorted(found, key=file_number)

    def meta(self) -> RelayMeta | None:
        """The content of ``relay.meta``, None when there is none. Raises 30003 for one that can't be understood."""
        path = self.path / META
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
            return RelayMeta(str(found["binlog-name"]), int(found["binlog-pos"]), str(found["binlog-gtid"]))
        except FileNotFoundError:
            return None
        except (OSError, KeyError, ValueError) as exc:
            raise errors.new(
                Code.RelayLoadMetaData,
                f"{path} can't be read: {exc}",
                raw=exc,
                workaround="Remove this file: it is created again from the binlog files in its folder.",
            ) from exc

    def save_meta(self, meta: RelayMeta) -> None:
        """Replaces ``relay.meta``. Raises ``OSError``."""
        replace_file(self.path / META, meta.to_toml())


@dataclass(frozen=True, slots=True)
class RelayDir:
    """The relay folder of one source."""

    path: Path

    def subdirs(self) -> list[SubDir]:
        """The sub-folders in the order of the index. Raises 28001 and 28002 for a damaged index."""
        index = self.path / INDEX
        try:
            text = index.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as exc:
            raise errors.new(
                Code.RelayParseUUIDIndex, f"{index} can't be read: {exc}", raw=exc, workaround=Advice.FETCH_RELAY_AGAIN
            ) from exc
        found = [self._subdir(line.strip(), number) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        for earlier, later in pairwise(found):
            if later.suffix <= earlier.suffix:
                raise errors.new(
                    Code.RelayUUIDSuffixLessThanPrev,
                    f"{index}: {later.name} comes after {earlier.name}",
                    workaround=Advice.FETCH_RELAY_AGAIN,
                )
        return found

    def _subdir(self, name: str, line: int) -> SubDir:
        uuid, dot, suffix = name.rpartition(".")
        if not dot or not uuid or "/" in uuid or not _SUFFIX.match(suffix):
            raise errors.new(
                Code.RelayParseUUIDSuffix,
                f"{self.path / INDEX}:{line}: {name!r} is not the name of a sub-folder such as <server-uuid>.000001",
                workaround=Advice.FETCH_RELAY_AGAIN,
            )
        return SubDir(name, self.path / name, int(suffix), uuid)

    def current(self) -> SubDir | None:
        """The sub-folder that is written to; None before the first. Raises as :meth:`subdirs`."""
        found = self.subdirs()
        return found[-1] if found else None

    def create_subdir(self, uuid: str, meta: RelayMeta) -> SubDir:
        """Creates the next sub-folder, for server ``uuid``, and then adds it to the index. Raises ``OSError``."""
        known = self.subdirs()
        suffix = known[-1].suffix + 1 if known else 1
        name = f"{uuid}.{suffix:06d}"
        subdir = SubDir(name, self.path / name, suffix, uuid)
        if subdir.path.exists():
            # Created by a process that died before it wrote the index.
            shutil.rmtree(subdir.path)
        subdir.path.mkdir(parents=True)
        subdir.save_meta(meta)
        self._write_index([*known, subdir])
        return subdir

    def forget(self, gone: SubDir) -> None:
        """Removes a sub-folder from the index, and then from the disk. Raises ``OSError``."""
        self._write_index([known for known in self.subdirs() if known.name != gone.name])
        shutil.rmtree(gone.path)

    def owner(self) -> str:
        """The source of this relay log; '' when the folder does not record it. Raises ``OSError``."""
        try:
            return (self.path / OWNER).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""

    def own(self, source: str) -> None:
        """Creates the folder if it is missing, and records the source. Raises ``OSError``."""
        if self.owner() != source:
            self.path.mkdir(parents=True, exist_ok=True)
            replace_file(self.path / OWNER, source)

    def entries(self) -> list[Path]:
        """Everything in the folder except the file that names the source. Raises ``OSError``."""
        try:
            found = sorted(self.path.iterdir())
        except FileNotFoundError:
            return []
        return [path for path in found if path.name not in (OWNER, OWNER + PENDING)]

    def clear(self) -> None:
        """Removes everything except the file that names the former source, so that an interrupted removal is noticed.

        Raises ``OSError``.
        """
        for path in self.entries():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _write_index(self, subdirs: list[SubDir]) -> None:
        replace_file(self.path / INDEX, "".join(f"{subdir.name}\n" for subdir in subdirs))
        sync_folder(self.path)
