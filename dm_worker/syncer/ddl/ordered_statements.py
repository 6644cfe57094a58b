"""Applies the operators' orders to a statement: what the target executes, and what the tracker follows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dm_worker.syncer.checkpoint.ddl_table import DDLRecord
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.checkpoint.protocol import BatchProgress
from dm_worker.syncer.ddl.executor import DDLExecutor, StatementContext
from dm_worker.syncer.ddl.operator_orders import STRIDE, OrderDecision, meeting
from dm_worker.syncer.ddl.parts import OrderedPart, Part, StatementParts
from dm_worker.syncer.ddl.routed_steps import StepRouter
from dm_worker.syncer.planning.instructions import BinlogStatement
from pkg.binlog.events import QueryEvent
from pkg.errors import DMError
from pkg.ha.binlog_operator import OperatorSource
from pkg.mysql.names import TableId
from pkg.process.log import get_logger

log = get_logger("syncer.ddl")

#: The number of the record that holds a statement's decision, among those of its parts.
DECISION = -1
#: Bits of sql_mode that change how SQL is parsed; an operator's SQL is parsed without them: PIPES_AS_CONCAT,
#: ANSI_QUOTES, IGNORE_SPACE, ORACLE, MAXDB, NO_BACKSLASH_ESCAPES, HIGH_NOT_PRECEDENCE.
_READING_MODES = sum(1 << bit for bit in (1, 2, 3, 9, 12, 20, 29))


@dataclass(frozen=True, slots=True)
class OrderedParts:
    """``target`` is executed in order, then the structures follow ``followed``.

    ``lenient``: an operator skipped the statement, so a part that can't be followed does not stop the task; rows
    with another structure then stop it.
    """

    target: tuple[OrderedPart, ...]
    followed: tuple[Part, ...]
    lenient: bool = False


def typed(query: QueryEvent) -> QueryEvent:
    """The session of the event for statements of an operator."""
    mode = None if query.sql_mode is None else query.sql_mode & ~_READING_MODES
    # The operator has judged what the event says of them.
    return replace(query, sql_mode=mode, error_code=0, unknown_variable=None)


class OrderedStatements:
    """Decides what happens to each statement of one run."""

    def __init__(
        self,
        parts: StatementParts,
        store: MetaStore,
        orders: OperatorSource,
        executor: DDLExecutor,
        router: StepRouter,
    ) -> None:
        self._parts = parts
        self._store = store
        self._orders = orders
        self._executor = executor
        self._router = router

    def ordered(self, statement: BinlogStatement, query: QueryEvent, intent: BatchProgress) -> OrderedParts:
        """Makes the decision durable with ``intent`` if there is an order. Raises DMError."""
        decision = self._decide(statement, query, intent)
        given = self._parts.given(decision.statements, decision.first_number)
        added = tuple(OrderedPart(part, typed(query)) for part in given)
        if decision.kind in ("skip", "replace"):
            return OrderedParts(added, tuple(self._understood(query, instead=given)), lenient=True)
        parts = self._parts.migrated(query)
        own = tuple(OrderedPart(part, part.in_session(query)) for part in self._parts.for_target(parts))
        return OrderedParts((*added, *own), tuple(parts))

    def named(self, query: QueryEvent) -> frozenset[TableId]:
        """See :meth:`StatementParts.named`."""
        return self._parts.named(query)

    def _decide(self, statement: BinlogStatement, query: QueryEvent, intent: BatchProgress) -> OrderDecision:
        known = self._store.read_ddl(statement.position, DECISION)
        before = OrderDecision() if known is None else OrderDecision.from_json(known.statement)
        decision = before.under(meeting(statement, self._orders()))
        if decision != before:
            self._wind_up(statement, query, intent)
            log.info(
                "an operator order applies to a statement",
                position=str(statement.at),
                order=decision.kind or "as it is",
                before=before.kind or "as it is",
                statements="; ".join(decision.statements),
            )
            record = DDLRecord(statement.position, DECISION, decision.to_json(), "", done=True)
            self._store.write(intent, ddl=record)
        return decision

    def _wind_up(self, statement: BinlogStatement, query: QueryEvent, intent: BatchProgress) -> None:
        """Another order applies from now on: records what was begun as executed, or withdraws it."""
        for record in self._store.read_ddls(statement.position):
            if not record.done and record.fingerprint:
                context = StatementContext(typed(query) if record.index >= STRIDE else query, statement.event.timestamp)
                step = self._router.settling(record.statement, context)
                self._store.write(intent, ddl=self._executor.withdrawn(record, step, context))

    def _understood(self, query: QueryEvent, *, instead: list[Part]) -> list[Part]:
        """The effect on the upstream's tables. Where the SQL does not show it, the replacement's effect is used."""
        try:
            return self._parts.migrated(query)
        except DMError as exc:
            log.warning("a skipped statement does not change the known structures", error=exc.message)
            return self._parts.left(query) or instead
