"""Facts about the target as a whole, for table plans: collations, engines, foreign keys."""

from __future__ import annotations

from dm_worker.syncer.ddl.servers_keys import ServersKeys
from dm_worker.syncer.rows.conflict_sets import checked_keys
from dm_worker.syncer.rows.known_collations import KNOWN_COLLATIONS
from dm_worker.syncer.rows.server_lookup import ServerLookup
from pkg.config.model import SubTaskConfig
from pkg.mysql import engines
from pkg.mysql.collation_weights import CollationWeights, fetch_characters, fetch_collation_weights
from pkg.mysql.computing_sessions import computing_settings, differing
from pkg.mysql.introspect import server_info
from pkg.mysql.schema import ForeignKey
from pkg.mysql.target_values import TargetValues, fetch_target_values
from pkg.process.log import get_logger

log = get_logger("syncer")


class TargetFacts:
    """Used by the planning thread; by the main thread only while no planning thread reads. Methods raise DMError."""

    def __init__(self, cfg: SubTaskConfig, target: ServerLookup, servers_keys: ServersKeys) -> None:
        self._cfg = cfg
        self._target = target
        self._servers_keys = servers_keys
        self._engines: frozenset[str] | None = None
        self._weights: dict[str, CollationWeights | None] = {}
        self._charsets: dict[str, str | None] = {}
        self._differing: frozenset[str] | None = None

    def unsafe_engines(self) -> frozenset[str]:
        """The target's engines that can't roll back; none where an operator takes responsibility for their tables."""
        if self._engines is None:
            ignored = not {engines.IGNORE, "all"}.isdisjoint(self._cfg.ignore_checking_items)
            asked = engines.engines_without_transactions
            self._engines = frozenset() if ignored else self._target.ask(asked)
        return self._engines

    def checked_keys(self) -> list[ForeignKey]:
        """The target's foreign keys by which rows are written with checks."""
        checks = self._cfg.to.foreign_key_checks
        if checks is None and self._servers_keys.logged_upstream:
            checks = False
        return checked_keys(checks, self._servers_keys.of_target)

    def collation_weights(self, charset: str, collation: str) -> CollationWeights | None:
        """Queried once per run, and cached by the process: a running server's collations don't change."""

        def ask() -> CollationWeights | None:
            found = self._target.ask(lambda conn: fetch_collation_weights(conn, charset, collation))
            log.info("read a collation from the target", collation=collation, known=bool(found))
            return found

        if collation not in self._weights:
            version = self._target.ask(server_info).version_text
            key = (self._cfg.to.host, self._cfg.to.port, version, collation)
            self._weights[collation] = KNOWN_COLLATIONS.get(key, ask)
        return self._weights[collation]

    def differing_variables(self, upstream: ServerLookup) -> frozenset[str]:
        """The variables for which the upstream's sessions compute generated columns differently than the writers."""
        if self._differing is None:
            there = upstream.ask(computing_settings)
            self._differing = differing(there, self._target.ask(computing_settings), dict(self._cfg.to.session))
        return self._differing

    def values(self) -> TargetValues:
        """The forms in which the target takes values."""
        return self._target.ask(fetch_target_values)

    def characters(self, charset: str) -> str | None:
        if charset not in self._charsets:
            self._charsets[charset] = self._target.ask(lambda conn: fetch_characters(conn, charset))
        return self._charsets[charset]
