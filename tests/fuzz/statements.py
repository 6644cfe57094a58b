"""The steps of a history: statements about the tables ``t``, ``u`` and ``p``, one kind after the other. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.fuzz.features import ABILITIES, Pair, feature
from tests.fuzz.further_statements import FURTHER, texts_of
from tests.fuzz.history import Phase, Step
from tests.fuzz.made_tables import MadeTable
from tests.fuzz.other_tables import GH_OST_HINTS, table_exchange, temporary
from tests.fuzz.values import MODIFIED, SPELLED, SPELLINGS, SQL_TYPES, respelled, told_apart

_T, _U = "{s}.`t`", "{s}.`u`"


class Statements:
    """Makes steps; knows the literals that rows were given, so that values can meet."""

    def __init__(self, rng: random.Random, pair: Pair, made: MadeTable, shift: int = 0, sessions: int = 1) -> None:
        """``shift``: how far all ids are from those of another shard. ``sessions``: how many there are."""
        self._rng = rng
        self._shift = shift
        self._pair = pair
        self._made = made
        self._next_id = 10 + shift
        self._added = 0
        self._literals = dict(made.literals)
        #: What DDL has added, and has not dropped again.
        self._columns: list[str] = []
        self._indexes = list(made.unique)
        self._numbered = made.auto
        self._partitions = ["p0", "p1", "p2"]
        #: Whether a unique key came since all partitions were made.
        self._keyed_anew = False
        #: Where the last partition is cut next.
        self._bound = 30
        #: What the rows of ``t`` were first given, by id.
        self._given: dict[str, Mapping[str, str]] = {}
        self._sessions = sessions
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
        pool = self._literals.get(self._made.moved, ("1",))
        # Where they have to be apart, the first two differ in any collation, so that both are there.
        pool = respelled(told_apart(pool)) if self._made.distinct else pool
        shift = self._rng.randrange(len(pool))
        several = self._rng.choice((4, 6) if self._made.unique else (3, 4, 6))
        for number in range(1, several):
            row = self._row(self._id(number)) | {self._made.moved: pool[(number + shift) % len(pool)]}
            if self._made.further == "unique pair" and number < 3:
                # The key keeps values apart only where the numbers are equal.
                row["n"] = "1"
            if self._made.further == "soft delete" and (number < 3 or self._rng.random() < 0.5):
                row["d"] = "NULL"
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
        made = self._of_kind(kind)
        if not made:
            return []
        tag, moment = feature("statement", kind), feature("moment", phase)
        # The last of a kind's steps stands for it.
        made[-1] = _tagged(made[-1], tag, moment)
        transaction = all(step.do in ("insert", "update") for step in made) or kind in _TOGETHER
        return self._wrapped(made, way) if transaction else made

    def _of_kind(self, kind: str) -> list[Step]:
        if kind.startswith("temporary"):
            return self._ddl(*temporary(kind, self._rng))
        if kind in FURTHER:
            return self._ddl(*texts_of(kind, self._rng, self._made))
        method: Callable[[], list[Step]] = getattr(self, _method(kind))
        return method()

    def follow(self, other: Statements) -> None:
        """Leaves out the columns that ``other`` has dropped, of a table of the same structure."""
        for column in [name for name in self._literals if name not in other._literals]:
            self._forget(column)

    def _forget(self, column: str) -> None:
        del self._literals[column]
        self._given = {number: _without(row, column) for number, row in self._given.items()}

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
        return self._rng.choice(self._literals[column])

    def _row(self, number: str = "") -> dict[str, str]:
        row = {column: self._literal(column) for column in self._literals if column != "id"}
        if number:
            return {"id": number, **row}
        if self._made.auto and self._rng.random() < 0.7:
            return row
        return {"id": self._new_id(), **row}

    def _known_row(self) -> Mapping[str, str]:
        """A row whose id is there already; often with all that its keys were first given, so that they are equal."""
        row = self._row(self._known())
        given = self._given.get(row["id"], {})
        if self._rng.random() < 0.5:
            return row
        return {**row, **{name: value for name, value in given.items() if name in self._made.keyed and name in row}}

    def _id(self, number: int) -> str:
        return str(number + self._shift)

    def _known(self) -> str:
        """The id of a row that was there first; seldom of one that may not have been."""
        if self._given and self._rng.random() < 0.8:
            return self._rng.choice(list(self._given))
        return self._id(self._rng.choice((1, 2, 3, 4, 5)))

    def _insert(self, how: str, *rows: Mapping[str, str], values: Mapping[str, str] | None = None) -> Step:
        found = rows or (self._known_row() if self._rng.random() < 0.5 else self._row(),)
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
        """Rows with new ids; a unique key leaves room for few of them, or for those that IGNORE takes."""
        count = self._rng.choice((3, 20))
        rows = [{**self._row(), "id": self._new_id()} for _ in range(count)]
        free = self._free_values()
        if self._made.distinct and free and self._rng.random() < 0.7:
            rows = [row | {self._made.moved: value} for row, value in zip(rows, free, strict=False)]
        how = "INSERT IGNORE" if self._made.distinct and len(rows) == count else "INSERT"
        return [self._insert(how, *rows)]

    def _new_id(self) -> str:
        self._next_id += 1
        return str(self._next_id)

    def _free_values(self) -> list[str]:
        """Values that no row was first given, in any order."""
        column = self._made.moved
        taken = {row.get(column) for row in self._given.values()} | {"NULL"}
        found = [value for value in self._literals.get(column, ()) if value not in taken]
        self._rng.shuffle(found)
        return found

    def _insert_ignore(self) -> list[Step]:
        return [self._insert("INSERT IGNORE")]

    def _insert_select(self) -> list[Step]:
        columns = ", ".join(f"`{column}`" for column in self._literals)
        rest = ", ".join(f"`{column}`" for column in self._literals if column != "id")
        shift, source = self._rng.choice((0, 20, 40)), self._rng.choice((_T, _U))
        return self._ddl(f"INSERT IGNORE INTO {_T} ({columns}) SELECT `id` + {shift}, {rest} FROM {source}")

    def _replace(self) -> list[Step]:
        return [self._insert("REPLACE")]

    def _on_duplicate_key(self) -> list[Step]:
        column = self._rng.choice([self._made.moved, self._counted])
        return [self._insert("INSERT", values={column: self._literal(column)})]

    def _update_(self) -> list[Step]:
        columns = [column for column in self._literals if column != "id"]
        chosen = self._rng.sample(columns, min(len(columns), self._rng.choice((1, 2))))
        return [self._update({column: self._literal(column) for column in chosen}, self._where())]

    def _update_same(self) -> list[Step]:
        """A number becomes another one or not. The keys' other columns stay, also where ON UPDATE would change them."""
        kept = [name for name in self._literals if name == "id" or (name in self._made.keyed and name != "n")]
        number = f"COALESCE(`n`, 0) + {self._rng.choice((0, 1))}"
        return [self._update({"n": number, **{name: f"`{name}`" for name in kept}}, self._where())]

    def _update_key(self) -> list[Step]:
        """A row gets another key; where the value is of the key, mostly the same one in another spelling."""
        row = self._given.get(self._known())
        if row is not None and "value" in self._made.primary and self._rng.random() < 0.7:
            column = self._made.moved
            return [self._update({column: self._spelled()(row[column])}, f"WHERE `id` = {row['id']}")]
        return [self._update({"id": self._new_id()}, f"WHERE `id` = {self._known()}")]

    def _update_ignore(self) -> list[Step]:
        return [self._update({self._made.moved: self._literal(self._made.moved)}, "", "UPDATE IGNORE")]

    def _update_all(self) -> list[Step]:
        return [self._update({"n": "`id` + 1"}, self._rng.choice(["", "ORDER BY `id` DESC"]))]

    def _update_joined(self) -> list[Step]:
        return self._ddl(f"UPDATE {_T} AS a JOIN {_U} AS o ON a.`id` = o.`id` SET a.`n` = 3, o.`n` = 4")

    def _delete(self) -> list[Step]:
        return self._ddl(f"DELETE FROM {_T} {self._where()}")

    def _delete_joined(self) -> list[Step]:
        return self._ddl(f"DELETE {_T}, {_U} FROM {_T} JOIN {_U} ON {_T}.`id` = {_U}.`id`")

    def _delete_all(self) -> list[Step]:
        return self._ddl(f"DELETE FROM {_T}")

    def _swap_values(self) -> list[Step]:
        """Two rows exchange their values, by way of a third value."""
        column = self._made.moved
        one, two = self._given.get(self._id(1)), self._given.get(self._id(2))
        if one is None or two is None:
            return []
        others = [value for value in self._literals[column] if value not in (one[column], two[column], "NULL")]
        nothing = ["NULL"] if "NULL" in self._literals[column] else []
        by = (self._free_values() or nothing or others or ["NULL"])[0]
        # The next swap is one back.
        self._given |= {one["id"]: {**one, column: two[column]}, two["id"]: {**two, column: one[column]}}
        # Two values that are spelled otherwise: not even one of them has the bytes that it had.
        spelled = self._spelled()
        return [
            self._update({column: by}, f"WHERE `id` = {one['id']}"),
            self._update({column: spelled(one[column])}, f"WHERE `id` = {two['id']}"),
            self._update({column: spelled(two[column])}, f"WHERE `id` = {one['id']}"),
        ]

    def _reuse_value(self) -> list[Step]:
        """A row gives its value up, another takes it; often so many at once that no order of few writers is right by
        chance."""
        row = self._given.get(self._known())
        if row is None:
            return []
        many = "d" in row or "NULL" in self._literals[self._made.moved]
        rows = list(self._given.values()) if many and self._rng.random() < 0.7 else [row]
        return [step for one in rows for step in self._taken_over(one, "NULL" if len(rows) > 1 else "")]

    def _taken_over(self, row: Mapping[str, str], left: str) -> list[Step]:
        """``left``: what the row has then; any value if empty."""
        column = self._made.moved
        gone: dict[str, str] = {"d": "NOW()"} if "d" in row else {column: left or self._literal(column)}
        return [
            self._update(gone, f"WHERE `id` = {row['id']}"),
            self._insert("INSERT", {**self._row(), **self._key(row, column), **({"d": "NULL"} if "d" in row else {})}),
        ]

    def _spelled(self) -> Callable[[str], str]:
        """How values are written: as they are, or often all in other bytes that are the same in most collations."""
        if self._made.kind not in SPELLED or self._rng.random() < 0.35:
            return lambda literal: literal
        return lambda literal: self._rng.choice(SPELLINGS.get(literal, (literal,)))

    def _key(self, row: Mapping[str, str], column: str) -> dict[str, str]:
        """What makes rows equal in their further keys."""
        found = {name: row[name] for name in (column, "n", "d", "s", "e") if name in row}
        return {**found, column: self._spelled()(found[column])} if column in found else found

    def _restore_value(self) -> list[Step]:
        """A row is deleted, its value goes to another, and comes back."""
        row = self._given.get(self._known())
        if row is None:
            return []
        column, new = self._made.moved, self._new_id()
        return [
            self._sql(f"DELETE FROM {_T} WHERE `id` = {row['id']}"),
            self._insert("INSERT", {**self._row(new), **self._key(row, column)}),
            self._sql(f"DELETE FROM {_T} WHERE `id` = {new}"),
            self._insert("INSERT", row),
        ]

    def _delete_and_insert(self) -> list[Step]:
        row = self._row(self._known())
        return [self._sql(f"DELETE FROM {_T} WHERE `id` = {row['id']}"), self._insert("INSERT", row)]

    def _load_data(self) -> list[Step]:
        # MariaDB has no REPLACE for keys of periods.
        ways = ["IGNORE"] if self._made.further == "without overlaps" else ["REPLACE", "IGNORE"]
        return self._ddl(f"LOAD DATA LOCAL INFILE '{{file}}' {self._rng.choice(ways)} INTO TABLE {_T} (`id`, `n`)")

    # -- structure ----------------------------------------------------------------------------------------------

    def _truncate(self) -> list[Step]:
        return self._ddl(f"TRUNCATE TABLE {_T}")

    def _add_column(self) -> list[Step]:
        self._added += 1
        kind = self._rng.choice(list(SQL_TYPES)[:25])
        place = self._rng.choice(["", " FIRST", " AFTER `id`"])
        rest = self._rng.choice(["NULL", "NOT NULL", "NULL"])
        self._columns.append(f"y{self._added}")
        return self._ddl(f"ALTER TABLE {_T} ADD COLUMN `y{self._added}` {SQL_TYPES[kind]} {rest}{place}")

    def _add_default(self) -> list[Step]:
        """A column whose default may change at once: the rows that exist have the first one."""
        self._added += 1
        name, values = f"`y{self._added}`", self._rng.sample(range(1, 9), 2)
        self._columns.append(f"y{self._added}")
        changed = [f"ALTER TABLE {_T} ALTER {name} SET DEFAULT {values[1]}"] * (self._rng.random() < 0.7)
        return self._ddl(f"ALTER TABLE {_T} ADD COLUMN {name} INT NULL DEFAULT {values[0]}", *changed)

    def _drop_column(self) -> list[Step]:
        """A column that was added, or one of the first ones that no key has; without one, one is added before."""
        # Without ``n`` most other statements fail.
        names = ("x", "n") if self._rng.random() < 0.15 else ("x",)
        first = [name for name in names if name in self._literals and name not in self._made.keyed]
        made = [] if self._columns or first else self._add_column()
        chosen = self._rng.choice([*self._columns, *first])
        if chosen in self._columns:
            self._columns.remove(chosen)
        else:
            self._forget(chosen)
        return [*made, *self._ddl(f"ALTER TABLE {_T} DROP COLUMN `{chosen}`")]

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
        self._added += 1
        self._indexes.append(f"by_n{self._added}")
        return self._ddl(f"ALTER TABLE {_T} ADD INDEX `by_n{self._added}` (`{self._counted}`)")

    @property
    def _counted(self) -> str:
        """A column of numbers."""
        return "n" if "n" in self._literals else "id"

    def _drop_index(self) -> list[Step]:
        made = [] if self._indexes else self._add_index()
        chosen = self._rng.choice(self._indexes)
        self._indexes.remove(chosen)
        return [*made, *self._ddl(f"ALTER TABLE {_T} DROP INDEX `{chosen}`")]

    def _add_unique(self) -> list[Step]:
        self._added += 1
        self._indexes.append(f"more{self._added}")
        self._keyed_anew = True
        also = ", `id`" if self._made.partitioned or self._rng.random() < 0.3 else ""
        columns = [f"`{name}`{also}" for name in ("c", "n") if name == "c" or name in self._literals]
        chosen = self._rng.choice([*columns, "`id`", "`id`"])
        return self._ddl(f"ALTER TABLE {_T} ADD UNIQUE `more{self._added}` ({chosen})")

    def _alter_ignore_add_unique(self) -> list[Step]:
        self._added += 1
        self._keyed_anew = True
        keyless = self._made.primary == "none" and "n" in self._literals
        rows = self._rows_out_of_order() if keyless and self._rng.random() < 0.8 else []
        column = "n" if rows else self._rng.choice(["c", self._counted, "id"])
        also = ", `id`" if self._made.partitioned and column != "id" else ""
        return [*rows, *self._ddl(f"ALTER IGNORE TABLE {_T} ADD UNIQUE `kept{self._added}` (`{column}`{also})")]

    def _rows_out_of_order(self) -> list[Step]:
        """Rows with equal numbers, of which those that are written first are committed last.

        The upstream keeps rows in the order of writing, a target in that of the binlog.
        """
        first, other = ({**self._row(), "id": self._new_id(), "n": "77"} for _ in range(2))
        later = replace(self._insert("INSERT IGNORE", other), session=(self._session + 1) % self._sessions)
        return [self._sql("BEGIN"), self._insert("INSERT IGNORE", first), later, self._sql("COMMIT")]

    def _add_primary_key(self) -> list[Step]:
        return self._ddl(
            f"ALTER TABLE {_T} {'' if self._made.primary == 'none' else 'DROP PRIMARY KEY, '}ADD PRIMARY KEY (`id`)"
        )

    def _add_auto_increment(self) -> list[Step]:
        if self._numbered:
            return []
        self._numbered = self._keyed_anew = True
        if self._made.partitioned:
            return self._ddl(
                f"ALTER TABLE {_T} ADD COLUMN `auto` INT AUTO_INCREMENT, ADD UNIQUE `by_auto` (`auto`, `id`)"
            )
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
        has = "without validation" in ABILITIES[self._pair.upstream]
        check = self._rng.choice(["", " WITHOUT VALIDATION"]) if has else ""
        return self._ddl(f"ALTER TABLE {_T} EXCHANGE PARTITION p1 WITH TABLE {_U}{check}")

    def _add_partition(self) -> list[Step]:
        """The last partition is cut in two."""
        self._added += 1
        rebuilt = self._rebuilt()
        last, new = self._partitions[-1], f"q{self._added}"
        parts = f"PARTITION {last} VALUES LESS THAN ({self._bound}), PARTITION {new} VALUES LESS THAN MAXVALUE"
        self._bound += 30
        self._partitions.append(new)
        return [*rebuilt, *self._ddl(f"ALTER TABLE {_T} REORGANIZE PARTITION {last} INTO ({parts})")]

    def _rebuilt(self) -> list[Step]:
        """Without it, a MariaDB may no longer be able to open the table once it has made partitions (known.py)."""
        needed, self._keyed_anew = self._keyed_anew and self._pair.upstream.startswith("mariadb"), False
        return self._ddl(f"ALTER TABLE {_T} FORCE") if needed and self._made.partitioned else []

    def _drop_partition(self) -> list[Step]:
        made = [] if len(self._partitions) > 1 else self._add_partition()
        return [*made, *self._ddl(f"ALTER TABLE {_T} DROP PARTITION {self._partitions.pop(0)}")]

    def _truncate_partition(self) -> list[Step]:
        rebuilt = self._rebuilt()
        return [*rebuilt, *self._ddl(f"ALTER TABLE {_T} TRUNCATE PARTITION {self._partitions[0]}")]

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

    # -- tools --------------------------------------------------------------------------------------------------

    def _tool(self, new: str, old: str, *around: str) -> list[Step]:
        self._added += 1
        made = self._ddl(*around, *table_exchange(new, old, self._added))
        return [replace(step, tied=f"tool{self._added}") for step in made]

    def _pt_osc(self) -> list[Step]:
        return self._tool("_t_new", "_t_old")

    def _gh_ost(self) -> list[Step]:
        return [*self._tool("_t_gho", "_t_del", GH_OST_HINTS), *self._ddl("DROP TABLE IF EXISTS {s}.`_t_ghc`")]

    # -- transactions of their own ------------------------------------------------------------------------------

    def _xa(self) -> list[Step]:
        """Prepared in one place of the binlog, and committed in another, after a change of another session."""
        other = replace(self._insert("INSERT IGNORE", self._row()), session=(self._session + 1) % self._sessions)
        return [
            *self._ddl(
                "XA START 'long'", f"UPDATE {_T} SET `n` = 3 WHERE `id` = 2", "XA END 'long'", "XA PREPARE 'long'"
            ),
            *([other] if self._sessions > 1 else []),
            self._sql("XA COMMIT 'long'"),
        ]

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


def _without(row: Mapping[str, str], column: str) -> Mapping[str, str]:
    return {name: value for name, value in row.items() if name != column}


def _tagged(step: Step, *tags: str) -> Step:
    return replace(step, tags=(*step.tags, *tags))


def _method(kind: str) -> str:
    """The method of a kind; two kinds have the names of helpers."""
    name = "_" + kind.replace(" ", "_").replace("-", "_")
    return name + "_" if name in ("_insert", "_update") else name
