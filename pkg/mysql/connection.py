"""Connections to upstreams and targets, and the meaning of their errors.

Only this module turns a driver's exception into a :class:`DMError`: with the server's number and SQLSTATE in the form
that operators' scripts match (``Error 1054 (42S22): …``), the scope of the connection, and whether to retry.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any, Literal

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CLIENT

from pkg import errors
from pkg.errors import Code, DMError
from pkg.mysql.driver import BulkConnection, PreferringConnection
from pkg.mysql.sqlstates import sqlstate
from pkg.settings.connections import DBConfig
from pkg.tls.client import tls_context

Scope = Literal["upstream", "downstream"]

#: Temporary errors: the same statement may succeed when it is repeated.
RETRYABLE_NUMBERS = frozenset(
    {
        1020,  # record has changed since last read (MariaDB with innodb_snapshot_isolation)
        1040,  # too many connections
        1047,  # Galera: the node is not ready
        1053,  # server shutdown in progress
        1158,  # network read error
        1159,
        1160,
        1161,
        1180,  # error during COMMIT (Galera certification)
        1203,  # too many connections of this user
        1205,  # lock wait timeout
        1213,  # deadlock
        1317,  # query interrupted
        1412,  # table definition has changed, please retry transaction
        1637,  # too many active concurrent transactions
        1792,  # read-only transaction, after a switch-over
        1836,  # read-only mode
        1927,  # connection was killed (MariaDB)
        1969,  # max_statement_time exceeded (MariaDB)
        2002,
        2003,
        2006,
        2013,
        2014,
        3024,  # max_execution_time exceeded
        3100,  # group replication: a member's vote failed
        3101,  # group replication: rolled back in favour of another member
        3159,
        3169,  # session was killed
        4031,  # disconnected by the server because of inactivity
        8002,  # TiDB: SELECT … FOR UPDATE had a write conflict
        8005,  # TiDB: write conflict
        8020,  # TiDB: another session locked the table
        8022,  # TiDB: the transaction was rolled back and can be repeated
        8024,  # TiDB: the transaction is no longer valid
        8027,  # TiDB: schema is out of date
        8028,  # TiDB: schema changed in the meantime
        8113,  # TiDB: schema changed, of a prepared statement
        8120,  # TiDB: no timestamp from PD
        8176,  # TiDB: the server is short of memory
        8229,  # TiDB: the transaction's locks may have expired
        8245,  # TiDB: a DDL is changing the column
        8252,  # TiDB: the resource group is used up for now
        8501,  # TiDB: may succeed on a retry
        9001,  # TiDB: PD timeout
        9002,  # TiKV timeout
        9003,  # TiKV busy
        9004,  # resolving locks timed out
        9005,  # region unavailable
        9006,  # GC life time is shorter than the transaction
        9007,  # write conflict
        9008,  # TiKV's store token limit
        9010,  # TiKV: stale command
        9011,  # TiKV: timestamps are not synchronized yet
        9012,  # TiFlash timeout
        9013,  # TiFlash busy
    }
)
_LOST = frozenset({2006, 2013, 2014, 1053, 1927, 1158, 1159, 1160, 1161, 3169, 4031})
#: Numbers that servers use for several errors, of which one is temporary.
_RETRYABLE_TEXTS = {
    1290: re.compile(r"read.only", re.IGNORECASE),  # --read-only during a switch-over; not --skip-grant-tables
    1105: re.compile(  # TiDB's number for errors without a number of their own
        r"information schema is (?:changed|out of date)|region is unavailable|tikv|pd server timeout|"
        r"backoff|try again later|please retry|pessimistic ?lock ?not ?found|rpc error|context (?:canceled|deadline)",
        re.IGNORECASE,
    ),
}
#: TiDB's numbers for a transaction above a limit, and the operator action for each.
TOO_MUCH_AT_ONCE = {
    8004: "Raise performance.txn-total-size-limit of TiDB, then resume the task.",
    8175: "The transaction needs more memory than the target allows. Raise the limit there (SET GLOBAL "
    "tidb_mem_quota_query = …, in bytes), then resume the task.",
}
_TOO_MUCH_TEXTS = tuple(f"Error {number} " for number in TOO_MUCH_AT_ONCE)
#: The same for a row above the limit.
TOO_LARGE_ROW = {
    8025: "Raise the target's limit above the row's size (performance.txn-entry-size-limit, or from TiDB 7.6 on SET "
    "GLOBAL tidb_txn_entry_size_limit = …, in bytes; TiKV's raftstore.raft-entry-max-size must be larger still), then "
    "resume the task."
}
_HINTS = {
    **dict.fromkeys(
        # Unknown, global, wrong value, read-only.
        (1193, 1229, 1231, 1238),
        "If it is a variable under `session` of target-database or of a source's `from`, correct or remove it there.",
    ),
    1045: "Check user and password of this connection, and the hosts from which the server accepts this user.",
    1044: "Grant the user access to this database.",
    1142: "Grant the user the privilege that the message names.",
    1227: "Grant the user the privilege that the message names.",
    1030: "If `CHECK TABLE` shows the same error there, the server cannot read the table: repair it, or exclude it "
    "with block-allow-list.",
    1040: "Raise max_connections of the server or lower threads and worker-count.",
    **TOO_MUCH_AT_ONCE,
    **TOO_LARGE_ROW,
}


class NameCursor(pymysql.cursors.Cursor):
    """In statements with arguments, doubles a ``%`` in a quoted name: tasks and schemas may have one."""

    def mogrify(self, query: Any, args: Any = None) -> str:
        return super().mogrify(query if args is None else _QUOTED_NAME.sub(_without_arguments, query), args)

    def execute(self, query: Any, args: Any = None) -> int:
        return super().execute(query if args is None else self.mogrify(query, args))


#: The variables of every session. Otherwise a server's global defaults would determine how structures are shown
#: (ANSI_QUOTES), how many rows a SELECT returns, how literals are parsed, and how a transaction ends.
NEUTRAL_SESSION: Mapping[str, str] = {
    "sql_mode": "",
    "sql_quote_show_create": "ON",
    "sql_select_limit": "18446744073709551615",
    "sql_auto_is_null": "0",
    "completion_type": "0",
    "unique_checks": "ON",
}
_QUOTED_NAME = re.compile(r"`(?:[^`]|``)*`")


def _without_arguments(name: re.Match[str]) -> str:
    return name[0].replace("%", "%%")


def connect(
    cfg: DBConfig,
    *,
    scope: Scope,
    autocommit: bool = True,
    session: Mapping[str, str] | None = None,
    charset: str = "utf8mb4",
    read_timeout: float = 300.0,
    connect_timeout: float = 10.0,
    database: str | None = None,
    cursorclass: type[Any] = NameCursor,
    local_data: bool = False,
    bulk: bool = False,
) -> Connection[Any]:
    """Opens a connection and sets its session variables: :data:`NEUTRAL_SESSION`, ``cfg``'s, then ``session``.

    ``local_data`` permits LOAD DATA LOCAL. The driver still opens no file on a server's request: the caller of the
    statement sends the data itself. ``bulk`` permits :mod:`pkg.mysql.bulk`. Without ``security`` in ``cfg`` the
    connection is encrypted where the server offers that, and the server is not verified.

    Raises DMError 10001 when the server refuses or is not reachable (retryable when it may come back), or is not the
    one that ``security`` requires; 11112 for unusable TLS files.
    """
    host = cfg.host.strip("[]")  # an IPv6 literal may be written with brackets
    try:
        conn: Connection[Any] = (BulkConnection if bulk else PreferringConnection)(
            host=host,
            port=cfg.port,
            user=cfg.user,
            # Servers store the digest of UTF-8. The driver would use latin1, and refuse characters that it lacks.
            password=cfg.password.encode(),
            database=database,
            charset=charset,
            autocommit=autocommit,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            write_timeout=read_timeout,
            client_flag=CLIENT.FOUND_ROWS | (CLIENT.LOCAL_FILES if local_data else 0),
            cursorclass=cursorclass,
            max_allowed_packet=max(cfg.max_allowed_packet, 1024),
            local_infile=False,
            ssl=tls_context(cfg.security) if cfg.security else None,
        )
    except pymysql.Error as exc:
        raise _refused(exc, cfg, scope) from exc
    try:
        set_session(conn, {**NEUTRAL_SESSION, **dict(cfg.session), **(session or {})})
    except pymysql.Error as exc:
        conn.close()
        raise classify(exc, scope=scope, statement="SET SESSION …") from exc
    return conn


def set_session(conn: Connection[Any], session: Mapping[str, str]) -> None:
    """Sets session variables; passes numbers and booleans bare, everything else as strings."""
    assignments = []
    for name, value in session.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
            raise errors.new(Code.ConfigYamlTransform, f"session variable name {name!r} is not valid")
        bare = re.fullmatch(r"-?\d+(\.\d+)?|ON|OFF|TRUE|FALSE", str(value), re.IGNORECASE) is not None
        assignments.append(f"SESSION {name} = {value if bare else conn.escape(str(value))}")
    if assignments:
        with conn.cursor() as cursor:
            cursor.execute("SET " + ", ".join(assignments))


def error_number(exc: BaseException) -> int:
    """The server's (or the client library's 2xxx) error number; 0 when the exception has none."""
    return exc.args[0] if exc.args and isinstance(exc.args[0], int) else 0


def is_lost(exc: BaseException) -> bool:
    """Whether the connection is lost, so that it must be opened again first."""
    if isinstance(exc, pymysql.err.InterfaceError):
        return True
    return isinstance(exc, OSError) or error_number(exc) in _LOST


def is_alive(conn: Connection[Any]) -> bool:
    """Whether the server answers on this connection; it is not opened again."""
    try:
        conn.ping(reconnect=False)
    except (pymysql.Error, OSError):
        return False
    return True


def is_retryable(exc: BaseException) -> bool:
    """Whether a retry may succeed, perhaps on a new connection."""
    number = error_number(exc)
    if is_lost(exc) or number in RETRYABLE_NUMBERS:
        return True
    text = _RETRYABLE_TEXTS.get(number)
    return text is not None and text.search(str(exc.args[1:])) is not None


def error_text(exc: BaseException) -> str:
    """``Error 1054 (42S22): Unknown column …``, the form that scripts match."""
    number = error_number(exc)
    if not number:
        return f"{exc}" or type(exc).__name__
    message = str(exc.args[1]) if len(exc.args) > 1 else ""
    return f"Error {number} ({sqlstate(number)}): {message}"


def shortened(statement: str) -> str:
    """A statement in the form for messages."""
    return f"{statement[:200]}{'…' if len(statement) > 200 else ''}"


def is_too_much_at_once(error: DMError) -> bool:
    """Whether the server refused a transaction for its size, so that a smaller one may succeed."""
    return error.raw_cause.startswith(_TOO_MUCH_TEXTS)


def classify(exc: BaseException, *, scope: Scope, statement: str = "", table: str = "") -> DMError:
    """The error of a failed statement. A DMError stays unchanged; ``statement`` is shown cut to 200 characters."""
    if isinstance(exc, DMError):
        return exc
    where = f" on {table}" if table else ""
    shown = f": {shortened(statement)}" if statement else ""
    if is_lost(exc):
        name, what = Code.DBBadConn, f"the {scope} connection was lost{where}{shown}"
        hint = "The connection is opened again automatically. If it keeps failing, check the server and the network."
    else:
        name, what = Code.DBExecuteFailed, f"the {scope} refused a statement{where}{shown}"
        hint = _HINTS.get(error_number(exc), "")
    return errors.new(
        name,
        f"{what}: {error_text(exc)}",
        raw=error_text(exc),
        scope=scope,
        workaround=hint,
        retryable=is_retryable(exc),
    )


def _refused(exc: pymysql.Error, cfg: DBConfig, scope: Scope) -> DMError:
    address = f"{cfg.host}:{cfg.port}"
    number = error_number(exc)
    why = getattr(exc, "original_exception", None)
    if isinstance(why, ssl.SSLCertVerificationError):
        return _not_the_server(why, cfg, scope)
    if number == 2003:
        cause = f"dial tcp {address}: connect: connection refused"
        if "refused" not in str(exc).lower():
            cause = f"dial tcp {address}: {error_text(exc)}"
        hint = "Check that the server runs and that host and port are correct."
    else:
        cause = error_text(exc)
        hint = _HINTS.get(number, "")
    return errors.new(
        Code.DBDriverError,
        f"cannot connect to the {scope} {cfg.user}@{address}: {cause}",
        raw=cause,
        scope=scope,
        workaround=hint,
        retryable=is_retryable(exc),
    )


def _not_the_server(why: ssl.SSLCertVerificationError, cfg: DBConfig, scope: Scope) -> DMError:
    """The server is not verified, so nothing was sent to it. ``why`` is the problem with its certificate."""
    cause = why.verify_message if getattr(why, "verify_message", "") else str(why)
    return errors.new(
        Code.DBDriverError,
        f"the {scope} {cfg.user}@{cfg.host}:{cfg.port} cannot be verified as the configured server: {cause}",
        raw=why,
        scope=scope,
        workaround="Set ssl-ca to the CA that signed the server's certificate, and `host` to a name or address in the "
        "certificate; or list its common name in cert-allowed-cn of this connection's security. To see the "
        f"certificate: `openssl s_client -starttls mysql -connect {cfg.host}:{cfg.port} </dev/null | "
        "openssl x509 -noout -subject -issuer -dates -ext subjectAltName`.",
    )
