"""The connection on which a subtask reads and writes its meta tables, and the common parts of these tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import pymysql
from pymysql.connections import Connection

from pkg.binlog.position import Location, Position, stored_identity
from pkg.errors import DMError
from pkg.mysql.connection import classify, connect, is_alive
from pkg.mysql.retry import retrying
from pkg.process.log import get_logger
from pkg.settings.connections import DBConfig

log = get_logger("syncer.checkpoint")

T = TypeVar("T")
MetaConnection: TypeAlias = "Connection[Any]"

#: Keys over names of 128 characters: utf8mb4 would exceed the 767 bytes of old row formats.
SMALL_KEYS = " ENGINE=InnoDB DEFAULT CHARSET=utf8 COLLATE=utf8_bin"
ANY_TEXT = " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"


class MetaTransactions:
    """Owns the connection of one subtask to its meta tables, and opens it again when it is lost.

    ``about`` is the table that errors name.
    """

    def __init__(self, cfg: DBConfig, about: str, should_stop: Callable[[], bool] | None) -> None:
        self._cfg = cfg
        self._about = about
        self._should_stop = should_stop
        self._conn: MetaConnection | None = None

    def run(self, work: Callable[[MetaConnection], T]) -> T:
        """Runs ``work`` in its own transaction; again on a new connection while that may help."""

        def attempt() -> T:
            if self._conn is None:
                self._conn = connect(self._cfg, scope="downstream", autocommit=False, session={"sql_mode": ""})
            try:
                result = work(self._conn)
                self._conn.commit()
                return result
            except (pymysql.Error, OSError) as exc:
                self.close()
                raise classify(exc, scope="downstream", table=self._about) from exc
            except DMError:
                self.close()
                raise

        def note(exc: DMError, attempt: int) -> None:
            log.warning("the checkpoint's transaction is tried again", attempt=attempt, error=str(exc))

        return retrying(attempt, should_stop=self._should_stop, on_retry=note)

    def drop_lost(self) -> None:
        """Forgets a connection that was lost while it was idle: for a caller that does not try again."""
        if self._conn is not None and not is_alive(self._conn):
            self.close()

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def column_list(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items())


def stored_location(name: Any, pos: Any, gtid: Any, rows: Any = 0, cut: Any = "", file: Any = "") -> Location:
    # DM's name of a relay file is accepted; the written name is always the upstream's.
    position = Position(str(name or ""), int(pos or 0)).of_upstream()
    return Location(position, str(gtid or ""), int(rows), str(cut), stored_identity(str(file), position.name))
