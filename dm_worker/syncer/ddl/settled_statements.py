"""The statements of a DDL of merged shards, executed after the DDL lock has decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dm_worker.syncer.checkpoint.ddl_table import SETTLING, DDLRecord
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.checkpoint.protocol import BatchProgress
from dm_worker.syncer.ddl.executor import DDLExecutor, DDLStep, StatementContext, contexts_of
from dm_worker.syncer.ddl.operator_orders import readable, settling_number
from dm_worker.syncer.ddl.ordered_statements import typed
from dm_worker.syncer.ddl.parts import StatementParts
from dm_worker.syncer.ddl.routed_steps import StepRouter
from dm_worker.syncer.ddl.statement_advice import unsettled
from dm_worker.syncer.ddl.statement_effect import StatementEffect, by_others, effect_of
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg import ddl
from pkg.binlog.position import Position
from pkg.errors import DMError
from pkg.ha.binlog_operator import BinlogOperator, OperatorSource
from pkg.process.log import get_logger

log = get_logger("syncer.ddl")


class SettledStatements:
    """Executes for one run. The statements were read, filtered and routed when the shards ran them."""

    def __init__(
        self,
        parts: StatementParts,
        router: StepRouter,
        executor: DDLExecutor,
        store: MetaStore,
        orders: OperatorSource,
    ) -> None:
        self._parts = parts
        self._router = router
        self._executor = executor
        self._store = store
        self._orders = orders

    def execute(self, settle: SettleDDL, intent: BatchProgress) -> tuple[DDLRecord | None, StatementEffect]:
        """Executes the DDL that all tables of the group have run, unless it already ran. Returns the record of its last
        statement, or None for one that an operator leaves out, and what it may have changed.

        ``intent`` is the progress to write with each record. Raises DMError.
        """
        order = next((readable(one) for one in self._orders() if settle.covers(one.at)), None)
        if order is not None and order.kind == "skip":
            log.info("an operator skips a DDL of merged shards", statements="; ".join(settle.statements))
            return None, by_others(settle.target)
        # The decision is followed once: another one for the same statements is another order.
        position = Position(settle.key, settle.revision)
        record: DDLRecord | None = None
        steps: list[DDLStep] = []
        try:
            for index, step, context in self._steps(settle, order):
                if record is not None:
                    self._store.write(intent, ddl=record)
                record = self._executor.once(position, index, step, context, intent)
                steps.append(step)
        except DMError as exc:
            raise unsettled(exc, settle) from exc
        return record, effect_of(steps)

    def _steps(
        self, settle: SettleDDL, order: BinlogOperator | None
    ) -> Iterator[tuple[int, DDLStep, StatementContext]]:
        """The statements of a DDL that all shards have run, or those that an operator gives in place of it."""
        contexts = contexts_of(settle.session)
        if order is not None and order.kind == "replace":
            steps = [self._router.of_parsed(part.parsed) for part in self._parts.given(order.statements, 0)]
            executed = {ddl.uniform(step.text, step.parsed.dialect) for step in steps}
            # An order for the shard's own statement counts as the shards' statement, and is settled as such.
            if not executed.issuperset(settle.statements):
                log.info("an operator replaces a DDL of merged shards", statements="; ".join(order.statements))
                context = replace(contexts[0], query=typed(contexts[0].query))
                yield from ((settling_number(order.statements) - i, step, context) for i, step in enumerate(steps))
                return
        for i, (text, context) in enumerate(zip(settle.statements, contexts, strict=True)):
            yield SETTLING - i, self._router.settling(text, context), context
