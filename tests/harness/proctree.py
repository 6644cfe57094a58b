"""A process's descendants, from /proc: those that a fault test kills, and those that must not be left running."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

#: This program's daemon of the embedded engine, Spark's own elsewhere.
_DAEMON = re.compile(r"-m (dm_worker\.engine\.python_daemon|pyspark\.daemon) ")


def command_of(pid: int) -> str:
    """The command line; '' if the process is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _parents() -> dict[int, int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The command's name is in parentheses and may contain blanks: the fields follow the last parenthesis.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    return parents


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, parents first."""
    parents = _parents()
    found: list[int] = []
    level = [pid]
    while level:
        level = [child for child, parent in parents.items() if parent in level]
        found += level
    return found


def spark_pythons(pid: int) -> list[int]:
    """The Python processes of the Spark that ``pid`` drives: daemons, and the workers that they fork."""
    return [child for child in descendants(pid) if _DAEMON.search(command_of(child))]


def spark_workers(pid: int) -> list[int]:
    """The forked Python workers (not the daemon that forks them) of the Spark that ``pid`` drives."""
    parents = _parents()
    pythons = set(spark_pythons(pid))
    return [child for child in pythons if parents.get(child) in pythons]


def by_kind(pid: int) -> dict[str, list[int]]:
    """The processes of one dm-worker (or of a test with its own engine): driver, JVM, Python workers.

    The daemon that forks the Python workers counts as one of them. Other children are left out.
    """
    kinds: dict[str, list[int]] = {"driver": [pid], "jvm": [], "python workers": []}
    for child in descendants(pid):
        command = command_of(child)
        if _DAEMON.search(command):
            kinds["python workers"].append(child)
        elif "org.apache.spark" in command:
            kinds["jvm"].append(child)
    return kinds


def kill_hard(pid: int) -> bool:
    """kill -9; False if the process is already gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
