"""Native tools that do the same work on the same machine."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from deploy.local.mysql import MariaDBServer
from deploy.local.process import HarnessError, binary, wait_until
from pkg.binlog.position import Location


def client(server: MariaDBServer) -> list[str]:
    return ["--host=127.0.0.1", f"--port={server.port}", "--user=root"]


def _run(command: Sequence[str], stdin: IO[bytes] | None = None) -> None:
    done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"{command[0]} exited with code {done.returncode}: {done.stderr[-1000:]}")


def dump_pipe(source: MariaDBServer, target: MariaDBServer) -> float:
    """Runs ``mariadb-dump | mariadb``; returns the seconds."""
    start = time.monotonic()
    target.execute("CREATE DATABASE sb")
    dump = [binary("mariadb-dump"), *client(source), "--single-transaction", "--skip-triggers", "sb"]
    with subprocess.Popen(dump, stdout=subprocess.PIPE) as producer:
        _run([binary("mariadb"), *client(target), "sb"], stdin=producer.stdout)
    if producer.returncode:
        raise HarnessError("mariadb-dump failed")
    return time.monotonic() - start


def mydumper(source: MariaDBServer, target: MariaDBServer, threads: int) -> tuple[float, float]:
    """Runs mydumper, then myloader; returns the seconds of each."""
    with mydump(source, threads) as (folder, dumped):
        return dumped, myload(target, threads, folder)


@contextmanager
def mydump(source: MariaDBServer, threads: int) -> Iterator[tuple[Path, float]]:
    """A dump of mydumper, and the seconds that it took."""
    folder = Path(tempfile.mkdtemp(prefix="dm-mydumper-"))
    try:
        start = time.monotonic()
        _run([binary("mydumper"), *client(source), "-B", "sb", "-t", str(threads), "-r", "50000", "-o", str(folder)])
        seconds = time.monotonic() - start
        if not list(folder.glob("sb.sbtest1*.sql")):
            raise HarnessError("mydumper dumped nothing")
        yield folder, seconds
    finally:
        shutil.rmtree(folder)


def myload(target: MariaDBServer, threads: int, folder: Path) -> float:
    """Runs myloader; returns its seconds."""
    start = time.monotonic()
    _run([binary("myloader"), *client(target), "-t", str(threads), "-d", str(folder)])
    return time.monotonic() - start


@contextmanager
def replica_of(source: MariaDBServer) -> Iterator[MariaDBServer]:
    """A MariaDB replica of ``source``, empty and not started; :func:`rewind` sets its start."""
    replica = MariaDBServer(binlog=False)
    replica.start()
    try:
        replica.execute(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={source.port}, MASTER_USER='root',"
            " MASTER_USE_GTID=no"
        )
        yield replica
    finally:
        replica.cleanup()


def rewind(replica: MariaDBServer, start: Location) -> None:
    """Makes the replica begin at ``start``, from any earlier state."""
    place = f"MASTER_LOG_FILE='{start.position.name}', MASTER_LOG_POS={start.position.pos}"
    replica.execute("STOP SLAVE", f"CHANGE MASTER TO {place}")


def replica_catches_up(source: MariaDBServer, replica: MariaDBServer, threads: int) -> float:
    """Fetches the relay log first, then measures only the replica's SQL thread; returns the seconds."""
    replica.execute(f"SET GLOBAL slave_parallel_threads = {threads}", "START SLAVE IO_THREAD")
    end = source.binlog_status()

    def column(name: str) -> str:
        conn = replica.connect()
        with conn.cursor() as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            row = dict(zip([d[0] for d in cursor.description], cursor.fetchone(), strict=True))
        conn.close()
        if row["Last_SQL_Error"] or row["Last_IO_Error"]:
            raise HarnessError(f"replica: {row['Last_SQL_Error']}{row['Last_IO_Error']}")
        return str(row[name])

    wait_until(lambda: (column("Master_Log_File"), int(column("Read_Master_Log_Pos"))) == (end[0], end[1]), "fetched")
    start = time.monotonic()
    replica.execute("START SLAVE SQL_THREAD")
    wait_until(
        lambda: (column("Relay_Master_Log_File"), int(column("Exec_Master_Log_Pos"))) == (end[0], end[1]),
        "the replica catches up",
        600,
        step=0.02,
    )
    seconds = time.monotonic() - start
    replica.execute("STOP SLAVE")
    return seconds
