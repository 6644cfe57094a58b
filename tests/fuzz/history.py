"""A history: all that is done to an upstream and a task, as a value that a file can hold. Pure.

``{s}`` in a statement stands for the history's own schema, whose name a run chooses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

#: When a step runs: before the task, while the dump holds its snapshot (before it reads the history's first chunk, or
#: before the second), between dump and load, or while the syncer runs.
Phase = Literal["before", "snapshot", "chunk", "dumped", "live"]
PHASES: tuple[Phase, ...] = ("before", "snapshot", "chunk", "dumped", "live")
_CHARSET = re.compile(r"CHARACTER SET (\w+)")


@dataclass(frozen=True)
class Column:
    """``after`` are the attributes behind the type, in the order of the grammar."""

    name: str
    type: str
    after: tuple[str, ...] = ()

    def sql(self) -> str:
        return " ".join([f"`{self.name}`", self.type, *self.after])


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    #: Keys and constraints, as in CREATE TABLE.
    keys: tuple[str, ...] = ()
    options: str = ""

    def sql(self, schema: str = "{s}") -> str:
        parts = ", ".join([*(column.sql() for column in self.columns), *self.keys])
        return f"CREATE TABLE {schema}.`{self.name}` ({parts}) {self.options}".rstrip()


@dataclass(frozen=True)
class Step:
    """One statement, or an event around the task (``do`` = event).

    ``insert`` writes ``rows`` with the words ``how``; ``update`` sets ``values`` where ``where``; others are ``text``.
    ``tags`` are the features that it stands for once the upstream has executed it. Steps that are ``tied`` by one name
    make sense only together: after one that the upstream refuses, the rest does not run. ``shard``: on which of the
    shards of a merged table it runs.
    """

    do: Literal["sql", "insert", "update", "event"] = "sql"
    text: str = ""
    table: str = ""
    how: str = ""
    rows: tuple[Mapping[str, str], ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    session: int = 0
    phase: Phase = "live"
    tags: tuple[str, ...] = ()
    tied: str = ""
    shard: int = 0

    def sql(self) -> str:
        name = f"{{s}}.`{self.table}`"
        if self.do == "insert":
            columns = list(self.rows[0])
            tuples = ", ".join(f"({', '.join(row[column] for column in columns)})" for row in self.rows)
            shown = ", ".join(f"`{column}`" for column in columns)
            return f"{self.how} INTO {name} ({shown}) VALUES {tuples}{self._duplicates()}"
        if self.do == "update":
            return f"{self.how} {name} SET {_assignments(self.values)} {self.text}".rstrip()
        return self.text

    def _duplicates(self) -> str:
        return f" ON DUPLICATE KEY UPDATE {_assignments(self.values)}" if self.values else ""


def _assignments(values: Mapping[str, str]) -> str:
    return ", ".join(f"`{column}` = {value}" for column, value in values.items())


@dataclass(frozen=True)
class History:
    """``settings``: of the task and its servers, shared by the histories of one run. ``sessions``: what each session
    sets first. ``target``: statements at the target, between its tables' creation and the task (incremental only)."""

    seed: int
    pair: str
    settings: Mapping[str, str]
    tables: tuple[Table, ...]
    sessions: tuple[tuple[str, ...], ...]
    steps: tuple[Step, ...]
    target: tuple[str, ...] = ()
    #: Features of tables and sessions, which no step shows.
    features: tuple[str, ...] = ()
    #: What the generator was told to bring together, besides the seed.
    focus: tuple[str, ...] = ()

    @property
    def planned(self) -> frozenset[str]:
        """The features that it means to have."""
        return frozenset((*self.features, *(tag for step in self.steps for tag in step.tags)))

    @property
    def statements(self) -> int:
        return sum(step.do != "event" for step in self.steps)

    @property
    def translates(self) -> bool:
        """Whether the target has a charset that no table of the upstream names."""
        named = {charset for table in self.tables for one in table.columns for charset in _CHARSET.findall(one.type)}
        return any(charset not in named for sql in self.target for charset in _CHARSET.findall(sql))

    def without_steps(self, chosen: frozenset[int]) -> History:
        return replace(self, steps=tuple(step for n, step in enumerate(self.steps) if n not in chosen))

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> History:
        found: dict[str, Any] = json.loads(text)
        return History(
            seed=found["seed"],
            pair=found["pair"],
            settings=found["settings"],
            tables=tuple(_table(one) for one in found["tables"]),
            sessions=tuple(tuple(one) for one in found["sessions"]),
            steps=tuple(_step(one) for one in found["steps"]),
            target=tuple(found["target"]),
            features=tuple(found["features"]),
            focus=tuple(found["focus"]),
        )

    @staticmethod
    def read(path: Path) -> History:
        return History.from_json(path.read_text())

    def script(self) -> str:
        """What a person runs to see it: the SQL of both sides, and what happens when."""
        lines = [f"-- task: {_shown(self.settings)}", *(f"{table.sql()};" for table in self.tables)]
        lines += [f"-- target: {statement};" for statement in self.target]
        phase, session = "", -1
        for step in self.steps:
            if step.phase != phase:
                phase = step.phase
                lines.append(f"-- {phase}")
            if step.session != session and len(self.sessions) > step.session:
                session = step.session
                lines.extend(f"{setting};" for setting in self.sessions[session])
            lines.append(f"-- event: {step.text}" if step.do == "event" else f"{step.sql()};")
        return "\n".join(lines)


def _shown(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def _table(found: Mapping[str, Any]) -> Table:
    columns = tuple(Column(one["name"], one["type"], tuple(one["after"])) for one in found["columns"])
    return Table(found["name"], columns, tuple(found["keys"]), found["options"])


def _step(found: Mapping[str, Any]) -> Step:
    lists = {"rows": tuple(found["rows"]), "tags": tuple(found["tags"])}
    return Step(**{**found, **lists})
