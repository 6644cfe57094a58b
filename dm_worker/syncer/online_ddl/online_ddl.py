"""Follows online schema changes: a tool's changes to a ghost table apply to the real one when the two are swapped.

A state machine without I/O (it logs). Its input is each single statement (see :func:`pkg.ddl.split`) on tables of the
task. Statements that alter a ghost table are recorded. When the ghost takes the real table's name, the target's real
table gets these statements. Everything else on ghost and trash tables stays upstream. Only :meth:`OnlineDDL.record`
changes the records, so an event that is handled again after a crash has the same effect.

The record of a ghost table, and that of a real table::

    none --- CREATE ghost ---> known --- DDL on ghost: is added ---> known
     ^                           |
     +--- RENAME ghost TO real --+  (the statements run on the real table at the target)
     +--- DROP ghost, RENAME ghost TO trash (nothing runs), DROP DATABASE

    none --- RENAME real TO trash (nothing runs) ---> moved --- the trash table is dropped ---> moved, without a table
     ^                                                  |                                        |
     +--- a ghost takes its name, it is renamed back ---+--- a ghost takes its name -------------+

Other statements on ghost and trash tables change no record: nothing runs, or they are refused. ``DROP DATABASE`` itself
runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dm_worker.syncer.online_ddl.ghost_records import GhostDDL, GhostRecord, Ghosts, GhostSession
from pkg import ddl, errors
from pkg.ddl.statement import SetOptions
from pkg.errors import Code, DMError, ErrorKind
from pkg.mysql.names import TableId, qualified
from pkg.process.log import get_logger
from pkg.rules.online_tables import OnlineTables, TableKind

log = get_logger("syncer.online_ddl")

_REAL, _GHOST, _TRASH = TableKind.REAL, TableKind.GHOST, TableKind.TRASH
_SKIP_IT = "skip this statement with binlog skip"


@dataclass(frozen=True, slots=True)
class Replay:
    """Statements on ``ghost`` to run on ``real``, whose current structure is that of ``holder``."""

    ghost: TableId
    real: TableId
    holder: TableId
    ddls: tuple[GhostDDL, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """The effect of one statement: it runs unchanged (``runs``), others run instead, it is refused, or nothing runs.

    ``change`` are the records that change, None for those to remove.
    """

    runs: bool = False
    replay: Replay | None = None
    refused: DMError | None = None
    change: tuple[tuple[TableId, GhostRecord | None], ...] = ()


_KEEP = _Step(runs=True)


class OnlineDDL:
    """The online changes of one upstream's tables. ``ghosts`` are the durable records."""

    def __init__(self, tables: OnlineTables, ghosts: Ghosts | None = None) -> None:
        self.tables = tables
        self._ghosts = dict(ghosts or {})
        self._changed: dict[TableId, GhostRecord | None] = {}

    def resolve(self, statements: Sequence[ddl.DDLStatement]) -> list[ddl.DDLStatement | Replay | None]:
        """The target's form of each statement of one event: itself, its replay, or nothing.

        Raises 36041, 36043, 36044, 36045 and 36046 for statements that can't be followed; changes nothing.
        """
        ahead = _Records(self._ghosts)
        found: list[ddl.DDLStatement | Replay | None] = []
        for statement in statements:
            step = self._step(ahead, statement, None)
            if step.refused is not None:
                raise step.refused
            ahead.change(step)
            found.append(statement if step.runs else step.replay)
        return found

    def record(self, statement: ddl.DDLStatement, session: GhostSession) -> None:
        """Records a statement that ran upstream, whether or not the target got it."""
        records = _Records(self._ghosts)
        step = self._step(records, statement, session)
        records.change(step)
        for name, record in step.change:
            log.info("an online DDL continues", table=qualified(*name), statement=statement.sql[:200])
            self._changed[name] = record
        self._ghosts = records.now

    def is_real(self, statement: ddl.DDLStatement) -> bool:
        """Whether all tables that it acts on are real ones."""
        return all(self.tables.kind(table) is _REAL for _, table in statement.tables)

    def take_changes(self) -> dict[TableId, GhostRecord | None]:
        """The records to store, None for those to remove; once each."""
        changed, self._changed = self._changed, {}
        return changed

    def check_rules(self, statement: ddl.DDLStatement) -> None:
        """Raises 20049 for a swap of two tables of which the rules match only one: the rules are wrong."""
        names = [(ref.schema, ref.table) for ref in statement.refs]
        if statement.kind != "rename table" or len(names) != 4 or names[0] != names[3]:
            return
        real, away, ghost, _ = (self.tables.kind(table) for _, table in names)
        matched = [away is _TRASH, ghost is _GHOST]
        if real is not _REAL or all(matched) or not any(matched):
            return
        missing, rule = (names[1], _TRASH.value) if matched[1] else (names[2], _GHOST.value)
        raise errors.new(
            Code.ConfigOnlineDDLMistakeRegex,
            f"{statement.sql[:500]} swaps tables as an online DDL tool does, but no rule of {rule} matches "
            f"{qualified(*missing)}",
            workaround=f"Correct {rule} in the task file, or set online-ddl: false to replicate such tables.",
        )

    # -- one statement ------------------------------------------------------------------------------------------

    def _step(self, records: _Records, statement: ddl.DDLStatement, session: GhostSession | None) -> _Step:
        if statement.kind == "drop database":
            return replace(_KEEP, change=records.of_schema(statement.refs[0].schema))
        pair = statement.renamed
        names = pair or statement.tables
        kinds = {self.tables.kind(table) for _, table in names}
        if kinds <= {_REAL}:
            return self._real(records, statement, names)
        if pair is not None:
            return self._renaming(records, statement, *pair)
        if len(names) > 1:
            return _refused(
                Code.SyncerUnitOnlineDDLOnMultipleTable,
                statement,
                "changes a table of an online DDL tool together with another table",
            )
        if kinds == {_GHOST}:
            return self._on_ghost(records, statement, session, names[0])
        return _Step(change=records.abandoned(names[0]))

    def _on_ghost(
        self, records: _Records, statement: ddl.DDLStatement, session: GhostSession | None, name: TableId
    ) -> _Step:
        known = records.now.get(name)
        if statement.kind == "create table":
            if known is not None and statement.if_not_exists:
                return _Step()
            real = next(self.tables.real_names(name[1]))
            return _Step(change=((name, GhostRecord(name[0], real)),))
        if statement.kind == "drop table":
            return _Step(change=records.without(name))
        if statement.kind == "truncate table" or known is None:
            # Without the record of its creation, earlier changes are unknown: the renaming will be refused.
            return _Step()
        if _sets_counter(statement):
            return _Step()
        text = ddl.rewrite(statement, lambda schema, table: (schema, table))
        return _Step(change=((name, known.with_ddl(GhostDDL(text, session))),))

    def _renaming(self, records: _Records, statement: ddl.DDLStatement, old: TableId, new: TableId) -> _Step:
        if statement.kind == "alter table" and len(ddl.split_alter(statement)) > 1:
            return _refused(
                Code.SyncerUnitGhostRenameTableNotValid,
                statement,
                "alters a table of an online DDL tool and renames it in the same statement",
            )
        kinds = self.tables.kind(old[1]), self.tables.kind(new[1])
        if kinds == (_GHOST, _REAL):
            return self._swap(records, statement, old, new)
        if kinds[1] is _GHOST:
            code = (
                Code.SyncerUnitGhostRenameToGhostTable
                if kinds[0] is _REAL
                else Code.SyncerUnitGhostRenameGhostTblToOther
            )
            return _refused(
                code, statement, "makes a ghost table by renaming: which statements changed it is not known"
            )
        if kinds == (_REAL, _TRASH):
            return _Step(change=(*records.abandoned(new), (old, GhostRecord(*new, moved=True))))
        if kinds == (_GHOST, _TRASH):
            return _Step(change=(*records.abandoned(new), *records.without(old)))
        return self._from_trash(records, statement, old, new)

    def _swap(self, records: _Records, statement: ddl.DDLStatement, ghost: TableId, real: TableId) -> _Step:
        """The ghost table replaces the real one."""
        known = records.now.get(ghost)
        gone = (*records.without(ghost), *records.without(real))
        if known is None:
            step = _refused(
                Code.SyncerUnitGhostOnlineDDLOnGhostTbl,
                statement,
                f"puts the ghost table {qualified(*ghost)} in place of {qualified(*real)}, but the changes of the "
                "ghost table are not known: it was created before the task's start position",
                "Find out which change the tool was to make. Replace this statement with an ALTER TABLE of "
                f"{qualified(*real)} that does it (binlog replace); or start the task again from a position after "
                "such changes.",
            )
            return replace(step, change=gone)
        return _Step(replay=Replay(ghost, real, records.holder(real), known.ddls), change=gone)

    def _from_trash(self, records: _Records, statement: ddl.DDLStatement, old: TableId, new: TableId) -> _Step:
        if self.tables.kind(new[1]) is _TRASH:
            follows = ((name, GhostRecord(*new, moved=True)) for name in records.that_became(old))
            return _Step(change=(*records.abandoned(new), *follows))
        if new in records.that_became(old):
            return _Step(change=records.without(new))
        return _refused(
            Code.SyncerUnitGhostRenameTableNotValid,
            statement,
            f"renames {qualified(*old)}, which has the name of an online DDL tool's old table, to "
            f"{qualified(*new)}, but it was not such a table before: the target does not have it",
            f"Copy the table to the target by hand and {_SKIP_IT}.",
        )

    def _real(self, records: _Records, statement: ddl.DDLStatement, names: Sequence[TableId]) -> _Step:
        if statement.kind == "drop table":
            return self._dropped(records, statement, names[0])
        renamed = statement.renamed
        made = renamed[1] if renamed else names[0] if statement.kind == "create table" else None
        if made is None or not records.is_moved(made):
            return _KEEP
        step = _refused(
            Code.SyncerUnitGhostRenameTableNotValid,
            statement,
            f"creates {qualified(*made)} again after it got the name of an online DDL tool's old table: the target "
            "still has the first table",
            f"To drop it, replace this statement with DROP TABLE {qualified(*made)} and itself (binlog replace); "
            "with shard-mode, remove its rows by hand and replace this statement with itself. To keep it, rename "
            "the target's table by hand first, then replace this statement with itself.",
        )
        # An operator who skips it states that the target has the new table.
        return replace(step, change=records.without(made))

    def _dropped(self, records: _Records, statement: ddl.DDLStatement, name: TableId) -> _Step:
        ghost = records.ghost_of(name, self.tables)
        if ghost is None:
            return replace(_KEEP, change=records.without(name))
        return _refused(
            Code.SyncerUnitOnlineDDLSchemeNotSupport,
            statement,
            f"drops {qualified(*name)} while the ghost table {qualified(*ghost)} is ready to replace it (the "
            "method drop_swap of pt-online-schema-change): the target would lose all of its rows",
            f"If the tool continues with the ghost table, {_SKIP_IT}: the target's table gets the change when the "
            "ghost is renamed. If the change was abandoned, replace this statement with itself (binlog replace).",
        )


