"""Which parts of a statement the target executes, and which only the schema tracker follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dm_worker.syncer.ddl.ghost_replay import check_agree, on_real_table
from dm_worker.syncer.ddl.known_keys import ANY_TABLE
from dm_worker.syncer.ddl.temporary_tables import TemporaryTables
from dm_worker.syncer.ddl.variables import defaults_of
from dm_worker.syncer.online_ddl.ghost_records import GhostSession
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL, Replay
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg import ddl, errors
from pkg.binlog.events import QueryEvent
from pkg.ddl.sql_modes import sql_mode_text
from pkg.errors import Code, DMError
from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import TableInfo
from pkg.process.log import get_logger
from pkg.rules.binlog_filter import event_types
from pkg.rules.online_tables import TableKind

log = get_logger("syncer.ddl")

_NOT_UNDERSTOOD, _NO_TEXT = Code.SyncerParseDDL, Code.BinlogEventDecode
#: Numbers of the statements replayed for one part: above those of a statement's own parts, and below those of orders.
_REPLAYED_BITS = 14


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a statement. ``number`` is its name within the statement, the same whatever parts the rules leave out.

    ``session`` is that of a remembered statement, None for the event's own; ``around`` the table's structure before and
    after the part, where the schema tracker does not know it.
    """

    number: int
    parsed: ddl.DDLStatement
    session: GhostSession | None = None
    around: tuple[TableInfo, TableInfo] | None = None

    def in_session(self, query: QueryEvent) -> QueryEvent:
        """The event in whose session the part runs; ``query`` is the statement's."""
        return query if self.session is None else self.session.onto(query)


@dataclass(frozen=True, slots=True)
class OrderedPart:
    """A part for the target and its session."""

    part: Part
    session: QueryEvent


