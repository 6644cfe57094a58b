"""Real MariaDB and MySQL servers."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from deploy.local.cache import once
from deploy.local.process import Process, binary, free_port, wait_until
from deploy.local.server_files import in_home, of_a_release, run, server_files
from pkg.mysql.driver import PreferringConnection
from pkg.settings.connections import DBConfig

#: 8.0 is 8.0.12, from before compressed transactions and invisible columns; 8.0-newest is the series' last.
MYSQL_VERSIONS = ("5.6", "5.7", "8.0", "8.0-newest", "8.4", "9.7")
#: The version where none is named.
MYSQL_VERSION = os.environ.get("DM_TEST_MYSQL", "8.0")
#: Of MariaDB, "" is the machine's own package (10.11 in Debian 12).
MARIADB_VERSIONS = ("", "11.8")
MARIADB_VERSION = os.environ.get("DM_TEST_MARIADB", "")
#: The files that mariadb-install-db runs on a new server, in this order.
_SYSTEM_TABLES = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mariadb_sys_schema.sql",
)
#: MySQL 8's own default, which test servers have only on request: MariaDB lacks it.
MYSQL_8_COLLATION = "--collation-server=utf8mb4_0900_ai_ci"
#: MySQL 9 lacks the option.
_LOG_SIZE = "--loose-innodb-log-file-size=64M"
_UNKNOWN_THREAD = 1094
_SYSTEM_SCHEMAS = {"mysql", "information_schema", "performance_schema", "metrics_schema", "sys", "test"}
#: The accounts of a new server: root, the anonymous one, and those that the server itself uses.
_NEW_ACCOUNT = re.compile(r"(root|PUBLIC|(mysql|mariadb)\..*)?")
_AS_ROOT = ["--user=root"] if os.geteuid() == 0 else []
#: A new data folder has only the account for the socket.
_ROOT_BY_ADDRESS = """\
CREATE USER 'root'@'127.0.0.1';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
"""


class SQLServer(Process):
    """A server that speaks MySQL's protocol, on a free port; root without password on 127.0.0.1."""

    flavor = ""
    #: The keyword for the server's own binlog in statements.
    binlog_words = "MASTER"
    #: Options in addition to the common ones.
    extra: Sequence[str] = ()
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
        """Creates the data folder of a new server."""

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
        return [*options, *_AS_ROOT]

    def ready(self) -> bool:
        try:
            self.connect(connect_timeout=2).close()
        except pymysql.Error:
            return False
        return True

    def connect(self, **kw: Any) -> Connection[Any]:
        """A connection without TLS (15 ms of CPU each), unless these arguments or the server's own ask for it."""
        args: dict[str, Any] = {"host": "127.0.0.1", "port": self.port, "user": "root", "autocommit": True}
        secured = any(name.startswith("ssl") for name in kw) or any(name.startswith("--ssl") for name in self.extra)
        args |= {"charset": "utf8mb4", "ssl_disabled": not secured}
        return PreferringConnection(**{**args, **kw})

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs the statements on one connection; returns the last one's rows."""
        conn = self.connect()
        session = conn.thread_id()  # type: ignore[no-untyped-call]
        try:
            with conn.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            conn.close()
            if any(statement.startswith("XA PREPARE") for statement in statements):
                # Until the server notices that its client has left, no other session can end the transaction.
                wait_until(lambda: not self._has_session(session), f"session {session} has ended")

    def _has_session(self, number: int) -> bool:
        return bool(self.execute(f"SELECT 1 FROM information_schema.processlist WHERE id = {number}"))

    def end_connections(self, chosen: Callable[[tuple[Any, ...]], bool]) -> int:
        """Kills the connections whose rows of SHOW PROCESSLIST are ``chosen``; returns their number.

        Any of them may end by itself before it is killed: the server notices late that a client has left.
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

    def binlog_status(self) -> tuple[Any, ...]:
        """The row with the end of the binlog: file, position, and more."""
        return self.execute(f"SHOW {self.binlog_words} STATUS")[0]

    @property
    def db_config(self) -> DBConfig:
        return DBConfig(host="127.0.0.1", port=self.port, user="root")

    def wipe(self) -> None:
        """Drops every user schema, as a shared server needs between tests."""
        for (name,) in self.execute("SHOW DATABASES"):
            if name.lower() not in _SYSTEM_SCHEMAS:
                self.execute(f"DROP DATABASE `{name.replace('`', '``')}`")

    def drop_accounts(self) -> None:
        """Drops every account and role that a new server does not have."""
        for user, host in self.execute("SELECT user, host FROM mysql.user"):
            if not _NEW_ACCOUNT.fullmatch(user):
                # A role of MariaDB has no host.
                self.execute(f"DROP USER '{user}'@'{host}'" if host else f"DROP ROLE `{user}`")


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
        self.home = server_files(f"mysql-{version}")
        if version in ("8.4", "9.7"):
            self.binlog_words = "BINARY LOG"
        super().__init__(binlog=binlog, gtid=gtid, extra=extra)

    def command(self) -> Sequence[str]:
        binlog = [] if self.binlog else ["--skip-log-bin"]
        gtid = ["--gtid-mode=ON", "--enforce-gtid-consistency"] if self.gtid else ["--gtid-mode=OFF"]
        options = [*self._options(), "--performance-schema=OFF", "--local-infile=ON"]
        if self.version in ("5.6", "5.7"):
            # As later versions always do.
            gtid += ["--log-slave-updates"]
        else:
            options += ["--mysqlx=OFF", "--collation-server=utf8mb4_general_ci"]
        return [*self._program(), *options, *binlog, *gtid, *self.extra]

    def environment(self) -> Mapping[str, str]:
        if of_a_release(f"mysql-{self.version}"):
            return os.environ
        return {**os.environ, "LD_LIBRARY_PATH": f"{self.home}:{self.home / 'lib'}"}

    def _program(self) -> list[str]:
        """The command of the server, without its options."""
        home = self.home
        if of_a_release(f"mysql-{self.version}"):
            server, base, messages = in_home(home, "usr/sbin/mysqld"), home / "usr", home / "usr/share/mysql"
        else:
            file = home / "mysqld" if (home / "mysqld").exists() else home / "bin" / "mysqld"
            server, base, messages = [str(file)], home, home / "share"
        # A release has its own folder for files of statements.
        folders = [f"--basedir={base}", f"--lc-messages-dir={messages}", "--secure-file-priv="]
        return [*server, "--no-defaults", *folders]

    def _initialize(self, folder: Path) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as accounts:
            accounts.write(_ROOT_BY_ADDRESS)
            accounts.flush()
            Path(accounts.name).chmod(0o644)
            command = [*self._program(), "--initialize-insecure", f"--datadir={folder}", f"--init-file={accounts.name}"]
            run([*command, _LOG_SIZE, *_AS_ROOT], self.environment())

    def _make_data(self) -> None:
        def make(folder: Path) -> None:
            if self.version == "5.6":
                shutil.copytree(self.home / "data" / "mysql", folder, dirs_exist_ok=True)
                for foreign in folder.glob("ib_logfile*"):
                    foreign.unlink()
            else:
                self._initialize(folder)
            # Two instances must not share one server UUID.
            (folder / "auto.cnf").unlink(missing_ok=True)

        shutil.copytree(once(f"mysql-{self.version}-data", make), self.data)


def mariadbd(version: str = "") -> list[str]:
    """The command of a MariaDB server, without its options."""
    if not version:
        return [binary("mariadbd", "mysqld"), "--no-defaults"]
    home = server_files(f"mariadb-{version}")
    share = home / "usr/share/mariadb"
    server = [*in_home(home, "usr/sbin/mariadbd"), "--no-defaults", f"--basedir={home}/usr"]
    return [*server, f"--lc-messages-dir={share}", f"--plugin-dir={home}/usr/lib/mysql/plugin"]


def _install_mariadb_data(folder: Path) -> None:
    command = [binary("mariadb-install-db", "mysql_install_db"), "--no-defaults", f"--datadir={folder}"]
    command += ["--auth-root-authentication-method=normal", "--skip-test-db"]
    run([*command, *_AS_ROOT], os.environ)


def _bootstrap_mariadb(version: str, folder: Path) -> None:
    """Does the work of mariadb-install-db, which can't run the server of another release."""
    share = server_files(f"mariadb-{version}") / "usr/share/mariadb"
    scripts = "".join((share / name).read_text() for name in _SYSTEM_TABLES)
    command = [*mariadbd(version), "--bootstrap", f"--datadir={folder}", _LOG_SIZE, *_AS_ROOT]
    run(command, os.environ, f"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n{scripts}")
