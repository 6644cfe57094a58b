"""Recognises the tables of online schema change tools (gh-ost, pt-online-schema-change) by their names.

A *ghost* table is a copy that a tool changes and that takes the real table's name in the end; *trash* is what else a
tool leaves: its log, and the real table as it was before. Neither takes part in a task with ``online-ddl``.
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
    """Names under the rules of one task; every name is a real table's without rules. Pure and picklable.

    Raises ``ValueError`` for a rule that is not valid.
    """

    def __init__(self, shadow: Iterable[str] = (), trash: Iterable[str] = ()) -> None:
        # A name that both rules match is a ghost's, as in DM.
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
        """What the real table of a ghost or trash table may be called; the name itself for a real table.

        A tool puts more underscores in front of a name that is in use: the table of ``__t_new`` is ``_t`` or ``t``.
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
    """One of the ``shadow-table-rules`` or ``trash-table-rules``: case counts, as in DM.

    Raises ``ValueError`` for text that is not a regular expression.
    """
    return NameRegex(rule, case_sensitive=True)
