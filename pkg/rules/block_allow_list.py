"""The block-allow-list: which schemas and tables of an upstream take part in a task."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pkg import errors
from pkg.errors import Code
from pkg.mysql.names import SYSTEM_SCHEMAS
from pkg.rules.model import BlockAllowList, TableChoiceSettings
from pkg.rules.online_tables import OnlineTables, TableKind
from pkg.rules.regex_selector import RegexSelector
from pkg.rules.selector import CACHE_SIZE, REGEX_MARK, DuplicatePatternError, Selector


@dataclass(frozen=True, slots=True)
class AllowListDecision:
    """Whether a name takes part, and the reason: the ``key`` of the list and the index of its entry.

    ``item`` is -1 when no entry matched. ``key`` is empty when nothing decided, *system* for a system schema,
    *meta-schema* for one of that name, *shadow-table-rules* or *trash-table-rules* for a table of an online DDL tool.
    """

    allowed: bool
    key: str = ""
    item: int = -1


class _NameSet:
    """Patterns over schema names, or over (schema, table) pairs."""

    def __init__(self, entries: Sequence[tuple[str, str]], case_sensitive: bool) -> None:
        self._wildcards: Selector[int] = Selector(case_sensitive)
        self._regexes: RegexSelector[int] = RegexSelector(case_sensitive)
        self.empty = not entries
        for item, (schema, table) in enumerate(entries):
            self._add(schema, table, item)

    def _add(self, schema: str, table: str, item: int) -> None:
        if REGEX_MARK in (schema[:1], table[:1]):
            self._regexes.insert(schema, table, item)
            return
        # The list is a set: a repeated table has no effect.
        with contextlib.suppress(DuplicatePatternError):
            self._wildcards.insert(schema, table, item)

    def matching(self, schema: str, table: str) -> list[int]:
        """The indexes of the matching entries."""
        schema_level, table_level = self._regexes.match(schema, table)
        return sorted([*self._wildcards.match(schema, table).all, *schema_level, *table_level])


class BlockAllowListFilter:
    """Decides per table, in DM's order: system schemas, do-dbs, ignore-dbs, do-tables, ignore-tables.

    ``meta_schema``: the target's schema for the task's progress; an upstream's schema of that name is excluded.
    ``online``: tables of online DDL tools are excluded, too. Raises a 20044 error for an invalid entry. Picklable;
    decisions are cached per table.
    """

    def __init__(
        self,
        bal: BlockAllowList | None,
        case_sensitive: bool,
        meta_schema: str = "",
        online: OnlineTables | None = None,
    ) -> None:
        rules = bal or BlockAllowList()
        self._meta_schema = meta_schema
        self._online = online or OnlineTables()
        tables = {"do-tables": rules.do_tables, "ignore-tables": rules.ignore_tables}
        self._lists = {
            "do-dbs": _build("do-dbs", [(name, "") for name in rules.do_dbs], case_sensitive),
            "ignore-dbs": _build("ignore-dbs", [(name, "") for name in rules.ignore_dbs], case_sensitive),
            **{
                key: _build(key, [(entry.db_name, entry.tbl_name) for entry in entries], case_sensitive)
                for key, entries in tables.items()
            },
        }
        self._cache: dict[tuple[str, str], AllowListDecision] = {}

    @classmethod
    def of(cls, cfg: TableChoiceSettings) -> BlockAllowListFilter:
        """The list of a subtask. Raises 20044."""
        return cls(cfg.block_allow_list, cfg.case_sensitive, cfg.meta_schema, OnlineTables.of(cfg))

    def allows(self, schema: str, table: str = "") -> bool:
        """Whether the table (or, without one, the schema) takes part in the task."""
        return self.verdict(schema, table).allowed

    def verdict(self, schema: str, table: str = "") -> AllowListDecision:
        """As :meth:`allows`, with the reason."""
        key = (schema, table)
        verdict = self._cache.get(key)
        if verdict is None:
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            verdict = self._cache[key] = self._decide(schema, table)
        return verdict

    def entries(self, key: str, schema: str, table: str = "") -> list[int]:
        """The indexes of all matching entries of the list ``key`` (do-dbs, …), whether they decide or not."""
        return self._lists[key].matching(schema, table)

    def _decide(self, schema: str, table: str) -> AllowListDecision:
        if schema.lower() in SYSTEM_SCHEMAS:
            return AllowListDecision(False, "system")
        if schema == self._meta_schema:
            return AllowListDecision(False, "meta-schema")
        verdict = self._decide_schema(schema)
        if not table or not verdict.allowed:
            return verdict
        kind = self._online.kind(table)
        if kind is not TableKind.REAL:
            return AllowListDecision(False, kind.value)
        for key, allowed in (("do-tables", True), ("ignore-tables", False)):
            found = self._lists[key].matching(schema, table)
            if found:
                return AllowListDecision(allowed, key, found[0])
        return verdict if self._lists["do-tables"].empty else AllowListDecision(False, "do-tables")

    def _decide_schema(self, schema: str) -> AllowListDecision:
        key = "ignore-dbs" if self._lists["do-dbs"].empty else "do-dbs"
        found = self._lists[key].matching(schema, "")
        if key == "do-dbs":
            return AllowListDecision(True, key, found[0]) if found else AllowListDecision(False, key)
        return AllowListDecision(False, key, found[0]) if found else AllowListDecision(True)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}


def _build(key: str, entries: list[tuple[str, str]], case_sensitive: bool) -> _NameSet:
    try:
        for schema, table in entries:
            if not schema or (key.endswith("tables") and not table):
                raise ValueError("db-name and tbl-name must not be empty" if key.endswith("tables") else "empty name")
        return _NameSet(entries, case_sensitive)
    except ValueError as exc:
        raise errors.new(
            Code.ConfigGenBAList,
            f"{key} of the block-allow-list is not valid: {exc}",
            workaround="Please check the `block-allow-list` config in task configuration file.",
        ) from exc
