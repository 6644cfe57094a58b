"""Our code for executors on other machines: one archive that Spark unpacks next to each executor."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from pyspark import SparkContext

#: The folder that contains ``dm_worker`` and ``pkg``.
_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("dm_worker", "pkg")
#: The name of the unpacked archive in the executor's own folder.
_UNPACKED = "dm-code"


def source_paths(python_path: str) -> list[str]:
    """The import paths of tasks on this machine: those of the driver itself."""
    return list(dict.fromkeys([str(_ROOT), *filter(None, python_path.split(os.pathsep))]))


def pack_code(archive: Path) -> Path:
    """Writes our packages, with the data that they read, into the zip file ``archive``.

    The archive includes the compiled kernel: an executor of another platform or Python version does not find it under
    the file name that it expects, and uses the Python code.
    """
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for package in _PACKAGES:
            for pattern in ("*.py", "*.so", "*.bin"):
                for source in sorted((_ROOT / package).rglob(pattern)):
                    out.write(source, source.relative_to(_ROOT))
    return archive


def ship_code(context: SparkContext, folder: Path) -> None:
    """Makes every executor, also a later one, unpack our code and import it from there.

    Not ``addPyFile``: Python imports no compiled module from within a zip file.
    """
    archive = pack_code(folder / "dm-code.zip")
    context.addArchive(f"{archive}#{_UNPACKED}")
    assert context._python_includes is not None
    context._python_includes.append(_UNPACKED)
