"""Hazards: a target with other defaults takes them, what is recorded of a statement depends on the task's setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from dm_worker.syncer.checkpoint.ddl_table import DDLRecord, ShownTables
from dm_worker.syncer.checkpoint.protocol import DDL, BatchProgress
from dm_worker.syncer.ddl.executor import DDLExecutor, DDLStep, StatementContext
from dm_worker.syncer.ddl.session import StatementFailed
from dm_worker.syncer.ddl.trial import Trial
from dm_worker.syncer.ddl.upstream_collations import UpstreamCollations
from dm_worker.syncer.ddl.variables import TargetSession, UpstreamSession, defaults_of
from pkg import ddl, errors
from pkg.binlog.events import QueryEvent
from pkg.binlog.position import Location, Position
from pkg.ddl import DDLKind
from pkg.errors import Code, DMError
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker import ServerDefaults

NAMES = {7: "koi8r_general_ci", 74: "koi8r_bin"}
MYSQL57 = ServerDefaults("mysql", (5, 7, 22), "latin1", "latin1_german1_ci", collations=NAMES)
MYSQL80 = ServerDefaults("mysql", (8, 0, 12), "utf8mb4", "utf8mb4_0900_ai_ci", collations=NAMES)
TABLE = "CREATE TABLE `d`.`t` (a CHAR(1)) CHARSET utf8mb4"


def written_out(sql: str, server: ServerDefaults, query: QueryEvent) -> str:
    dialect = ddl.Dialect(flavor=server.flavor, session=defaults_of(query))
    return UpstreamCollations(server).written_out(sql, dialect, query)


def session(collation_server: int | None = None, utf8mb4_collation: int | None = None) -> QueryEvent:
    charsets = None if collation_server is None else (45, 45, collation_server)
    return QueryEvent(0, 0, 0, "", b"", charsets=charsets, utf8mb4_collation=utf8mb4_collation)


def test_the_default_is_the_upstreams_unless_the_session_had_another() -> None:
    plain, same, other = session(7), session(7, 255), session(7, 45)
    assert written_out(TABLE, MYSQL57, plain) == f"{TABLE} COLLATE utf8mb4_general_ci"
    assert written_out(TABLE, MYSQL80, plain) == f"{TABLE} COLLATE utf8mb4_0900_ai_ci"
    assert written_out(TABLE, MYSQL80, same) == f"{TABLE} COLLATE utf8mb4_0900_ai_ci"
    assert written_out(TABLE, MYSQL80, other) == f"{TABLE} COLLATE utf8mb4_general_ci"
    latin1 = TABLE.replace("utf8mb4", "latin1")
    assert written_out(latin1, MYSQL80, other) == f"{latin1} COLLATE latin1_swedish_ci"


def test_a_new_schema_gets_the_collation_of_the_session_s_server() -> None:
    sql = "CREATE DATABASE IF NOT EXISTS `d`"
    assert written_out(sql, MYSQL57, session(74)) == f"{sql} COLLATE koi8r_bin"
    assert written_out(sql, MYSQL57, session()) == f"{sql} COLLATE latin1_german1_ci"
    assert written_out("ALTER DATABASE `d` COLLATE latin1_bin", MYSQL57, session(7)).endswith(" latin1_bin")


def test_an_unknown_collation_stops_with_its_id() -> None:
    with pytest.raises(DMError, match="id 60000") as caught:
        written_out("CREATE DATABASE `d`", MYSQL57, session(60000))
    assert caught.value.kind is Code.BinlogEventDecode


class Store:
    """What is recorded, in order."""

    def __init__(self) -> None:
        self.written: list[DDLRecord] = []

    def read_ddl(self, place: Position, index: int) -> DDLRecord | None:
        return None

    def write(self, intent: BatchProgress, *, ddl: DDLRecord, through: object = None) -> None:
        self.written.append(ddl)


class Replica:
    """Executes everything, but refuses an ALTER TABLE of several parts as a whole when ``one_part`` is set."""

    def __init__(self, one_part: bool) -> None:
        self.executed: list[str] = []
        self._one_part = one_part

    def execute(self, sql: str, kind: DDLKind, query: QueryEvent, timestamp: int, upstream: UpstreamSession) -> None:
        if self._one_part and ", " in sql:
            raise StatementFailed(
                8200, errors.new(Code.DBExecuteFailed, "refused", raw="Error 8200: Unsupported multi schema change")
            )
        self.executed.append(sql)

    def shown(self, names: Iterable[tuple[str, str]], *, ids: bool) -> ShownTables:
        return ShownTables(tuple(f"{name} after {len(self.executed)}" for name in names))

    def transaction(self, work: Callable[[Any], None]) -> None:
        """Nothing is read back."""

    @staticmethod
    def target() -> TargetSession:
        return TargetSession("mysql", (8, 0, 12))

    @staticmethod
    def table(schema: str, table: str) -> TableInfo | None:
        return None

    @staticmethod
    def has_rows(schema: str, table: str, condition: str = "TRUE") -> bool:
        return True


def _route(schema: str, table: str) -> tuple[str, str]:
    return f"to_{schema}", table


def executed(sql: str, *, strict: bool, one_part: bool = False) -> tuple[list[str], list[DDLRecord]]:
    """What the target got, and what was recorded."""
    target, store = Replica(one_part), Store()
    executor = DDLExecutor(
        store=store,  # type: ignore[arg-type]
        session=target,  # type: ignore[arg-type]
        trial=cast(Trial, None),
        target_flavor="tidb",
        upstream=UpstreamSession("mysql"),
        should_stop=lambda: False,
        collations=UpstreamCollations(MYSQL57) if strict else None,
    )
    parsed = ddl.parse(sql, default_schema="d", flavor="mysql")
    step = DDLStep(parsed, ddl.rewrite(parsed, _route), (_route("d", "t"),), _route)
    nowhere = Location(Position("", 0))
    record = executor.once(
        Position("b", 4), 0, step, StatementContext(session(7), 0), BatchProgress(1, 1, DDL, nowhere, nowhere)
    )
    return target.executed, [*store.written, record]


@pytest.mark.parametrize("one_part", [False, True])
@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a CHAR(1)) CHARSET utf8mb4",
        "ALTER TABLE t ADD b TEXT CHARACTER SET utf8mb4, CONVERT TO CHARACTER SET utf8mb4",
        "CREATE DATABASE x",
        "DROP TABLE t",
    ],
)
def test_what_is_recorded_is_the_same_in_both_settings(sql: str, one_part: bool) -> None:
    loose, loose_records = executed(sql, strict=False, one_part=one_part)
    strict, strict_records = executed(sql, strict=True, one_part=one_part)
    assert strict_records == loose_records
    for plain, text in zip(loose, strict, strict=True):
        wanted = plain.replace("utf8mb4", "utf8mb4 COLLATE utf8mb4_general_ci")
        assert text == (f"{plain} COLLATE koi8r_general_ci" if "DATABASE" in plain else wanted)
