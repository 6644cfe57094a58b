"""Names of dump files: dumpling's and mydumper's forms. Pure, no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

METADATA = "metadata"
#: Our own record of a dump (config fingerprint, file sizes); the dot in its name separates it from the data.
MANIFEST = ".dm-dump.json"
#: The factor for a chunk number, so that the files of one chunk are sorted after each other.
FILES_PER_CHUNK = 10_000

FileKind = Literal["database", "table", "data", "ignored"]

# dumpling escapes characters that are special to file systems or to its own name pattern.
_UNSAFE = re.compile(r"""[\x00-\x1f%"*./:<>?\\|]|-(?=schema)""", re.IGNORECASE)
#: Objects that are not migrated; their files are recognised and ignored.
_IGNORED_SUFFIXES = ("-schema-view", "-schema-triggers", "-schema-post", "-schema-sequence", "-metadata", "-checksum")


@dataclass(frozen=True, slots=True)
class DumpFile:
    """The parts of a file's name; ``table`` is empty for a database's file."""

    name: str
    kind: FileKind
    schema: str = ""
    table: str = ""


def encode(name: str) -> str:
    """A schema or table name as part of a file name."""
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", name)


def database_file(schema: str) -> str:
    return f"{encode(schema)}-schema-create.sql"


def table_file(schema: str, table: str) -> str:
    return f"{encode(schema)}.{encode(table)}-schema.sql"


def data_file(schema: str, table: str, number: int) -> str:
    return f"{encode(schema)}.{encode(table)}.{number:09d}.sql"


def parse(name: str) -> DumpFile | None:
    """The content of file ``name``; None for a name that no dump tool writes as SQL."""
    if not name.endswith(".sql"):
        return None
    stem = name[: -len(".sql")]
    if stem.endswith(_IGNORED_SUFFIXES):
        return DumpFile(name, "ignored")
    if stem.endswith("-schema-create"):
        return DumpFile(name, "database", unquote(stem[: -len("-schema-create")]))
    if stem.endswith("-schema"):
        parts = stem[: -len("-schema")].split(".")
        return DumpFile(name, "table", unquote(parts[0]), unquote(parts[1])) if len(parts) == 2 else None
    parts = stem.split(".")
    numbered = all(part.isdigit() for part in parts[2:])
    if len(parts) < 2 or len(parts) > 4 or not numbered:
        return None
    return DumpFile(name, "data", unquote(parts[0]), unquote(parts[1]))
