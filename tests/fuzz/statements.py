"""The steps of a history: statements about the tables ``t``, ``u`` and ``p``, one kind after the other. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from tests.fuzz.features import Pair, feature
from tests.fuzz.further_statements import texts_of
from tests.fuzz.history import Phase, Step
from tests.fuzz.made_tables import MadeTable
from tests.fuzz.values import MODIFIED, SQL_TYPES

_T, _U = "{s}.`t`", "{s}.`u`"


class Statements:
    """Makes steps; knows the literals that rows were given, so that values can meet."""

    def __init__(self, rng: random.Random, pair: Pair, made: MadeTable, shift: int = 0) -> None:
        """``shift``: how far all ids are from those of another shard."""
        self._rng = rng
        self._shift = shift
        self._pair = pair
        self._made = made
        self._next_id = 10 + shift
        self._added = 0
        #: What the rows of ``t`` were first given, by id.
        self._given: dict[str, Mapping[str, str]] = {}
        self._phase: Phase = "before"
        self._session = 0

    # -- the frame ----------------------------------------------------------------------------------------------

    def first_rows(self, phase: Phase) -> list[Step]:
        """Some rows in each table, with different values where they can be."""
        self._phase, self._session = phase, 0
        steps = []
        if self._made.parent:
            rows: tuple[Mapping[str, str], ...] = tuple({"id": str(n), "v": "0"} for n in (1, 2, 3))
            steps.append(self._step("insert", table="p", how="INSERT", rows=rows))
        pool = self._made.literals.get(self._made.moved, ("1",))
        shift = self._rng.randrange(len(pool))
        for number in range(1, self._rng.choice((3, 4, 6))):
            row = self._row(self._id(number)) | {self._made.moved: pool[(number + shift) % len(pool)]}
            self._given[row["id"]] = row
            steps.append(self._step("insert", table="t", how="INSERT", rows=(row,)))
        for number in range(5, 7):
            steps.append(self._step("insert", table="u", how="INSERT", rows=(self._row(self._id(number)),)))
        if self._made.primary == "none" and self._rng.random() < 0.7:
            # Equal rows, which only a table without a key has.
            steps += [step for step in steps[-4:-2] if step.table == "t"]
        return steps

    def around_reset(self) -> list[Step]:
        """Ten rows, the reset, and twenty more: transactions of one size, so that positions meet again."""
        self._phase, self._session = "live", 0
        rows = self._ddl(*(f"INSERT INTO {{s}}.`z` VALUES ({number})" for number in range(100, 130)))
        return [*rows[:10], Step("event", "reset"), *rows[10:], Step("event", "start")]

    def make(self, kind: str, phase: Phase, session: int, way: str) -> list[Step]:
        """The steps of one kind, in a transaction of some form if the kind is about rows."""
        self._phase, self._session = phase, session
        method = getattr(self, _method(kind), None)
        made = self._ddl(*texts_of(kind, self._rng, self._made)) if method is None else method()
        if not made:
            return []
        tag, moment = feature("statement", kind), feature("moment", phase)
        # The last of a kind's steps stands for it.
        made[-1] = _tagged(made[-1], tag, moment)
        transaction = all(step.do in ("insert", "update") for step in made) or kind in _TOGETHER
        return self._wrapped(made, way) if transaction else made

    def _wrapped(self, made: list[Step], way: str) -> list[Step]:
        match way:
            case "begin":
                around = (["BEGIN"], ["COMMIT"])
            case "savepoint":
                lost = [self._insert("INSERT"), self._sql("ROLLBACK TO a")]
                made = [made[0], self._sql("SAVEPOINT a"), *lost, *made[1:]]
                around = (["BEGIN"], ["COMMIT"])
            case "rollback":
                around = (["BEGIN"], ["ROLLBACK"])
            case "xa":
                name = f"'x{self._rng.randrange(1000)}'"
                end = [f"XA END {name}", f"XA PREPARE {name}", self._rng.choice(["XA COMMIT ", "XA ROLLBACK "]) + name]
                if self._rng.random() < 0.3:
                    end = [f"XA END {name}", f"XA COMMIT {name} ONE PHASE"]
                around = ([f"XA START {name}"], end)
            case _:
                return [*made[:-1], _tagged(made[-1], feature("transaction", way))]
        first, last = ([self._sql(text) for text in texts] for texts in around)
        last[-1] = _tagged(last[-1], feature("transaction", way))
        return [*first, *made, *last]

    def _step(self, do: str, **parts: object) -> Step:
        return Step(do, session=self._session, phase=self._phase, **parts)  # type: ignore[arg-type]

    def _sql(self, text: str) -> Step:
        return self._step("sql", text=text)

    def _ddl(self, *texts: str) -> list[Step]:
        return [self._sql(text) for text in texts]

    # -- rows ---------------------------------------------------------------------------------------------------

    def _literal(self, column: str) -> str:
        return self._rng.choice(self._made.literals[column])

    def _row(self, number: str = "") -> dict[str, str]:
        row = {column: self._literal(column) for column in self._made.literals if column != "id"}
        if number:
            return {"id": number, **row}
        if self._made.auto and self._rng.random() < 0.7:
            return row
        self._next_id += 1
        return {"id": str(self._next_id), **row}

    def _id(self, number: int) -> str:
        return str(number + self._shift)

    def _known(self) -> str:
        return self._id(self._rng.choice((1, 2, 3, 4, 5)))

    def _insert(self, how: str, *rows: Mapping[str, str], values: Mapping[str, str] | None = None) -> Step:
        found = rows or (self._row(self._known() if self._rng.random() < 0.5 else ""),)
        return self._step("insert", table="t", how=how, rows=found, values=values or {})

    def _update(self, values: Mapping[str, str], where: str, how: str = "UPDATE") -> Step:
        return self._step("update", table="t", how=how, values=values, text=where)

    def _where(self) -> str:
        ways = [
            f"WHERE `id` = {self._known()}",
            f"WHERE `id` > {self._known()}",
            "WHERE `n` = 1",
            "ORDER BY `id` LIMIT 1",
        ]
        return self._rng.choice(ways)

    def _insert_(self) -> list[Step]:
        return [self._insert("INSERT", self._row())]

    def _insert_many(self) -> list[Step]:
        row = self._row()
        return [
            self._insert(
                "INSERT",
                *(
                    {
                        column: self._row(self._id(n + 20))[column]
                        for column in ("id", *row)
                        if column in {**row, "id": ""}
                    }
                    for n in range(self._rng.choice((3, 20)))
                ),
            )
        ]

    def _insert_ignore(self) -> list[Step]:
        return [self._insert("INSERT IGNORE")]

    def _insert_select(self) -> list[Step]:
        columns = ", ".join(f"`{column}`" for column in self._made.literals)
        rest = ", ".join(f"`{column}`" for column in self._made.literals if column != "id")
        shift, source = self._rng.choice((0, 20, 40)), self._rng.choice((_T, _U))
        return self._ddl(f"INSERT IGNORE INTO {_T} ({columns}) SELECT `id` + {shift}, {rest} FROM {source}")

    def _replace(self) -> list[Step]:
        return [self._insert("REPLACE")]

    def _on_duplicate_key(self) -> list[Step]:
        column = self._rng.choice([self._made.moved, "n"])
        return [self._insert("INSERT", values={column: self._literal(column)})]

    def _update_(self) -> list[Step]:
        columns = [column for column in self._made.literals if column != "id"]
        chosen = self._rng.sample(columns, min(len(columns), self._rng.choice((1, 2))))
        return [self._update({column: self._literal(column) for column in chosen}, self._where())]

    def _update_same(self) -> list[Step]:
        return [self._update({"n": f"COALESCE(`n`, 0) + {self._rng.choice((0, 1))}", "id": "`id`"}, self._where())]

    def _update_key(self) -> list[Step]:
        self._next_id += 1
        return [self._update({"id": str(self._next_id)}, f"WHERE `id` = {self._known()}")]

    def _update_ignore(self) -> list[Step]:
        return [self._update({self._made.moved: self._literal(self._made.moved)}, "", "UPDATE IGNORE")]

    def _update_all(self) -> list[Step]:
        return [self._update({"n": "`id` + 1"}, self._rng.choice(["", "ORDER BY `id` DESC"]))]

    def _update_joined(self) -> list[Step]:
        return self._ddl(f"UPDATE {_T} AS a JOIN {_U} AS o ON a.`id` = o.`id` SET a.`n` = 3, o.`n` = 4")

    def _delete(self) -> list[Step]:
        return self._ddl(f"DELETE FROM {_T} {self._where()}")

    def _delete_joined(self) -> list[Step]:
        return self._ddl(f"DELETE a, o FROM {_T} AS a JOIN {_U} AS o ON a.`id` = o.`id`")

    def _delete_all(self) -> list[Step]:
        return self._ddl(f"DELETE FROM {_T}")

    def _swap_values(self) -> list[Step]:
        """Two rows exchange their values, by way of a third value."""
        column = self._made.moved
        one, two = self._given.get(self._id(1)), self._given.get(self._id(2))
        if one is None or two is None:
            return []
        free = [value for value in self._made.literals[column] if value not in (one[column], two[column], "NULL")]
        by = self._rng.choice(free or ["NULL"])
        return [
            self._update({column: by}, f"WHERE `id` = {one['id']}"),
            self._update({column: one[column]}, f"WHERE `id` = {two['id']}"),
            self._update({column: two[column]}, f"WHERE `id` = {one['id']}"),
        ]

    def _reuse_value(self) -> list[Step]:
        """A row gives its value up, another takes it."""
        row = self._given.get(self._known())
        if row is None:
            return []
        column = self._made.moved
        gone: dict[str, str] = {"d": "NOW()"} if "d" in row else {column: self._literal(column)}
        return [
            self._update(gone, f"WHERE `id` = {row['id']}"),
            self._insert("INSERT", {**self._row(), **_key(row, column)}),
        ]

    def _restore_value(self) -> list[Step]:
        """A row is deleted, its value goes to another, and comes back."""
        row = self._given.get(self._known())
        if row is None:
            return []
        column, new = self._made.moved, str(self._next_id + 1)
        self._next_id += 1
        return [
            self._sql(f"DELETE FROM {_T} WHERE `id` = {row['id']}"),
            self._insert("INSERT", {**self._row(new), **_key(row, column)}),
            self._sql(f"DELETE FROM {_T} WHERE `id` = {new}"),
            self._insert("INSERT", row),
        ]

    def _delete_and_insert(self) -> list[Step]:
        row = self._row(self._known())
        return [self._sql(f"DELETE FROM {_T} WHERE `id` = {row['id']}"), self._insert("INSERT", row)]

    def _load_data(self) -> list[Step]:
        return self._ddl(
            f"LOAD DATA LOCAL INFILE '{{file}}' {self._rng.choice(['REPLACE', 'IGNORE'])} INTO TABLE {_T} (`id`, `n`)"
        )

    # -- structure ----------------------------------------------------------------------------------------------

    def _truncate(self) -> list[Step]:
        return self._ddl(f"TRUNCATE TABLE {_T}")

    def _add_column(self) -> list[Step]:
        self._added += 1
        kind = self._rng.choice(list(SQL_TYPES)[:25])
        place = self._rng.choice(["", " FIRST", " AFTER `id`"])
        rest = self._rng.choice(["NULL", "NOT NULL", "NULL"])
        return self._ddl(f"ALTER TABLE {_T} ADD COLUMN `y{self._added}` {SQL_TYPES[kind]} {rest}{place}")

    def _drop_column(self) -> list[Step]:
        return self._ddl(f"ALTER TABLE {_T} DROP COLUMN `{self._rng.choice(['x', 'n', 'y1'])}`")

    def _modify_column(self) -> list[Step]:
        kind = MODIFIED.get(self._made.kind, SQL_TYPES[self._made.kind])
        return self._ddl(f"ALTER TABLE {_T} MODIFY `c` {kind}")

    def _rename_column(self) -> list[Step]:
        return self._ddl(
            f"ALTER TABLE {_T} CHANGE `n` `n2` BIGINT NULL",
            f"UPDATE {_T} SET `n2` = 5",
            f"ALTER TABLE {_T} CHANGE `n2` `n` INT NULL",
        )

    def _change_default(self) -> list[Step]:
        return self._ddl(f"ALTER TABLE {_T} ALTER `n` SET DEFAULT 9")

    def _add_index(self) -> list[Step]:
        return self._ddl(f"ALTER TABLE {_T} ADD INDEX `by_n` (`n`)")

    def _drop_index(self) -> list[Step]:
        return self._ddl(f"ALTER TABLE {_T} DROP INDEX `{self._rng.choice([*self._made.unique, 'by_n'])}`")

    def _add_unique(self) -> list[Step]:
        return self._ddl(f"ALTER TABLE {_T} ADD UNIQUE `more` (`{self._rng.choice(['c', 'n', 'id'])}`)")

    def _alter_ignore_add_unique(self) -> list[Step]:
        return self._ddl(f"ALTER IGNORE TABLE {_T} ADD UNIQUE `kept` (`{self._rng.choice(['c', 'n', 'id'])}`)")

    def _add_primary_key(self) -> list[Step]:
        return self._ddl(
            f"ALTER TABLE {_T} {'' if self._made.primary == 'none' else 'DROP PRIMARY KEY, '}ADD PRIMARY KEY (`id`)"
        )

    def _add_auto_increment(self) -> list[Step]:
        return self._ddl(f"ALTER TABLE {_T} ADD COLUMN `auto` INT AUTO_INCREMENT UNIQUE")

    def _convert_charset(self) -> list[Step]:
        return self._ddl(f"ALTER TABLE {_T} CONVERT TO CHARACTER SET {self._rng.choice(['utf8mb4', 'latin1'])}")

    def _rename_table(self) -> list[Step]:
        return [*self._ddl(f"RENAME TABLE {_T} TO {{s}}.`away`"), *self._ddl(f"RENAME TABLE {{s}}.`away` TO {_T}")]

    def _rename_swap(self) -> list[Step]:
        return self._ddl(f"RENAME TABLE {_T} TO {{s}}.`w`, {_U} TO {_T}, {{s}}.`w` TO {_U}")

    def _rename_to_other_schema(self) -> list[Step]:
        return self._ddl("CREATE DATABASE IF NOT EXISTS {s}_b", f"RENAME TABLE {_U} TO {{s}}_b.`u`")

    def _exchange_partition(self) -> list[Step]:
        check = self._rng.choice(["", " WITHOUT VALIDATION"])
        return self._ddl(f"ALTER TABLE {_T} EXCHANGE PARTITION p1 WITH TABLE {_U}{check}")

    def _add_partition(self) -> list[Step]:
        parts = "PARTITION p2 VALUES LESS THAN (30), PARTITION p3 VALUES LESS THAN MAXVALUE"
        return self._ddl(f"ALTER TABLE {_T} REORGANIZE PARTITION p2 INTO ({parts})")

    def _drop_partition(self) -> list[Step]:
        return self._ddl(f"ALTER TABLE {_T} DROP PARTITION p0")

    def _truncate_partition(self) -> list[Step]:
        return self._ddl(f"ALTER TABLE {_T} TRUNCATE PARTITION p0")

    def _create_like(self) -> list[Step]:
        return self._ddl(
            f"CREATE TABLE {{s}}.`like1` LIKE {_T}", f"INSERT IGNORE INTO {{s}}.`like1` (`id`) SELECT `id` FROM {_T}"
        )

    def _create_select(self) -> list[Step]:
        return self._ddl(f"CREATE TABLE {{s}}.`made{self._rng.randrange(9)}` AS SELECT * FROM {_T}")

    def _drop_and_create(self) -> list[Step]:
        table = next(one for one in self._made.tables if one.name == "u")
        return [
            self._sql(f"DROP TABLE IF EXISTS {_U}"),
            self._sql(table.sql()),
            self._step("insert", table="u", how="INSERT", rows=(self._row("55"),)),
        ]

    def _create_or_replace(self) -> list[Step]:
        table = next(one for one in self._made.tables if one.name == "u")
        return self._ddl(table.sql().replace("CREATE TABLE", "CREATE OR REPLACE TABLE", 1))

    def _drop_table(self) -> list[Step]:
        return self._ddl(f"DROP TABLE {_U}")

    def _drop_database(self) -> list[Step]:
        return self._ddl("DROP DATABASE {s}")

    def _analyze(self) -> list[Step]:
        return self._ddl(f"ANALYZE TABLE {_T}")

    def _optimize(self) -> list[Step]:
        return self._ddl(f"OPTIMIZE TABLE {_T}")

    def _analyze_update(self) -> list[Step]:
        words = self._rng.choice(["ANALYZE", "ANALYZE FORMAT=JSON"])
        change = self._rng.choice([f"UPDATE {_T} SET `n` = 6", f"DELETE FROM {_T} WHERE `id` = 2"])
        return self._ddl(f"{words} {change}")

    # -- temporary tables ---------------------------------------------------------------------------------------

    def _temporary_create(self) -> list[Step]:
        rows = ["INSERT IGNORE INTO {s}.`tmp` VALUES (1)"] if self._rng.random() < 0.5 else []
        return self._ddl(
            "CREATE TEMPORARY TABLE IF NOT EXISTS {s}.`tmp` (`id` INT PRIMARY KEY)",
            *rows,
            "DROP TEMPORARY TABLE {s}.`tmp`",
        )

    def _shadow(self, *then: str) -> list[Step]:
        rows = ["INSERT INTO {s}.`t` VALUES (1, 1)"] if self._rng.random() < 0.3 else []
        return self._ddl(
            "CREATE TEMPORARY TABLE {s}.`t` (`id` INT, `n` INT)", *rows, *then, "DROP TEMPORARY TABLE IF EXISTS {s}.`t`"
        )

    def _temporary_shadow(self) -> list[Step]:
        return self._shadow("UPDATE {s}.`t` SET `n` = 7")

    def _temporary_truncate(self) -> list[Step]:
        return self._shadow("TRUNCATE TABLE {s}.`t`")

    def _temporary_alter(self) -> list[Step]:
        return self._shadow("ALTER TABLE {s}.`t` ADD COLUMN `q` INT")

    def _temporary_rename(self) -> list[Step]:
        return [
            *self._shadow("ALTER TABLE {s}.`t` RENAME TO {s}.`tmp2`"),
            *self._ddl("DROP TEMPORARY TABLE IF EXISTS {s}.`tmp2`"),
        ]

    def _temporary_drop(self) -> list[Step]:
        return self._shadow("DROP TABLE {s}.`t`")

    # -- tools --------------------------------------------------------------------------------------------------

    def _tool(self, new: str, old: str, *around: str) -> list[Step]:
        """A table is copied into a new one, which takes its place."""
        self._added += 1
        fields = (
            "SET @fields = (SELECT GROUP_CONCAT('`', COLUMN_NAME, '`') FROM information_schema.COLUMNS WHERE"
            " TABLE_SCHEMA = '{s}' AND TABLE_NAME = 't' AND COALESCE(GENERATION_EXPRESSION, '') = '')"
        )
        copy = f"CONCAT('INSERT IGNORE INTO {{s}}.`{new}` (', @fields, ') SELECT ', @fields, ' FROM {_T}')"
        made = self._ddl(
            *around,
            f"CREATE TABLE {{s}}.`{new}` LIKE {_T}",
            f"ALTER TABLE {{s}}.`{new}` ADD COLUMN `tool{self._added}` INT",
            fields,
            f"SET @copy = {copy}",
            "PREPARE copy FROM @copy",
            "EXECUTE copy",
            f"RENAME TABLE {_T} TO {{s}}.`{old}`, {{s}}.`{new}` TO {_T}",
            f"DROP TABLE IF EXISTS {{s}}.`{old}`",
        )
        return [replace(step, tied=f"tool{self._added}") for step in made]

    def _pt_osc(self) -> list[Step]:
        return self._tool("_t_new", "_t_old")

    def _gh_ost(self) -> list[Step]:
        hints = "CREATE TABLE {s}.`_t_ghc` (`id` BIGINT AUTO_INCREMENT PRIMARY KEY, `hint` VARCHAR(64), `value` TEXT)"
        return [*self._tool("_t_gho", "_t_del", hints), *self._ddl("DROP TABLE IF EXISTS {s}.`_t_ghc`")]

    # -- transactions of their own ------------------------------------------------------------------------------

    def _xa(self) -> list[Step]:
        """Prepared in one place, committed after other changes of the same session."""
        return self._ddl(
            "XA START 'long'",
            f"UPDATE {_T} SET `n` = 3 WHERE `id` = 2",
            "XA END 'long'",
            "XA PREPARE 'long'",
            "XA COMMIT 'long'",
        )

    def _savepoint(self) -> list[Step]:
        return [
            self._sql("BEGIN"),
            self._insert("INSERT", self._row()),
            self._sql("SAVEPOINT b"),
            *self._update_(),
            self._sql("ROLLBACK TO b"),
            *self._update_same(),
            self._sql("COMMIT"),
        ]


#: Kinds whose statements are of rows though they are texts.
_TOGETHER = frozenset({"delete", "delete joined", "delete all", "insert select", "update joined", "restore value",
                       "delete and insert", "load data"})  # fmt: skip


def _key(row: Mapping[str, str], column: str) -> dict[str, str]:
    """What makes rows equal in their further keys."""
    return {name: row[name] for name in (column, "n", "d", "s", "e") if name in row}


def _tagged(step: Step, *tags: str) -> Step:
    return replace(step, tags=(*step.tags, *tags))


def _method(kind: str) -> str:
    """The method of a kind; two kinds have the names of helpers."""
    name = "_" + kind.replace(" ", "_").replace("-", "_")
    return name + "_" if name in ("_insert", "_update") else name
