"""The barrier for a statement in the stream: drives it through the steps in this package's docstring.

Everything before the statement is already applied and checkpointed.
"""

from __future__ import annotations

from dm_worker.syncer.checkpoint.ddl_table import DDLRecord
from dm_worker.syncer.checkpoint.protocol import BatchProgress
from dm_worker.syncer.ddl.executor import DDLExecutor
from dm_worker.syncer.ddl.ordered_statements import OrderedStatements
from dm_worker.syncer.ddl.own_names import OwnNames
from dm_worker.syncer.ddl.routed_steps import StepRouter
from dm_worker.syncer.ddl.settled_statements import SettledStatements
from dm_worker.syncer.ddl.statement_advice import explained
from dm_worker.syncer.ddl.statement_decisions import StatementDecisions
from dm_worker.syncer.ddl.statement_effect import StatementEffect, effect_of
from dm_worker.syncer.ddl.statement_reader import StatementReader
from dm_worker.syncer.ddl.structure_follower import StructureFollower
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg.errors import DMError


class DDLBarrier:
    """Handles the statements of one run, with one object for each step."""

    def __init__(
        self,
        *,
        reader: StatementReader,
        statements: OrderedStatements,
        decisions: StatementDecisions,
        router: StepRouter,
        names: OwnNames,
        executor: DDLExecutor,
        follower: StructureFollower,
        settled: SettledStatements,
    ) -> None:
        self._reader = reader
        self._statements = statements
        self._decisions = decisions
        self._router = router
        self._names = names
        self._executor = executor
        self._follower = follower
        self._settled = settled

    def execute(self, statement: BinlogStatement, intent: BatchProgress) -> StatementEffect:
        """Executes the statement unless it already ran. Returns what it may have changed.

        ``intent`` is the progress to write with each record. Raises DMError with the range in the binlog.
        """
        try:
            return self._execute(statement, intent)
        except DMError as exc:
            raise explained(exc, statement) from exc

    def _execute(self, statement: BinlogStatement, intent: BatchProgress) -> StatementEffect:
        query = self._reader.read(statement)
        ordered = self._decisions.adapted(self._statements.ordered(statement, query, intent))
        routed = self._router.routed(statement, ordered.target)
        for one in routed:
            self._names.ensure(one.step.parsed)
        for one in self._decisions.due(routed):
            self._executor.execute(statement, one, intent)
        self._follower.follow(statement, query, ordered, self._decisions.reports(statement, ordered))
        return effect_of(
            (one.step for one in routed),
            of_the_task=bool(ordered.target or ordered.followed),
            statement=query.statement,
            named=self._statements.named(query),
        )

    def settle(self, settle: SettleDDL, intent: BatchProgress) -> tuple[DDLRecord | None, StatementEffect]:
        """Executes a DDL of merged shards that the DDL lock has decided on: :meth:`SettledStatements.execute`."""
        return self._settled.execute(settle, intent)
