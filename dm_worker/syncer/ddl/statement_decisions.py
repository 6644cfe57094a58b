"""Which parts of a statement the target gets at once, and what is reported to shard groups: a class per shard mode.

Without merged tables, the target gets everything at once. With merged shards, it gets most statements after the DDL
lock has decided, through :meth:`DDLBarrier.settle`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dm_worker.syncer.ddl.executor import RoutedPart, StatementContext, contexts_text
from dm_worker.syncer.ddl.operator_orders import STRIDE, refused
from dm_worker.syncer.ddl.ordered_statements import OrderedParts
from dm_worker.syncer.ddl.parts import OrderedPart, Part
from dm_worker.syncer.ddl.routed_steps import StepRouter
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.shard_ddl.pessimistic import Pessimistic
from dm_worker.syncer.shard_ddl.statement_effects import (
    changes_group,
    comes_to_nothing,
    goes_on,
    mixes_in_renaming,
    runs_at_once,
)
from pkg import ddl
from pkg.mysql.names import TableId, qualified
from pkg.rules.online_tables import TableKind


class ShardReports:
    """The reports on one statement to shard groups. Here: none."""

    def followed(self, part: Part) -> None:
        """The structures have followed a part that was not void."""

    def ended(self) -> None:
        """All parts were followed."""


class StatementDecisions(ABC):
    """Decides for the statements of one run."""

    @abstractmethod
    def adapted(self, ordered: OrderedParts) -> OrderedParts:
        """``ordered`` in a form that can be followed. Raises 11118 for an operator's statement without effect."""

    @abstractmethod
    def due(self, routed: Sequence[RoutedPart]) -> Sequence[RoutedPart]:
        """The parts that the target gets now."""

    @abstractmethod
    def reports(self, statement: BinlogStatement, ordered: OrderedParts) -> ShardReports:
        """The reports for the time after the due parts were executed."""


class AtOnce(StatementDecisions):
    """No tables merge: each part is executed at its own location."""

    def adapted(self, ordered: OrderedParts) -> OrderedParts:
        return ordered

    def due(self, routed: Sequence[RoutedPart]) -> Sequence[RoutedPart]:
        return routed

    def reports(self, statement: BinlogStatement, ordered: OrderedParts) -> ShardReports:
        return ShardReports()


class ByShardGroups(StatementDecisions):
    """Pessimistic mode: reports to the shard groups what their tables have run, and asks when the target gets it."""

    def __init__(self, sharding: Pessimistic, router: StepRouter, online: OnlineDDL) -> None:
        self._sharding = sharding
        self._router = router
        self._online = online

    def adapted(self, ordered: OrderedParts) -> OrderedParts:
        adapted = _taken_apart(ordered)
        self._ensure_heeded(adapted)
        return adapted

    def due(self, routed: Sequence[RoutedPart]) -> Sequence[RoutedPart]:
        return [part for part in routed if runs_at_once(part.step.parsed, self._router.route)]

    def reports(self, statement: BinlogStatement, ordered: OrderedParts) -> ShardReports:
        # A transaction that was interrupted after its statement begins again.
        if self._sharding.has_met(statement):
            return ShardReports()
        return _GroupReports(self._sharding, self._router, self._online, statement, ordered)

    def _ensure_heeded(self, ordered: OrderedParts) -> None:
        """Raises 11118 for an operator's statement that would silently do nothing."""
        followed = [part.parsed for part in ordered.followed]
        for part in (ordered_part.part for ordered_part in ordered.target if ordered_part.part.number >= STRIDE):
            if comes_to_nothing(part.parsed, followed, self._router.route):
                raise refused(
                    f"with shard-mode, the target does not get {part.parsed.sql[:500]}, because its table also "
                    "belongs to other shards",
                    "Execute what is needed on the target by hand, and give the order again without this statement.",
                )


