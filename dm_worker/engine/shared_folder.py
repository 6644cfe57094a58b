"""The dump's folder on a Spark cluster: every executor proves that it shares the folder with this worker.

Checked before anything is dumped or loaded: otherwise parts of the dump could silently be written to a folder of the
same name on another machine's own disk.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from pyspark import SparkContext

from pkg import errors
from pkg.errors import Code, DMError

#: The number of a dump's files that each executor checks.
_FILES = 100

#: Host, name of the proof file, and the problem there ('' for none).
FolderProof = tuple[str, str, str]


def check_writable(context: SparkContext, folder: Path, tasks: int) -> None:
    """Each of ``tasks`` tasks reads a file that is created here, and creates one that is checked here.

    Raises DMError 32001 with the name of the executor that cannot.
    """
    token = secrets.token_hex(8)
    challenge = folder / f".dm-shared-{token}"
    challenge.write_text(token, encoding="ascii")
    try:
        work = partial(_answer_challenge, str(folder.absolute()), token)
        for host, proof, problem in context.parallelize(range(tasks), tasks).mapPartitions(work).collect():
            if not problem and not (folder / proof).exists():
                problem = "this worker does not see what the executor writes there"
            if problem:
                raise _not_shared(folder, host, problem)
    finally:
        for path in folder.glob(f"{challenge.name}*"):
            path.unlink(missing_ok=True)


def _answer_challenge(folder: str, token: str, _partition: Iterable[int]) -> Iterator[FolderProof]:
    host, proof = socket.gethostname(), f".dm-shared-{token}-{secrets.token_hex(8)}"
    try:
        if (Path(folder) / f".dm-shared-{token}").read_text(encoding="ascii") != token:
            yield host, proof, "the executor sees other content there"
            return
        (Path(folder) / proof).touch()
    except OSError as exc:
        yield host, proof, str(exc)
        return
    yield host, proof, ""


def check_readable(context: SparkContext, folder: Path, sizes: Mapping[str, int], tasks: int) -> None:
    """Each of ``tasks`` tasks finds files of this worker's dump, by name and bytes; some of them, if they are many.

    Raises DMError 32001 with the name of the executor that does not.
    """
    step = max(1, len(sizes) // _FILES)
    sample = dict(list(sizes.items())[::step])
    work = partial(_find_files, str(folder.absolute()), sample)
    for host, _, problem in context.parallelize(range(tasks), tasks).mapPartitions(work).collect():
        if problem:
            raise _not_shared(folder, host, problem)


def _find_files(folder: str, sizes: Mapping[str, int], _partition: Iterable[int]) -> Iterator[FolderProof]:
    host = socket.gethostname()
    for name, size in sizes.items():
        try:
            found = (Path(folder) / name).stat().st_size
        except OSError as exc:
            yield host, "", str(exc)
            return
        if found != size:
            yield host, "", f"{name} has {found} bytes on the executor and {size} on this worker"
            return
    yield host, "", ""


def _not_shared(folder: Path, host: str, problem: str) -> DMError:
    return errors.new(
        Code.DumpUnitRuntime,
        f"the dump's folder {folder.absolute()} is not the same for the Spark executor on {host}: {problem}",
        workaround="On a Spark cluster, the dump needs a folder that this worker and all executors can write to under "
        "the same path (a network file system). Set `dir` of loaders to such a path, then start the task "
        "again.",
    )
