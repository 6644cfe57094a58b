"""Hazard: some order of statements of tools and users, with crashes, leaves the target with other tables."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dm_worker.syncer.online_ddl.ghost_records import GhostRecord, GhostSession
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL, Replay
from pkg import ddl
from pkg.errors import DMError
from pkg.mysql.names import TableId
from pkg.rules.model import SHADOW_TABLE_RULES, TRASH_TABLE_RULES
from pkg.rules.online_tables import OnlineTables, TableKind
from tests.sweeps import examples

TABLES = OnlineTables(SHADOW_TABLE_RULES, TRASH_TABLE_RULES)
REAL = ("t", "u", "v")
NAMES = st.sampled_from([*REAL, "_t_gho", "_t_new", "__t_new", "_u_new", "_t_del", "_t_old", "__t_old", "_u_old"])


class Refused(Exception):
    """The target would not do it: the task stops before it."""


class World(RuleBasedStateMachine):
    """Tables are lists of columns. The upstream runs what makes sense; the target what :class:`OnlineDDL` gives."""

    def __init__(self) -> None:
        super().__init__()
        self.upstream: dict[str, list[str]] = {"t": ["a"], "u": ["a", "b"]}
        self.target = {name: list(columns) for name, columns in self.upstream.items()}
        self.online = OnlineDDL(TABLES)
        self.stored: dict[TableId, str] = {}
        self.columns = 0

    # -- what happens upstream ----------------------------------------------------------------------------------

    @rule(name=NAMES)
    def alter(self, name: str) -> None:
        if name in self.upstream:
            self.columns += 1
            self.run(f"ALTER TABLE {name} ADD c{self.columns} INT", {name: [*self.upstream[name], f"c{self.columns}"]})

    @rule(name=NAMES, like=NAMES)
    def create(self, name: str, like: str) -> None:
        if name not in self.upstream and like in self.upstream:
            self.run(f"CREATE TABLE {name} LIKE {like}", {name: list(self.upstream[like])})

    @rule(name=NAMES)
    def drop(self, name: str) -> None:
        if name in self.upstream:
            self.run(f"DROP TABLE {name}", {name: None})

    @rule(old=NAMES, new=NAMES, alter=st.booleans())
    def rename(self, old: str, new: str, alter: bool) -> None:
        if old in self.upstream and new not in self.upstream:
            text = f"ALTER TABLE {old} RENAME {new}" if alter else f"RENAME TABLE {old} TO {new}"
            self.run(text, {old: None, new: self.upstream[old]})

    @rule(real=st.sampled_from(REAL), ghost=NAMES, trash=NAMES)
    def swap(self, real: str, ghost: str, trash: str) -> None:
        if {real, ghost} <= self.upstream.keys() and trash not in self.upstream and real != ghost:
            after = {ghost: None, real: self.upstream[ghost], trash: self.upstream[real]}
            self.run(f"RENAME TABLE {real} TO {trash}, {ghost} TO {real}", after)

    @rule(
        name=st.sampled_from(REAL), tool=st.sampled_from(["_{}_gho", "_{}_new"]), trash=st.sampled_from(["old", "del"])
    )
    def whole_change(self, name: str, tool: str, trash: str) -> None:
        ghost, gone = tool.format(name), f"_{name}_{trash}"
        self.drop(ghost)
        self.drop(gone)
        self.create(ghost, name)
        self.alter(ghost)
        self.swap(name, ghost, gone)

    @rule()
    def crash(self) -> None:
        ghosts = {name: GhostRecord.from_json(text, name) for name, text in self.stored.items()}
        self.online = OnlineDDL(TABLES, ghosts)

    # -- what the target gets -----------------------------------------------------------------------------------

    def run(self, sql: str, after: dict[str, list[str] | None]) -> None:
        parts = ddl.split(ddl.parse(sql, default_schema="d"))
        target = {name: list(columns) for name, columns in self.target.items()}
        try:
            self.online.check_rules(ddl.parse(sql, default_schema="d"))
            for one in self.online.resolve(parts):
                self.execute(target, one)
        except (DMError, Refused):
            return  # it never happened
        self.target = target
        for part in parts:
            self.online.record(part, GhostSession())
        for name, record in self.online.take_changes().items():
            if record is None:
                self.stored.pop(name, None)
            else:
                self.stored[name] = record.to_json()
        for table, columns in after.items():
            if columns is None:
                self.upstream.pop(table, None)
            else:
                self.upstream[table] = columns

    def execute(self, target: dict[str, list[str]], one: ddl.DDLStatement | Replay | None) -> None:
        if isinstance(one, Replay):
            for each in one.ddls:
                text = ddl.rewrite(ddl.parse(each.sql), lambda *name: one.real if name == one.ghost else name)
                self.execute_one(target, ddl.parse(text))
            if target.get(one.real[1]) != self.upstream[one.ghost[1]]:
                raise Refused  # the structures are compared
        elif one is not None:
            self.execute_one(target, one)

    @staticmethod
    def execute_one(target: dict[str, list[str]], statement: ddl.DDLStatement) -> None:
        names = [ref.table for ref in statement.refs]
        assert all(TABLES.kind(name) is TableKind.REAL for _, name in statement.tables), statement.sql
        if statement.kind == "drop table":
            target.pop(names[0], None)
        elif statement.kind == "create table":
            if names[1] not in target:
                raise Refused
            target.setdefault(names[0], list(target[names[1]]))
        elif len(names) == 2:
            if names[0] not in target or names[1] in target:
                raise Refused
            target[names[1]] = target.pop(names[0])
        elif names[0] not in target:
            raise Refused
        else:
            target[names[0]].append(statement.sql.split()[-2].lower())

    # -- what must hold -----------------------------------------------------------------------------------------

    @invariant()
    def real_tables_are_equal(self) -> None:
        upstream = {name: columns for name, columns in self.upstream.items() if name in REAL}
        records = {name: GhostRecord.from_json(text, name) for name, text in self.stored.items()}
        moved = {name for (_, name), record in records.items() if record.moved}
        assert {name: c for name, c in self.target.items() if name not in moved} == upstream
        # What was moved away is still as it was.
        assert moved <= self.target.keys()


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=examples(100), stateful_step_count=25)