class _GroupReports(ShardReports):
    """One statement, for the shard groups. An operator's statement counts as a separate DDL, as if the table had run it
    alone."""

    def __init__(
        self,
        sharding: Pessimistic,
        router: StepRouter,
        online: OnlineDDL,
        statement: BinlogStatement,
        ordered: OrderedParts,
    ) -> None:
        self._sharding = sharding
        self._router = router
        self._online = online
        self._statement = statement
        self._ordered = ordered

    def followed(self, part: Part) -> None:
        if self._online.is_real(part.parsed):
            self._report(part, _given_for(part, self._ordered))

    def ended(self) -> None:
        for part in self._additional():
            self._report(part, _on_table_of(part, self._ordered))
        for table in self._swapped_in():
            self._sharding.restructured(self._statement, table)

    def _report(self, part: Part, given: list[OrderedPart]) -> None:
        """Reports the target's statements for a part, which an operator may have decided.

        Raises 11118 for an operator's part on a table that is no shard.
        """
        self._ensure_shard(part)
        by_operator = [[ordered_part] for ordered_part in given if ordered_part.part.number >= STRIDE]
        own = [ordered_part for ordered_part in given if ordered_part.part.number < STRIDE]
        for one in [*by_operator, own] if own or not by_operator else by_operator:
            steps = [self._router.of_parsed(ordered_part.part.parsed) for ordered_part in one]
            executed = tuple(ddl.uniform(step.text, step.parsed.dialect) for step in steps)
            timestamp = self._statement.event.timestamp
            contexts = contexts_text(StatementContext(ordered_part.session, timestamp) for ordered_part in one)
            self._sharding.met(self._statement, part.parsed, executed, contexts, passed_over=self._ordered.lenient)

    def _ensure_shard(self, part: Part) -> None:
        table = part.parsed.tables[0]
        if part.number >= STRIDE and goes_on(part.parsed) and not self._sharding.knows(table):
            # It would join as a shard that never runs any DDL, and block all others.
            target = qualified(*self._router.route(*table))
            raise refused(
                f"{qualified(*table)} is not one of the upstream tables that merge into {target}: "
                f"{part.parsed.sql[:500]}",
                "Write the statement with the name of the upstream table whose rows follow it.",
            )

    def _additional(self) -> Iterable[Part]:
        """One part for each table that an operator or the swap of a ghost table has changed at the target, but the
        statement itself does not change."""
        real = (part.parsed for part in self._ordered.followed if self._online.is_real(part.parsed))
        known = {parsed.tables[:1] for parsed in real if _changes_only(parsed)}
        found = {ordered_part.part.parsed.tables[:1]: ordered_part.part for ordered_part in _changes(self._ordered)}
        return [part for tables, part in found.items() if tables not in known]

    def _swapped_in(self) -> set[TableId]:
        """Real tables that this statement replaces by a ghost table, and whose change the target does not get: an
        operator or a filter has left it out."""
        given = {ordered_part.part.parsed.tables[0] for ordered_part in _changes(self._ordered)}
        renamings = (part.parsed for part in self._ordered.followed if not self._online.is_real(part.parsed))
        found = {parsed.renamed[1] for parsed in renamings if parsed.renamed is not None}
        return {table for table in found - given if self._online.tables.kind(table[1]) is TableKind.REAL}


def _taken_apart(ordered: OrderedParts) -> OrderedParts:
    """The structures follow an operator's replacement of a statement that shard groups can't follow as it is."""
    mixed = any(mixes_in_renaming(part.parsed) for part in ordered.followed)
    if not (ordered.lenient and ordered.target and mixed):
        return ordered
    return replace(ordered, followed=tuple(ordered_part.part for ordered_part in ordered.target))


def _given_for(part: Part, ordered: OrderedParts) -> list[OrderedPart]:
    """The target's statements for a part that is followed."""
    if not _changes_only(part.parsed):
        return []
    found = _on_table_of(part, ordered)
    # An operator's statements that replace the binlog's are followed: each for itself.
    return [ordered_part for ordered_part in found if ordered_part.part is part] if part.number >= STRIDE else found


def _changes_only(statement: ddl.DDLStatement) -> bool:
    """Whether all tables of a group have to run it; False for one that also renames: an operator may skip it."""
    return not mixes_in_renaming(statement) and changes_group(statement)


def _changes(ordered: OrderedParts) -> list[OrderedPart]:
    """The target's statements that all tables of a group have to run."""
    return [ordered_part for ordered_part in ordered.target if changes_group(ordered_part.part.parsed)]


def _on_table_of(part: Part, ordered: OrderedParts) -> list[OrderedPart]:
    """The pieces that change the same table as the part."""
    return [one for one in _changes(ordered) if one.part.parsed.tables[:1] == part.parsed.tables[:1]]