class StatementParts:
    """Splits statements into parts."""

    def __init__(
        self, rules: TaskRules, source: SchemaSource, online: OnlineDDL, temporary: TemporaryTables, flavor: str
    ) -> None:
        self._rules = rules
        self._source = source
        self._online = online
        self._temporary = temporary
        self._flavor = flavor

    @property
    def _folds_names(self) -> bool:
        return self._source.tracker.server.folds_names

    def migrated(self, query: QueryEvent) -> list[Part]:
        """The parts on tables that take part in the task; the structures follow all of them.

        Raises 36067 for a statement that is not understood, unless a filter skips it or it provably names no
        migrated table, 36015 when a filter says so, 36068 for a rename out of the allow-list or into it, and where it
        is unknown whether a temporary table is meant, and 20049 for rules of online DDL that match half a swap.
        """
        try:
            parsed = self._parsed(query)
        except DMError as exc:
            text = _known_text(exc, query)
            if not text or not (self._is_filtered(query, text) or self._is_elsewhere(query, text)):
                raise
            log.warning("ignored a statement that is not understood", error=exc.message)
            return []
        if parsed.temporary:
            self._temporary.track(parsed, query)
        heeded = ddl.as_heeded(parsed)
        if heeded is None or heeded.kind == "skip":
            return []
        parsed = heeded
        parts = [part for part in _numbered(ddl.split(parsed)) if not self._temporary.takes(part.parsed, query)]
        if any(self._rules.follows(*name) for part in parts for name in part.parsed.tables):
            self._online.check_rules(parsed)
        return [part for part in parts if self._is_migrated(part.parsed)]

    def named(self, query: QueryEvent) -> frozenset[TableId]:
        """All names in a statement, in any role; ANY_TABLE where they are unknown."""
        try:
            return frozenset((ref.schema, ref.table) for ref in self._parsed(query).refs)
        except DMError:
            return frozenset({ANY_TABLE})

    def _parsed(self, query: QueryEvent) -> ddl.DDLStatement:
        return ddl.parse(
            query.sql,
            sql_mode=sql_mode_text(query.sql_mode),
            default_schema=query.schema,
            flavor=self._flavor,
            version=self._source.tracker.server.version,
            folds_names=self._folds_names,
            session=defaults_of(query, self._source.tracker.server.collations),
        )

    def given(self, statements: Sequence[str], first: int) -> list[Part]:
        """The parts of an operator's statements, numbered from ``first`` on. No event filter applies to them.

        Raises DMError like :meth:`migrated`.
        """
        parts: list[Part] = []
        for text in statements:
            parts += _numbered(ddl.split(ddl.parse(text, folds_names=self._folds_names)), first)
            first = parts[-1].number + len(ddl.split_alter(parts[-1].parsed))
        return [part for part in parts if self._is_migrated(part.parsed)]

    def left(self, query: QueryEvent) -> list[Part]:
        """The effect of a renaming that :meth:`migrated` refuses: tables whose new name block-allow-list excludes are
        dropped, for the task. Empty for other statements."""
        try:
            parts = ddl.split(self._parsed(query))
        except DMError:
            return []
        gone = [part.renamed[0] for part in parts if part.renamed and self._leaves(*part.renamed)]
        return [Part(n, ddl.parse(f"DROP TABLE {qualified(*name)}")) for n, name in enumerate(gone)]

    def _leaves(self, old: tuple[str, str], new: tuple[str, str]) -> bool:
        return self._rules.allows(*old) and not self._rules.allows(*new)

    def for_target(self, parts: Sequence[Part]) -> list[Part]:
        """The target's form of these parts of one statement: statements on real tables, perhaps none.

        For the renaming of a ghost table, these are the statements that changed it. The event filters apply last.
        Raises 36015, and DMError for an online DDL that can't be followed, before anything has run.
        """
        found = self._online.resolve([part.parsed for part in parts])
        resolved = [one for part, step in zip(parts, found, strict=True) for one in self._on_real_tables(part, step)]
        return [kept for part in resolved for kept in self._let_through(part)]

    def _on_real_tables(self, part: Part, step: ddl.DDLStatement | Replay | None) -> list[Part]:
        if step is None:
            log.info("a statement about a table of an online DDL tool is not for the target", statement=part.parsed.sql)
            return []
        return self._replayed(part, step) if isinstance(step, Replay) else [part]

    def _replayed(self, renaming: Part, replay: Replay) -> list[Part]:
        """The statements on a ghost table, rewritten for the real one. Their numbers belong to the renaming alone."""
        statements = [
            on_real_table(remembered, replay, renaming.parsed.dialect, self._source.tracker.server)
            for remembered in replay.ddls
        ]
        stages = self._source.stages(replay.real, replay.holder, statements)
        check_agree(replay, stages[0], stages[-1], self._source.tracker.table(*replay.ghost))
        numbered = _numbered(statements, (renaming.number + 1) << _REPLAYED_BITS)
        return [
            replace(part, session=remembered.session, around=(before, after) if before and after else None)
            for part, remembered, (before, after) in zip(numbered, replay.ddls, pairwise(stages), strict=True)
        ]

    def _let_through(self, part: Part) -> Iterator[Part]:
        """The part unchanged, or those steps of its ALTER TABLE that the filters accept."""
        if not self._rules.filters_events:
            yield part
            return
        before, after = part.around or self._source.around(part.parsed)
        # Each step has its own number.
        steps = [
            replace(part, number=part.number + i, parsed=step) for i, step in enumerate(ddl.split_alter(part.parsed))
        ]
        kept = [step for step in steps if self._is_let_through(step.parsed, event_types(step.parsed, before, after))]
        yield from [part] if len(kept) == len(steps) else kept

    def _is_let_through(self, statement: ddl.DDLStatement, types: Sequence[str]) -> bool:
        decision, schema, table = self._rules.decide(statement.tables, types, statement.sql)
        if decision.action == "error":
            raise decision.refusal(schema, table, statement.sql)
        if decision.action == "ignore":
            log.info("a filter drops a statement", statement=statement.sql, filter=decision.why)
        return decision.action == "do"

    def _is_filtered(self, query: QueryEvent, text: str) -> bool:
        """Whether a filter for all schemas skips a statement that is not understood."""
        decision, _, _ = self._rules.decide((), (), text)
        if decision.action == "error":
            raise decision.refusal(query.schema, "", text)
        return decision.action == "ignore"

    def _is_elsewhere(self, query: QueryEvent, text: str) -> bool:
        """Whether a statement that is not understood provably names no schema that has migrated tables."""
        schemas = ddl.named_schemas(
            text,
            sql_mode=sql_mode_text(query.sql_mode),
            default_schema=query.schema,
            flavor=self._flavor,
        )
        if schemas is None:
            return False
        return not any(self._rules.allows(schema.lower() if self._folds_names else schema) for schema in schemas)

    def _is_migrated(self, part: ddl.DDLStatement) -> bool:
        real = [name for name in part.tables if self._rules.online.kind(name[1]) is TableKind.REAL]
        if not real:
            return any(self._rules.follows(*name) for name in part.tables)
        allowed = [self._rules.allows(*name) for name in real]
        if any(allowed) and not all(allowed):
            raise errors.new(
                Code.SyncerUnsupportedStmt,
                f"the statement moves a table into or out of the block-allow-list: {part.sql[:500]}",
                workaround="Include both names in the block-allow-list, or neither; then stop the task and start it "
                "again.",
            )
        return bool(allowed) and all(allowed)


def _known_text(exc: DMError, query: QueryEvent) -> str:
    """The SQL by which the rules judge a statement that is not understood (``exc``); '' for any other error."""
    return query.sql if exc.kind is _NOT_UNDERSTOOD else query.outline if exc.kind is _NO_TEXT else ""


def _numbered(statements: Sequence[ddl.DDLStatement], number: int = 0) -> Iterator[Part]:
    for statement in statements:
        yield Part(number, statement)
        number += len(ddl.split_alter(statement))
