"""The ``metadata`` file of a dump: the binlog position of its snapshot."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from dm_worker.dumper.file_names import METADATA
from pkg import errors
from pkg.binlog.position import Location, Position, stored_identity
from pkg.config.model import SubTaskConfig
from pkg.errors import Code

_TIME = "%Y-%m-%d %H:%M:%S"
_STATUS = "SHOW MASTER STATUS:"
_FILE = "Binlog file:"
_AFTER = "SHOW MASTER STATUS: /* AFTER CONNECTION POOL ESTABLISHED */"


@dataclass(frozen=True, slots=True)
class DumpMetadata:
    """``location`` is the snapshot's position. The rows of a dump without locks are from between ``location`` and
    ``exit_location``; replication must be in safe mode until there. ``finished``: when a complete dump ended."""

    location: Location | None
    exit_location: Location | None = None
    started: str = ""
    finished: str = ""


def dump_dir(cfg: SubTaskConfig) -> Path:
    """The folder of the task's dump: ``<dir>.<task>``, or ``<dir>`` itself where the files come from elsewhere."""
    if cfg.task_mode in ("load", "load&sync"):
        return Path(cfg.loader.dir)
    return Path(f"{cfg.loader.dir.rstrip('/')}.{cfg.name}")


def render(metadata: DumpMetadata) -> str:
    lines = [f"Started dump at: {metadata.started}"]
    for title, location in ((_STATUS, metadata.location), (_AFTER, metadata.exit_location)):
        if location is not None:
            position = location.position
            lines += [title, f"\tLog: {position.name}", f"\tPos: {position.pos}", f"\tGTID: {location.gtid_set}", ""]
    lines.append(f"Finished dump at: {metadata.finished}")
    if metadata.location is not None and metadata.location.file is not None:
        # Our addition; other readers, and earlier versions of this one, ignore what follows the end.
        lines.append(f"{_FILE} {metadata.location.file.stored()}")
    return "\n".join(lines) + "\n"


def write_metadata(folder: Path, metadata: DumpMetadata) -> None:
    """Writes the file that declares a dump complete; it appears complete or not at all."""
    temporary = folder / f"{METADATA}.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(render(metadata))
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / METADATA)


def parse_metadata(text: str, path: str) -> DumpMetadata:
    """Reads dumpling's and mydumper's classic form. Raises DMError 11001 for text that is neither."""
    started = finished = identity = ""
    blocks: list[dict[str, str]] = []
    block: dict[str, str] | None = None
    key = ""
    for line in text.splitlines():
        word = line.strip()
        if word.startswith("Started dump at:"):
            started = word.partition(":")[2].strip()
        elif word.startswith("Finished dump at:"):
            finished, block = word.partition(":")[2].strip(), None
        elif word.startswith(_FILE):
            identity = word.removeprefix(_FILE).strip()
        elif word.startswith("SHOW MASTER STATUS:"):
            block = {}
            blocks.append(block)
        elif word.startswith("SHOW SLAVE STATUS:"):
            block = None  # we cannot read from the replica's own source
        elif block is not None and word:
            key = _read_line(block, word, key, path)
    locations = [_location(entry, path) for entry in blocks[:2]]
    if not blocks and not started:
        raise _malformed(path, "it has neither a start time nor a master status")
    here = locations[0] if locations else None
    if here is not None:
        here = replace(here, file=stored_identity(identity, here.position.name))
    return DumpMetadata(here, locations[1] if len(locations) > 1 else None, started, finished)


def _read_line(block: dict[str, str], word: str, key: str, path: str) -> str:
    name, _, value = word.partition(":")
    if name in ("Log", "Pos", "GTID"):
        block[name] = value.strip()
        return name
    if key != "GTID":
        raise _malformed(path, f"unexpected line {word!r}")
    block[key] += word  # MySQL prints long GTID sets on several lines
    return key


def _location(entry: dict[str, str], path: str) -> Location:
    name, pos = entry.get("Log", ""), entry.get("Pos", "")
    if not name or not pos.isdigit():
        raise _malformed(path, "its master status has no Log and Pos")
    return Location(Position(name, int(pos)), entry.get("GTID", ""))


def _malformed(path: str, why: str) -> errors.DMError:
    return errors.new(
        Code.ParseMydumperMeta,
        f"cannot read the dump's metadata {path}: {why}",
        workaround="Use the metadata file as dumpling or mydumper wrote it, or dump again.",
    )


def read_dump_metadata(folder: Path) -> DumpMetadata:
    """The whole metadata. Raises DMError 11001 when the file is missing or malformed."""
    path = folder / METADATA
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise errors.new(
            Code.ParseMydumperMeta,
            f"cannot read the dump's metadata {path}",
            raw=exc,
            workaround="Check that the dump finished and that `dir` of loaders names its folder on this worker.",
        ) from exc
    return parse_metadata(text, str(path))


def now_text() -> str:
    return datetime.now().strftime(_TIME)
