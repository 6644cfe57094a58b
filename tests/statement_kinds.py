"""The table of statement kinds in docs/exactly-once.md: what becomes of each when the binlog has it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pkg import ddl
from pkg.errors import DMError

_PAGE = Path(__file__).parents[1] / "docs" / "exactly-once.md"
_ROW = re.compile(
    r"^\| `(?P<example>.+?)` \| (?P<server>both|MariaDB|MySQL) \| (?P<becomes>[a-z]+(?: \d+)?) \|", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class StatementKind:
    """A row of the table. ``becomes``: executed, skipped, or refused with a code."""

    example: str
    server: str
    becomes: str

    def of(self, flavor: str) -> bool:
        """Whether servers of this flavor have the statement."""
        return self.server == "both" or self.server.lower() == flavor


def statement_kinds() -> list[StatementKind]:
    return [StatementKind(**row.groupdict()) for row in _ROW.finditer(_PAGE.read_text())]


def decision(sql: str, flavor: str) -> str:
    """What the syncer makes of the statement, in the table's words."""
    try:
        parsed = ddl.parse(sql, default_schema="d", flavor=flavor)
    except DMError as exc:
        return f"refused {exc.code}"
    return "skipped" if parsed.kind == "skip" else "executed"
