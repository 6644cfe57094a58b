"""Native tools that do the same work on the same machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import HarnessError, binary, wait_until
from pkg.binlog.position import Location
from tests.bench.figures import Cost
from tests.bench.rig import cost_of

MYLOADER = "myloader"
#: A line of SHOW CREATE TABLE that defines a secondary key, with the comma before it.
_KEY = re.compile(r",\n  (KEY [^\n]*?)(?=,\n|\n\))")
#: The end of the name of a file with a table's definition.
_CREATED = "-schema.sql"


@dataclass
class BestOf:
    """A peer with several settings: all of them run in the first turn, the fastest one afterwards."""

    ways: Mapping[str, Callable[[], Cost]]
    turns: dict[str, list[Cost]] = field(default_factory=dict)

    def run(self) -> None:
        for name in [self.best] if self.turns else self.ways:
            self.turns.setdefault(name, []).append(self.ways[name]())

    @property
    def best(self) -> str:
        return min(self.turns, key=lambda name: self.turns[name][0].seconds)

    @property
    def costs(self) -> list[Cost]:
        """The turns of the best setting."""
        return self.turns[self.best]


def client(server: MariaDBServer) -> list[str]:
    return ["--host=127.0.0.1", f"--port={server.port}", "--user=root"]


def _run(command: Sequence[str], stdin: IO[bytes] | None = None) -> None:
    done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"{command[0]} exited with code {done.returncode}: {done.stderr[-1000:]}")


def cost_beside(work: Callable[[], object], *servers: SQLServer) -> Cost:
    """What a tool takes: its own process, which ends meanwhile, this one, and the servers."""
    return cost_of(work, lambda: {"peer": [os.getpid()], "servers": [server.pid for server in servers]})


def dump_pipe(source: MariaDBServer, target: MariaDBServer) -> Cost:
    """What ``mariadb-dump | mariadb`` takes, the copy without files."""
    target.execute("CREATE DATABASE sb")
    dump = [binary("mariadb-dump"), *client(source), "--single-transaction", "--skip-triggers", "sb"]

    def work() -> None:
        with subprocess.Popen(dump, stdout=subprocess.PIPE) as producer:
            _run([binary("mariadb"), *client(target), "sb"], stdin=producer.stdout)
        if producer.returncode:
            raise HarnessError("mariadb-dump failed")

    return cost_beside(work, source, target)


@contextmanager
def mydump(source: MariaDBServer, threads: int) -> Iterator[tuple[Path, Cost]]:
    """A dump of mydumper, and what it took."""
    folder = Path(tempfile.mkdtemp(prefix="dm-mydumper-"))
    try:
        dump = [binary("mydumper"), *client(source), "-B", "sb", "-t", str(threads), "-r", "50000", "-o", str(folder)]
        cost = cost_beside(lambda: _run(dump), source)
        if not list(folder.glob("sb.*.sql")):
            raise HarnessError("mydumper dumped nothing")
        yield folder, cost
    finally:
        shutil.rmtree(folder)


def myload(target: MariaDBServer, threads: int, folder: Path, *, late_keys: bool) -> Cost:
    """What myloader takes.

    ``late_keys``: secondary keys come after the rows, in one ALTER for each table, all at once. This is
    ``--optimize-keys`` of later versions; those of current distributions do not have it.
    """
    load = [binary("myloader"), *client(target), "-t", str(threads), "-d"]
    if not late_keys:
        return cost_beside(lambda: _run([*load, str(folder)]), target)
    with _without_keys(folder) as (bare, keys):

        def work() -> None:
            _run([*load, str(bare)])
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(target.execute, keys))

        return cost_beside(work, target)


def myloader(load: Callable[[bool], Cost]) -> BestOf:
    """myloader's settings; ``load`` gets whether keys come after the rows."""
    return BestOf({MYLOADER: partial(load, False), f"{MYLOADER}, keys after the rows": partial(load, True)})


@contextmanager
def _without_keys(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """The same dump without secondary keys, and the statements that add them."""
    bare = Path(tempfile.mkdtemp(prefix="dm-mydumper-"))
    alters: list[str] = []
    try:
        for file in folder.iterdir():
            if file.name.endswith(_CREATED):
                schema, _, table = file.name.removesuffix(_CREATED).partition(".")
                text, keys = split_keys(file.read_text())
                (bare / file.name).write_text(text)
                if keys:
                    alters.append(f"ALTER TABLE `{schema}`.`{table}` " + ", ".join(f"ADD {key}" for key in keys))
            else:
                os.link(file, bare / file.name)
        yield bare, alters
    finally:
        shutil.rmtree(bare)


def split_keys(created: str) -> tuple[str, list[str]]:
    """A CREATE TABLE, as the server shows it, without its secondary keys, and these keys. Pure."""
    keys = _KEY.findall(created)
    return _KEY.sub("", created), [key.strip() for key in keys]


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


def replica_catches_up(source: MariaDBServer, replica: MariaDBServer, threads: int) -> Cost:
    """Fetches the relay log first, then measures only the replica's SQL threads."""
    replica.execute(f"SET GLOBAL slave_parallel_threads = {threads}", "START SLAVE IO_THREAD")
    file, position = source.binlog_status()[:2]
    conn = replica.connect()

    def reached(names: tuple[str, str]) -> bool:
        with conn.cursor() as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            row = dict(zip([d[0] for d in cursor.description], cursor.fetchone(), strict=True))
        if row["Last_SQL_Error"] or row["Last_IO_Error"]:
            raise HarnessError(f"replica: {row['Last_SQL_Error']}{row['Last_IO_Error']}")
        return (row[names[0]], int(row[names[1]])) == (file, position)

    def apply() -> None:
        replica.execute("START SLAVE SQL_THREAD")
        done = ("Relay_Master_Log_File", "Exec_Master_Log_Pos")
        wait_until(lambda: reached(done), "the replica catches up", 600, step=0.02)

    try:
        wait_until(lambda: reached(("Master_Log_File", "Read_Master_Log_Pos")), "fetched")
        cost = cost_of(apply, lambda: {"replica": [replica.pid]})
    finally:
        conn.close()
    replica.execute("STOP SLAVE")
    return cost
