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
    folder = Path(tempfile.mkdtemp(prefix="dm-mydumper-"))
    try:
        start = time.monotonic()
        dump = [binary("mydumper"), *client(source), "-B", "sb", "-t", str(threads), "-r", "50000", "-o", str(folder)]
        _run(dump)
        dumped = time.monotonic()
        if not list(folder.glob("sb.sbtest1*.sql")):
            raise HarnessError("mydumper dumped nothing")
        load = [binary("myloader"), *client(target), "-t", str(threads), "-d", str(folder)]
        _run(load)
        return dumped - start, time.monotonic() - dumped
    finally:
        shutil.rmtree(folder)


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
