"""The names of event types and groups in filter rules, and the class of each (reference: §4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

INSERT, UPDATE, DELETE = "insert", "update", "delete"
DML: Final = frozenset({INSERT, UPDATE, DELETE})
#: DDL that later steps can handle: it is in no class of incompatible changes.
_PLAIN_DDL: Final = frozenset(
    {"create database", "alter database", "create table", "create index", "create view", "drop view", "alter table"}
    | {"add table partition"}
)
INCOMPATIBLE: Final = frozenset(
    {"drop database", "drop table", "truncate table", "rename table", "drop index"}
    | {"drop table partition", "truncate table partition", "add foreign key", "drop foreign key"}
    | {"value range decrease", "precision decrease", "modify column", "rename column", "rename index", "drop column"}
    | {"drop primary key", "drop unique key", "modify default value", "modify constraint", "modify columns order"}
    | {"modify charset", "modify collation", "remove auto increment", "modify storage engine"}
    | {"reorganize table partition", "rebuild table partition", "coalesce table partition", "split table partition"}
    | {"exchange table partition", "modify schema charset and collate", "modify table charset and collate"}
    | {"modify table comment", "recover table", "alter table partitioning", "remove table partitioning", "add column"}
    | {"set default value", "rebase auto id", "add primary key", "alter index visibility", "alter ttl info"}
    | {"alter ttl remove", "multi schema change"}
)
DDL: Final = _PLAIN_DDL | INCOMPATIBLE
EVENT_TYPES: Final = DML | DDL
GROUPS: Final[dict[str, tuple[frozenset[str], bool]]] = {
    "all": (EVENT_TYPES, True),
    "none": (EVENT_TYPES, False),
    "all dml": (DML, True),
    "none dml": (DML, False),
    "all ddl": (DDL, True),
    "none ddl": (DDL, False),
    "incompatible ddl changes": (INCOMPATIBLE, True),
}
_ALIASES: Final = {f"{verb} schema": f"{verb} database" for verb in ("create", "drop", "alter")}


def normal_name(entry: str) -> str:
    """An entry of ``events`` in the spelling of our tables; ignores blanks and case. Raises ``ValueError`` if
    unknown."""
    name = " ".join(entry.lower().split())
    name = _ALIASES.get(name, name)
    if name not in EVENT_TYPES and name not in GROUPS:
        raise ValueError(f"event {entry!r} is unknown")
    return name


def covers(entry: str) -> tuple[frozenset[str], bool]:
    """The types that a normal entry covers, and whether it includes or excludes them."""
    return GROUPS.get(entry) or (frozenset({entry}), True)


def listed(types: Sequence[str], entries: Sequence[str]) -> bool:
    """Whether an event is in the list: the first matching entry decides.

    The first of ``types`` is its class, which groups use; an entry may also name one of the others.
    """
    for entry in entries:
        members, verdict = covers(entry)
        if types[0] in members or entry in types:
            return verdict
    return False
