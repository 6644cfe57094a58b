"""A history under way, and how its task may end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from pkg.errors import DMError
from tests.fuzz import oracle
from tests.fuzz.history import History
from tests.fuzz.tasks.filtered import FilteredRows
from tests.fuzz.tasks.rules import Rules, rules_of


class Hang(Exception):
    """The task neither came to the end nor stopped."""


class Stopped(Exception):
    """The task stopped with an error that does not pass."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    @staticmethod
    def by(error: DMError) -> Stopped:
        return Stopped(int(error.code), str(error))


Contents = dict[oracle.Table, oracle.Content | None]


@dataclass(frozen=True)
class Copied:
    """A source's tables when its dump had its snapshot."""

    contents: Contents
    structures: Mapping[oracle.Table, dict[str, Any] | None]


@dataclass
class Played:
    """A history under way: its schema's name, its sessions, and what its statements did."""

    history: History
    schema: str
    #: Whether texts are compared as characters: the target keeps all in UTF-8, which it may call latin1, or has another
    #: charset.
    in_utf8: bool = False
    sessions: list[Connection[Any]] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    #: Whether the target has taken the statements that make its table another one.
    target_differs: bool = True
    statements: int = 0
    failed: int = 0
    #: What ties the steps of which one failed.
    broken: set[str] = field(default_factory=set)
    #: The statements that the upstream executed.
    done: list[str] = field(default_factory=list)
    #: Upstream contents that rules freeze, by the upstream's table.
    frozen: Contents = field(default_factory=dict)
    #: What a full copy without replication should have, by source.
    copied: dict[str, Copied] = field(default_factory=dict)
    #: How the target differed when the task was waited for.
    early: str = ""
    #: How the replica that took the upstream's place was not like it.
    unlike: str = ""
    #: What the target's table should hold, where a filter leaves out changes of some rows.
    filtered: FilteredRows | None = None

    @property
    def rules(self) -> Rules:
        return rules_of(self.history, self.schema)

    def text(self, sql: str, file: str, shard: int = 0) -> str:
        return self.rules.placed(sql, shard).replace("{file}", file)

    @property
    def schemas(self) -> list[str]:
        return [*self.rules.shard_schemas, f"{self.schema}_b"]

    def close(self) -> None:
        for session in self.sessions:
            session.close()
        if self.filtered is not None:
            self.filtered.close()

    def expected(self, there: Contents, *, unsigned_zero: bool) -> Contents:
        """What the target should hold, by its own tables, with this content upstream.

        ``unsigned_zero``: it has no negative zero.
        """
        parts: dict[oracle.Table, list[oracle.Content | None]] = {}
        for table, found in {**there, **self.frozen}.items():
            parts.setdefault(self.rules.target_of(table), []).append(found)
        want = {table: oracle.merged(found) for table, found in parts.items()}
        if self.filtered is not None:
            want[self.rules.target_of((self.schema, "t"))] = self.filtered.content()
        if not unsigned_zero:
            return want
        return {table: None if found is None else oracle.without_signs(found) for table, found in want.items()}

    def reading(self, table: oracle.Table) -> oracle.Reading:
        """How the upstream shows a table's rows as the target should have them."""
        return replace(self.rules.reading(table), in_utf8=self.in_utf8)

    def contents(self, upstream: SQLServer, tables: Sequence[oracle.Table]) -> Contents:
        """The upstream's tables, read so."""
        return oracle.contents(upstream, dict.fromkeys(tables), self.reading)
