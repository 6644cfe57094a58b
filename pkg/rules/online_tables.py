"""Recognises the tables of online schema change tools (gh-ost, pt-online-schema-change) by their names.

A *ghost* table is a copy that a tool changes and that gets the real table's name at the end; *trash* is the rest that a
tool leaves: its log, and the old real table. Neither takes part in a task with ``online-ddl``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from pkg.rules.model import OnlineTableSettings
from pkg.rules.name_regex import NameRegex


class TableKind(enum.Enum):
    REAL = "real"
    GHOST = "shadow-table-rules"
    TRASH = "trash-table-rules"


class OnlineTables:
    """Names under the rules of one task; without rules every name is a real table's. Pure and picklable.

    Raises ``ValueError`` for an invalid rule.
    """

    def __init__(self, shadow: Iterable[str] = (), trash: Iterable[str] = ()) -> None:
        # A name that matches both rules is a ghost's, as in DM.
        self._rules = tuple(
            (kind, compile_online_rule(rule))
            for kind, rules in ((TableKind.GHOST, shadow), (TableKind.TRASH, trash))
            for rule in rules
        )

    @classmethod
    def of(cls, cfg: OnlineTableSettings) -> OnlineTables:
        """The rules of a subtask: none when ``online-ddl`` is off."""
        return cls(cfg.shadow_table_rules, cfg.trash_table_rules) if cfg.online_ddl else cls()

    def kind(self, table: str) -> TableKind:
        return next((kind for kind, rule in self._rules if rule.search(table)), TableKind.REAL)

    def real_names(self, table: str) -> Iterator[str]:
        """The possible names of a ghost or trash table's real table; the name itself for a real table.

        A tool adds more underscores before a name that is in use: the table of ``__t_new`` is ``_t`` or ``t``.
        """
        found = next((match for _, rule in self._rules if (match := rule.search(table))), None)
        if found is None:
            yield table
            return
        name = found[1] or ""
        yield name
        while name[:1] == "_" and name[1:]:
            name = name[1:]
            yield name


def compile_online_rule(rule: str) -> NameRegex:
    """One of the ``shadow-table-rules`` or ``trash-table-rules``: case-sensitive, as in DM.

    Raises ``ValueError`` for an invalid regular expression.
    """
    return NameRegex(rule, case_sensitive=True)
