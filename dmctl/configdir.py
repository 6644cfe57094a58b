"""The folder that ``config export`` writes and ``config import`` reads."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dmctl.failure import CommandError

RELAY_WORKERS = "relay_workers.json"
#: Written in place of a password in exported files.
HIDDEN = "******"
_PASSWORD = re.compile(r"""\bpassword["']?\s*:\s*["']?([A-Za-z0-9+/]{23,}=*)(?=["']?\s*(?:[,}#]|$))""", re.MULTILINE)
#: The byte of a ciphertext after its first 16 bytes.
_SEPARATOR = b"@"


def write_file(path: str | Path, text: str) -> None:
    """Writes a file that only its owner may read. Raises :class:`CommandError` if it can't be written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        raise CommandError(f"can not write config to file {path}: {exc.strerror}") from exc


def export(
    folder: str, tasks: Mapping[str, str], sources: Mapping[str, str], relay_workers: Mapping[str, Sequence[str]]
) -> None:
    """Writes ``tasks/<name>.yaml``, ``sources/<id>.yaml`` and ``relay_workers.json`` under ``folder``."""
    root = Path(folder)
    for kind, files in (("tasks", tasks), ("sources", sources)):
        try:
            (root / kind).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise CommandError(f"can not create directory {root / kind}: {exc.strerror}") from exc
        for name, text in sorted(files.items()):
            write_file(root / kind / f"{name}.yaml", text)
    write_file(
        root / RELAY_WORKERS, json.dumps({source: list(names) for source, names in relay_workers.items()}) + "\n"
    )


def read(folder: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(file, text) of the sources and of the tasks in ``folder``.

    Raises :class:`CommandError` for a folder without them, and for files whose passwords were hidden at export: the
    operator must fill them in first.
    """
    root = Path(folder)
    found: list[list[tuple[str, str]]] = []
    for kind in ("sources", "tasks"):
        paths = sorted((root / kind).glob("*.yaml"))
        found.append([(str(path), path.read_text(encoding="utf-8")) for path in paths])
    sources, tasks = found
    if not sources and not tasks:
        raise CommandError(f"there are no files in {root / 'sources'} and {root / 'tasks'}")
    hidden = [path for path, text in sources + tasks if HIDDEN in text]
    if hidden:
        raise CommandError(f"passwords are hidden ({HIDDEN}) in {', '.join(hidden)}: fill them in, then import again")
    return sources, tasks


def is_sealed(text: str) -> bool:
    """Whether a file contains an encrypted password."""
    return any(_is_ciphertext(found) for found in _PASSWORD.findall(text))


def _is_ciphertext(text: str) -> bool:
    try:
        return base64.b64decode(text, validate=True)[16:17] == _SEPARATOR
    except ValueError:
        return False


def relay_workers(folder: str) -> dict[str, list[str]]:
    """The workers that pulled each source's relay log at the export, by source; {} without that file."""
    path = Path(folder) / RELAY_WORKERS
    try:
        found = json.loads(path.read_text(encoding="utf-8") or "{}") or {}
        return {str(source): [str(name) for name in names] for source, names in sorted(found.items())}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as exc:
        raise CommandError(f"can not read {path}: {exc}") from exc
