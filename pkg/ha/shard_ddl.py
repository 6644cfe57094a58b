"""The records of shard DDL in pessimistic mode, as JSON with DM's field names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pkg.ha.records import Record

DDLTexts = tuple[str, ...]


class _ShardRecord(Record):
    """A record that names its attributes that are not text."""

    __slots__ = ()
    LISTS: ClassVar[frozenset[str]] = frozenset()
    FLAGS: ClassVar[frozenset[str]] = frozenset()

    def _out(self, attr: str) -> Any:
        value = getattr(self, attr)
        return list(value) if attr in self.LISTS else value

    @classmethod
    def _in(cls, attr: str, value: Any) -> Any:
        if attr in cls.LISTS:
            return _texts(value, cls.FIELDS[attr])
        if attr in cls.FLAGS:
            if not isinstance(value, bool):
                raise TypeError(f"{cls.FIELDS[attr]} is neither true nor false")
            return value
        return super()._in(attr, value)


@dataclass(frozen=True, slots=True)
class ShardInfo(_ShardRecord):
    """A source waits with ``ddls``, already routed to the target's ``schema``.``table``, one statement each.

    ``since`` (RFC 3339) is ours: when the source began to wait.
    """

    task: str
    source: str
    schema: str
    table: str
    ddls: DDLTexts
    since: str = ""
    FIELDS: ClassVar[dict[str, str]] = {
        "task": "task", "source": "source", "schema": "schema", "table": "table", "ddls": "ddls", "since": "since",
    }  # fmt: skip
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"since"})
    LISTS: ClassVar[frozenset[str]] = frozenset({"ddls"})


@dataclass(frozen=True, slots=True)
class ShardOperation(_ShardRecord):
    """The operation of ``source`` for the ``ddls`` that it reported to lock ``id``: execute or skip. The source then
    sets ``done``.

    ``error`` is ours: why its last attempt to execute them failed.
    """

    id: str
    task: str
    source: str
    ddls: DDLTexts
    execute: bool
    done: bool = False
    error: str = ""
    FIELDS: ClassVar[dict[str, str]] = {
        "id": "id", "task": "task", "source": "source", "ddls": "ddls", "execute": "exec", "done": "done",
        "error": "error",
    }  # fmt: skip
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"error"})
    LISTS: ClassVar[frozenset[str]] = frozenset({"ddls"})
    FLAGS: ClassVar[frozenset[str]] = frozenset({"execute", "done"})


@dataclass(frozen=True, slots=True)
class ShardUnlock(_ShardRecord):
    """An operator's order to resolve lock ``id`` as it stood.

    ``owner`` executes first; ``sequences`` are executed one after the other, each by one source; ``waiting`` is what
    each source had reported, and may therefore skip.
    """

    id: str
    task: str
    owner: str
    sequences: tuple[DDLTexts, ...]
    waiting: Mapping[str, DDLTexts] = field(hash=False)
    FIELDS: ClassVar[dict[str, str]] = {
        "id": "id", "task": "task", "owner": "owner", "sequences": "sequences", "waiting": "waiting",
    }  # fmt: skip

    def _out(self, attr: str) -> Any:
        if attr == "sequences":
            return [list(sequence) for sequence in self.sequences]
        if attr == "waiting":
            return {source: list(ddls) for source, ddls in sorted(self.waiting.items())}
        return getattr(self, attr)

    @classmethod
    def _in(cls, attr: str, value: Any) -> Any:
        if attr == "sequences":
            if not isinstance(value, list):
                raise TypeError("sequences is not a list")
            return tuple(_texts(sequence, attr) for sequence in value)
        if attr == "waiting":
            return {source: _texts(ddls, attr) for source, ddls in _mapping(value, attr).items()}
        return super(ShardUnlock, cls)._in(attr, value)


@dataclass(frozen=True, slots=True)
class ShardTables(_ShardRecord):
    """The upstream tables of a source: target schema → target table → upstream schema → its tables, as in DM's JSON."""

    task: str
    source: str
    tables: Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]] = field(hash=False)
    FIELDS: ClassVar[dict[str, str]] = {"task": "task", "source": "source", "tables": "tables"}

    def has(self, schema: str, table: str) -> bool:
        """Whether any table of the source is routed to the target ``schema``.``table``."""
        return any(self.tables.get(schema, {}).get(table, {}).values())

    def _out(self, attr: str) -> Any:
        if attr != "tables":
            return getattr(self, attr)
        return {
            schema: {
                table: {up: {name: {} for name in sorted(names)} for up, names in sorted(ups.items())}
                for table, ups in sorted(targets.items())
            }
            for schema, targets in sorted(self.tables.items())
        }

    @classmethod
    def _in(cls, attr: str, value: Any) -> Any:
        if attr != "tables":
            return super(ShardTables, cls)._in(attr, value)
        return {
            schema: {
                table: {up: tuple(sorted(_mapping(names, attr))) for up, names in _mapping(ups, attr).items()}
                for table, ups in _mapping(targets, attr).items()
            }
            for schema, targets in _mapping(value, attr).items()
        }


def _texts(value: Any, name: str) -> DDLTexts:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise TypeError(f"{name} is not a list of texts")
    return tuple(value)


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} is not an object")
    return value