class _Records:
    """The records while the statements of one event are handled."""

    def __init__(self, durable: Ghosts) -> None:
        self._durable = durable
        self.now = dict(durable)

    def change(self, step: _Step) -> None:
        for name, record in step.change:
            if record is None:
                self.now.pop(name, None)
            else:
                self.now[name] = record

    def without(self, name: TableId) -> tuple[tuple[TableId, None], ...]:
        return ((name, None),) if name in self.now else ()

    def of_schema(self, schema: str) -> tuple[tuple[TableId, None], ...]:
        return tuple((name, None) for name in self.now if name[0] == schema)

    def is_moved(self, real: TableId) -> bool:
        known = self.now.get(real)
        return known is not None and known.moved

    def that_became(self, trash: TableId) -> list[TableId]:
        """The real table that is now this trash table."""
        return [name for name, record in self.now.items() if record.moved and record.other == trash]

    def abandoned(self, trash: TableId) -> tuple[tuple[TableId, GhostRecord], ...]:
        """The changes when this name no longer names the former real table."""
        return tuple((name, GhostRecord("", "", moved=True)) for name in self.that_became(trash))

    def holder(self, real: TableId) -> TableId:
        """The table with the structure of ``real`` before this event: itself, or a trash table."""
        known = self._durable.get(real)
        return known.other if known is not None and known.moved and known.table else real

    def ghost_of(self, real: TableId, tables: OnlineTables) -> TableId | None:
        """The ghost table that will replace ``real``."""
        ghosts = (name for name, record in self.now.items() if name[0] == real[0] and not record.moved)
        return next((name for name in ghosts if real[1] in tables.real_names(name[1])), None)


def _sets_counter(statement: ddl.DDLStatement) -> bool:
    """Whether it only sets AUTO_INCREMENT, as gh-ost does: the value differs per shard, and is no structure."""
    parts = [spec for spec in statement.specs if not spec.modifier]
    return statement.kind == "alter table" and all(
        isinstance(action, SetOptions) and action.word == "AUTO_INCREMENT" for spec in parts for action in spec.actions
    )


def _refused(kind: ErrorKind, statement: ddl.DDLStatement, why: str, workaround: str = "") -> _Step:
    otherwise = (
        f"Execute what the real table needs on the target by hand, and {_SKIP_IT}. If the table is not one of an "
        "online DDL tool, narrow shadow-table-rules and trash-table-rules, or set online-ddl: false."
    )
    text = f"{statement.sql[:500]} {why}"
    return _Step(refused=errors.new(kind, text, workaround=workaround or otherwise))
