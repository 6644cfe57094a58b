"""The block-allow-list: which schemas and tables of an upstream take part in a task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pkg import errors
from pkg.config.model import BlockAllowList
from pkg.mysql.names import SYSTEM_SCHEMAS
from pkg.selector import CACHE_SIZE, REGEX_MARK, DuplicatePatternError, NamePattern, Selector


class _NameSet:
    """Patterns over schema names, or over (schema, table) pairs."""

    def __init__(self, entries: Iterable[tuple[str, str]], case_sensitive: bool) -> None:
        self._case_sensitive = case_sensitive
        self._wildcards: Selector[bool] = Selector(case_sensitive)
        self._regexes: list[tuple[NamePattern, NamePattern | None]] = []
        self.empty = True
        for schema, table in entries:
            self._add(schema, table)

    def _add(self, schema: str, table: str) -> None:
        self.empty = False
        if REGEX_MARK in (schema[:1], table[:1]):
            table_pattern = NamePattern(table, self._case_sensitive) if table else None
            self._regexes.append((NamePattern(schema, self._case_sensitive), table_pattern))
            return
        try:
            self._wildcards.insert(schema, table, True)
        except DuplicatePatternError:
            return  # The list is a set: naming a table twice says nothing new.

    def __contains__(self, name: tuple[str, str]) -> bool:
        schema, table = name
        if self._wildcards.match(schema, table).all:
            return True
        return any(s.matches(schema) and (t is None or t.matches(table)) for s, t in self._regexes)


class BlockAllowListFilter:
    """Decides per table, in DM's order: system schemas, do-dbs, ignore-dbs, do-tables, ignore-tables.

    ``meta_schema``: where the target keeps the task's progress; an upstream's schema of that name is left out.
    Raises a 20044 error for an entry that is not valid. Picklable; decisions are remembered per table.
    """

    def __init__(self, bal: BlockAllowList | None, case_sensitive: bool, meta_schema: str = "") -> None:
        rules = bal or BlockAllowList()
        self._meta_schema = meta_schema
        self._do_dbs = _build("do-dbs", [(name, "") for name in rules.do_dbs], case_sensitive)
        self._ignore_dbs = _build("ignore-dbs", [(name, "") for name in rules.ignore_dbs], case_sensitive)
        self._do_tables = _build("do-tables", [(t.db_name, t.tbl_name) for t in rules.do_tables], case_sensitive)
        self._ignore_tables = _build(
            "ignore-tables", [(t.db_name, t.tbl_name) for t in rules.ignore_tables], case_sensitive
        )
        self._cache: dict[tuple[str, str], bool] = {}

    def allows(self, schema: str, table: str = "") -> bool:
        """Whether the table (or, without one, the schema) takes part in the task."""
        key = (schema, table)
        allowed = self._cache.get(key)
        if allowed is None:
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            allowed = self._cache[key] = self._decide(schema, table)
        return allowed

    def _decide(self, schema: str, table: str) -> bool:
        if schema.lower() in SYSTEM_SCHEMAS or schema == self._meta_schema:
            return False
        if not self._do_dbs.empty:
            if (schema, "") not in self._do_dbs:
                return False
        elif (schema, "") in self._ignore_dbs:
            return False
        if not table or (schema, table) in self._do_tables:
            return True
        return (schema, table) not in self._ignore_tables and self._do_tables.empty

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
            "ConfigGenBAList",
            f"{key} of the block-allow-list is not valid: {exc}",
            workaround="Please check the `block-allow-list` config in task configuration file.",
        ) from exc
