"""Facts of a task that is ready for its cutover, and what a test changes in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dm_master.cutover.facts import (
    Account,
    AccountFacts,
    CutoverFacts,
    CutoverTarget,
    CutoverUpstream,
    DiffFacts,
    DiffTableFacts,
    ServerFacts,
    SubTaskFacts,
    TableFacts,
    ValidatorFacts,
    WriterFacts,
)
from pkg.binlog.position import Location, Position
from pkg.ddl.shown_table import ShownTable
from pkg.mysql.grants import Grants
from pkg.mysql.introspect import ServerInfo
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

END = Location(Position("mysql-bin.000003", 500), "0-1-7")
INFO = ServerInfo("mariadb", (10, 11, 6), "10.11.6-MariaDB", 1, "", True)
VARIABLES = {
    "read_only": "ON",
    "sql_mode": "STRICT_TRANS_TABLES",
    "time_zone": "SYSTEM",
    "system_time_zone": "UTC",
    "collation_server": "utf8mb4_general_ci",
    "tx_isolation": "REPEATABLE-READ",
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "expire_logs_days": "3.000000",
}
SOURCE, TARGET = ("app", "t1"), ("merged", "t")


def structure(*indexes: Index) -> TableInfo:
    columns = (
        Column("id", "int", "int(11)", nullable=False, auto_increment=True),
        Column("name", "varchar", "varchar(20)"),
    )
    return TableInfo("app", "t", columns, (Index("PRIMARY", (IndexPart("id"),), unique=True), *indexes))


def tables(name: tuple[str, str], **changes: Any) -> TableFacts:
    shown = {one: ShownTable() for one in changes.get("structures", (name,))}
    return replace(TableFacts({name: structure()}, {name: 11}, (), shown, {}), **changes)


def server(label: str, name: tuple[str, str], **changes: Any) -> ServerFacts:
    users = {Account("app", "%"): AccountFacts(Grants(["GRANT USAGE ON *.* TO `app`@`%`"]))}
    return replace(ServerFacts(label, INFO, dict(VARIABLES), tables(name), {}, users), **changes)


def upstream(label: str = "one", **changes: Any) -> CutoverUpstream:
    made = CutoverUpstream(
        server(label, SOURCE), WriterFacts(END, END, 5.0, (), ()), {SOURCE: TARGET}, frozenset(), may_write=True
    )
    return replace(made, **changes)


def target(**changes: Any) -> CutoverTarget:
    return replace(CutoverTarget(server("target", TARGET), {TARGET: 10}, may_read_binlog=True), **changes)


def subtask(source: str = "one", **changes: Any) -> SubTaskFacts:
    validator = ValidatorFacts("Running", END, 0, 0)
    return replace(SubTaskFacts(source, "", "Sync", "Running", (), END, (), (), validator), **changes)


def compared(state: str = "equal", reason: str = "", at: Location = END) -> DiffFacts:
    return DiffFacts(state, (DiffTableFacts("`merged`.`t`", state, reason, {"one": at}),))


def ready(**changes: Any) -> CutoverFacts:
    return replace(CutoverFacts("task", (upstream(),), target(), (subtask(),), (), compared()), **changes)
