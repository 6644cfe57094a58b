"""The values in a task file's unit blocks that need more than a type and choices. Errors name their location."""

from __future__ import annotations

import re

from pkg.config.dump_arguments import parse_dump_arguments
from pkg.errors import Code, DMError
from pkg.settings.units import parse_duration, parse_size
from pkg.settings.yaml_reader import Section

_MIB = 1024 * 1024
_REMOTE_DIR = re.compile(r"([a-z0-9]+)://", re.IGNORECASE)


def chunk_filesize(section: Section, key: str) -> int | None:
    """Bytes. Raises 20047 for an invalid size."""
    try:
        return parse_size(section.text(key, "64"), _MIB) or None
    except ValueError as exc:
        raise section.error(
            Code.ConfigInvalidChunkFileSize, key, f"{key}: {exc}", 'Write MiB as a number, or "64MiB".'
        ) from None


def extra_args(section: Section, key: str) -> str:
    """Raises 32001 for options that the dumper does not accept."""
    text = section.text(key)
    try:
        parse_dump_arguments(text)
    except DMError as exc:
        raise section.error(exc.kind, key, exc.message, exc.workaround) from None
    return text


def check_import_mode(section: Section, key: str) -> str:
    """Always logical. Raises 20053 for other modes."""
    mode = section.text(key, "logical").lower()
    if mode in ("", "logical", "sql", "loader"):
        return "logical"
    known = mode in ("physical", "import-into")
    raise section.error(
        Code.ConfigInvalidLoadMode,
        key,
        f"{key} {mode!r} is not supported yet" if known else f"{key} {mode!r} is not valid",
        "Set import-mode: logical, or remove the key: rows are loaded by SQL statements, also into TiDB.",
    )


def local_dir(section: Section, key: str) -> str | None:
    """Raises 20058 for a control character, 20059 for other storage."""
    folder = section.text(key)
    remote = _REMOTE_DIR.match(folder)
    if "\0" in folder or "\n" in folder:
        raise section.error(Code.ConfigLoaderDirInvalid, key, f"{key} contains a control character", "Name a folder.")
    if remote is None:
        return folder or None
    if remote[1].lower() in ("file", "local"):
        return folder[remote.end() :] or None
    raise section.error(
        Code.ConfigLoaderS3NotSupport,
        key,
        f"a dump folder on {remote[1]} is not supported yet",
        "Name a local folder.",
    )


def safe_mode_duration(section: Section, key: str) -> float | None:
    """Seconds. Raises 20060."""
    text = section.text(key)
    if not text:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError as exc:
        seconds, problem = -1.0, str(exc)
    else:
        problem = "it is negative"
    if seconds < 0:
        raise section.error(
            Code.ConfigInvalidSafeModeDuration, key, f"{key}: {problem}", "Write a duration such as 60s."
        )
    return seconds


def validation_mode(section: Section, key: str) -> str:
    """Raises 20055 for an unknown value."""
    mode = section.text(key, "none").lower()
    if mode not in ("", "none", "fast", "full"):
        raise section.error(
            Code.ConfigValidationMode, key, f"validation {key} {mode!r} is not valid", "Set none, fast or full."
        )
    return mode or "none"


def pending_size(section: Section, key: str) -> int | None:
    """Bytes. Raises 20003."""
    try:
        return parse_size(section.text(key, "500m")) or None
    except ValueError as exc:
        raise section.error(Code.ConfigYamlTransform, key, f"{key}: {exc}", 'Write a size such as "500m".') from None
