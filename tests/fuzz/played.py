"""A history under way, and how its task may end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pymysql.connections import Connection

from pkg.errors import DMError
from tests.fuzz import oracle
from tests.fuzz.history import History


class Hang(Exception):
    """The task neither came to the end nor stopped."""


class Stopped(Exception):
    """The task stopped with an error that does not pass."""

    def __init__(self, error: DMError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass
class Played:
    """A history under way: its schema's name, its sessions, and what its statements did."""

    history: History
    schema: str
    sessions: list[Connection[Any]] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    statements: int = 0
    failed: int = 0
    #: What ties the steps of which one failed.
    broken: set[str] = field(default_factory=set)
    #: The statements that the upstream executed.
    done: list[str] = field(default_factory=list)
    #: Upstream contents that rules freeze, by the upstream's table.
    frozen: dict[oracle.Table, oracle.Content | None] = field(default_factory=dict)

    def text(self, sql: str, file: str) -> str:
        return sql.replace("{s}", self.schema).replace("{file}", file)

    @property
    def schemas(self) -> list[str]:
        return [self.schema, f"{self.schema}_b"]

    def target_of(self, table: oracle.Table) -> oracle.Table:
        match self.history.settings.get("route", "none"):
            case "schema" if table[0] == self.schema:
                return f"{self.schema}r", table[1]
            case "table" if table == (self.schema, "t"):
                return self.schema, "t_r"
        return table
