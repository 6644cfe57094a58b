"""Writes the upstream's default collations explicitly into statements for the target. Pure.

That is ``collation_compatible: strict``: a target whose defaults differ (TiDB's utf8mb4_bin, MySQL 8's
utf8mb4_0900_ai_ci for the utf8mb4 of an older server) still gets the upstream's collations.
"""

from __future__ import annotations

from dm_worker.syncer.ddl.variables import defaults_of
from pkg import ddl
from pkg.binlog.events import QueryEvent
from pkg.schema_tracker import ServerDefaults


class UpstreamCollations:
    """The default collations of one upstream."""

    def __init__(self, server: ServerDefaults) -> None:
        self._server = server

    def written_out(self, text: str, dialect: ddl.Dialect, query: QueryEvent) -> str:
        """A statement with qualified names, with the collations that it had in the session of ``query``.

        Raises 11054 for an unknown collation of the session, 36067 for an unknown charset.
        """
        session = defaults_of(query, self._server.collations)
        parsed = ddl.parse_dialect(text, dialect, "")
        new_schema = parsed.kind == "create database"
        return ddl.with_collations(
            parsed,
            lambda charset: session.collation_of(charset) or self._server.default_collation(charset),
            self._server.default_in(session).collation if new_schema else "",
        )
