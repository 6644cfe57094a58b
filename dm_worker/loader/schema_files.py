"""The schema files of a dump: one CREATE statement each."""

from __future__ import annotations

from pathlib import Path

from dm_worker.dumper.file_names import DumpFile
from dm_worker.loader.sql_file import first_statement
from pkg import errors
from pkg.errors import Code


def create_statement(folder: Path, file: DumpFile) -> str:
    """The CREATE statement of a schema file. Raises DMError 34005 for one that cannot be read or has none."""
    try:
        text = first_statement((folder / file.name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise _unreadable(folder, file, str(exc)) from exc
    if not text:
        raise _unreadable(folder, file, "it has no CREATE statement")
    return text


def _unreadable(folder: Path, file: DumpFile, why: str) -> errors.DMError:
    return errors.new(
        Code.LoadUnitReadSchemaFile,
        f"cannot use schema file {folder / file.name}: {why}",
        workaround="Check the file, or dump again.",
    )
