"""The records of online changes: one for each ghost table, and for each real table that was renamed away. Pure.

The JSON form is DM's, ``{"schema", "table", "ddls"}``, with additional keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from pkg import errors
from pkg.binlog.events import QueryEvent
from pkg.errors import Code
from pkg.mysql.names import TableId, qualified


@dataclass(frozen=True, slots=True)
class GhostSession:
    """The part of a session that decides what a statement means."""

    sql_mode: int | None = None
    charsets: tuple[int, int, int] | None = None
    time_zone: str = ""
    explicit_timestamp: bool | None = None
    utf8mb4_collation: int | None = None
    flags: int | None = None
    auto_increment: tuple[int, int] | None = None
    lc_time_names: int | None = None
    charset_collations: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, query: QueryEvent) -> GhostSession:
        explicit, utf8mb4 = query.explicit_defaults_for_timestamp, query.utf8mb4_collation
        others = (query.flags, query.auto_increment, query.lc_time_names, query.charset_collations)
        return cls(query.sql_mode, query.charsets, query.time_zone, explicit, utf8mb4, *others)

    def onto(self, query: QueryEvent) -> QueryEvent:
        """The event with this session."""
        return replace(
            query,
            sql_mode=self.sql_mode,
            charsets=self.charsets,
            time_zone=self.time_zone,
            explicit_defaults_for_timestamp=self.explicit_timestamp,
            utf8mb4_collation=self.utf8mb4_collation,
            flags=self.flags,
            auto_increment=self.auto_increment,
            lc_time_names=self.lc_time_names,
            charset_collations=self.charset_collations,
        )


#: The session of an event about which nothing is known.
NO_QUERY = QueryEvent(0, 0, 0, "", b"")


@dataclass(frozen=True, slots=True)
class GhostDDL:
    """A statement that changed a ghost table, with all names qualified.

    ``session`` is None for statements stored by DM: they use the session of the renaming.
    """

    sql: str
    session: GhostSession | None = None


@dataclass(frozen=True, slots=True)
class GhostRecord:
    """The record of a ghost table: ``schema`` and ``table`` are the real one, ``ddls`` the ghost's changes so far.

    ``moved``: the record of a real table that became a trash table, before a ghost has taken its name. ``schema`` and
    ``table`` are then the trash table, '' once that name was dropped or names another table. The target still has the
    table under its real name.
    """

    schema: str
    table: str
    ddls: tuple[GhostDDL, ...] = ()
    moved: bool = False

    def with_ddl(self, ddl: GhostDDL) -> GhostRecord:
        return replace(self, ddls=(*self.ddls, ddl))

    @property
    def other(self) -> TableId:
        """The real table of a ghost, or the trash table of a real table."""
        return self.schema, self.table

    def to_json(self) -> str:
        """ASCII JSON, which a table of any charset can store."""
        data: dict[str, Any] = {
            "schema": self.schema,
            "table": self.table,
            "ddls": [ddl.sql for ddl in self.ddls],
            "sessions": [_session_data(ddl.session) for ddl in self.ddls],
        }
        return json.dumps(data | ({"moved": True} if self.moved else {}))

    @classmethod
    def from_json(cls, text: str, name: TableId) -> GhostRecord:
        """Reads DM's records, too. Raises 36039 for invalid text; ``name`` is the record's table."""
        try:
            data = json.loads(text)
            ddls = [str(sql) for sql in data.get("ddls") or ()]
            sessions = [_session(one) for one in data.get("sessions") or [None] * len(ddls)]
            made = tuple(GhostDDL(sql, session) for sql, session in zip(ddls, sessions, strict=True))
            return cls(str(data["schema"]), str(data["table"]), made, bool(data.get("moved")))
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise errors.new(
                Code.SyncerUnitOnlineDDLInvalidMeta,
                f"the stored record of the online change through {qualified(*name)} can't be read: {text[:200]}",
                raw=exc,
                scope="downstream",
                workaround="Correct the column ddls in this row of the task's onlineddl table, or delete the row if "
                "the change was abandoned; then resume the task.",
            ) from exc


#: Records by the schema and name of the ghost table, or of the real table that was renamed away.
Ghosts: TypeAlias = "Mapping[TableId, GhostRecord]"


def _session_data(session: GhostSession | None) -> dict[str, Any] | None:
    return None if session is None else asdict(session)


def _session(data: Any) -> GhostSession | None:
    if data is None:
        return None
    mode, charsets = data["sql_mode"], data["charsets"]
    client, connection, server = charsets or (0, 0, 0)
    return GhostSession(
        None if mode is None else int(mode),
        (int(client), int(connection), int(server)) if charsets else None,
        str(data["time_zone"]),
        # Records of earlier versions lack some of the following keys.
        data.get("explicit_timestamp"),
        data.get("utf8mb4_collation"),
        data.get("flags"),
        _pair(data.get("auto_increment")),
        data.get("lc_time_names"),
        tuple(pair for pair in map(_pair, data.get("charset_collations") or ()) if pair),
    )


def _pair(data: Any) -> tuple[int, int] | None:
    return None if data is None else (int(data[0]), int(data[1]))
