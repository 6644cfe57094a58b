"""The tables of a history: one it is about (``t``), one of its form (``u``), and a parent (``p``). Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.fuzz.features import Pair
from tests.fuzz.history import Column, Table
from tests.fuzz.values import BASES, GENERATED, LITERALS, NARROWER, SQL_TYPES, WIDER, ZONED

_CHARSETS = {
    "latin1_swedish_ci": "latin1", "gbk_chinese_ci": "gbk", "sjis_japanese_ci": "sjis", "cp1250_general_ci": "cp1250",
    "utf16_unicode_ci": "utf16",
}  # fmt: skip
_TIMES = ("datetime", "datetime(6)", "timestamp", "timestamp(3)")
#: How often a target without NULLs lacks them in a TIMESTAMP, where some servers put the time in their place. Elsewhere
#: they are an error.
_FILLED_SHARE = 0.5


@dataclass(frozen=True)
class MadeTable:
    """``literals``: column → values that statements give it, without generated ones. ``kind``: the type's feature."""

    tables: tuple[Table, ...]
    kind: str
    literals: Mapping[str, Sequence[str]]
    #: The column whose values collide: ``c``, or what it is generated from.
    moved: str
    primary: str
    further: str
    #: Names of unique keys behind the primary one.
    unique: tuple[str, ...]
    target: tuple[str, ...]
    parent: bool
    partitioned: bool
    auto: bool
    #: The columns of its keys.
    keyed: frozenset[str]

    @property
    def distinct(self) -> bool:
        """Whether a key keeps values of the moved column apart."""
        return bool(self.unique) or self.primary == "value"


def make_table(rng: random.Random, pair: Pair, chosen: Mapping[str, str], reset: bool) -> MadeTable:
    kind, primary, further = chosen["type"], chosen["primary key"], chosen["further key"]
    literals: dict[str, Sequence[str]] = {"id": [str(number) for number in range(1, 10)]}
    columns = [Column("id", "INT", ("NOT NULL", *(["AUTO_INCREMENT"] if primary == "auto" else [])))]
    base, focus, pool = _focus(rng, chosen, primary in ("value", "id and value"), pair)
    if base is not None:
        columns.append(base)
        literals["b"] = ["NULL", *BASES[base.type]] if "value" not in primary else BASES[base.type]
    columns.append(focus)
    if pool:
        literals["c"] = pool
    columns.append(Column("n", "INT", ("NULL", "DEFAULT 0")))
    literals["n"] = ("0", "1", "2", "NULL")
    filled = chosen["target"] == "not null" and rng.random() < _FILLED_SHARE
    if filled or rng.random() < 0.4:
        other = rng.choice(["varchar", "int", "datetime(6)", "decimal", "bit", "enum", "float", "blob", "text"])
        other = "timestamp" if filled else other
        columns.append(Column("x", SQL_TYPES[other], ("NULL",)))
        literals["x"] = ("NULL", *LITERALS[other])
    partitioned = chosen["partition"] != "none"
    moved = "b" if base is not None else "c"
    keys, unique, more, more_literals = _keys(kind, primary, further, partitioned)
    columns += more
    literals.update(more_literals)
    parent = chosen["foreign key"] != "none"
    if parent:
        columns.append(Column("f", "INT", ("NULL",)))
        literals["f"] = ("NULL", "1", "2", "3")
    foreign = _foreign(chosen["foreign key"]) if parent else []
    tables = [Table("t", tuple(columns), (*keys, *foreign), _partition(chosen["partition"]))]
    tables.append(Table("u", tuple(columns), tuple(keys)))
    if reset:
        tables.append(Table("z", (Column("id", "INT", ("NOT NULL", "PRIMARY KEY")),)))
    if parent:
        tables.insert(0, Table("p", (Column("id", "INT", ("NOT NULL", "PRIMARY KEY")), Column("v", "INT", ("NULL",)))))
    target = _target(chosen["target"], kind, focus, unique, primary)
    if filled:
        target = ["ALTER TABLE {s}.`t` MODIFY `x` TIMESTAMP NOT NULL"]
    return MadeTable(
        tuple(tables), kind, literals, moved, primary, further, tuple(unique), tuple(target), parent, partitioned,
        primary == "auto", frozenset(name for key in keys for name in re.findall(r"`(\w+)`", key)),
    )  # fmt: skip


def _focus(
    rng: random.Random, chosen: Mapping[str, str], in_key: bool, pair: Pair
) -> tuple[Column | None, Column, Sequence[str]]:
    """The base column, if any, the focus column ``c``, and the latter's literals (none for a generated one)."""
    kind, attribute, collation = chosen["type"], chosen["attribute"], chosen["collation"]
    sql, literals = SQL_TYPES[kind], LITERALS[kind]
    if collation != "none":
        sql += f" CHARACTER SET {_CHARSETS.get(collation, 'utf8mb4')} COLLATE {collation}"
    stored = "STORED" if attribute.startswith("stored") else "VIRTUAL"
    match attribute:
        case "stored" | "virtual":
            of, expression = GENERATED[kind]
            return Column("b", of, ("NULL",)), Column("c", sql, (f"AS {expression} {stored}",)), ()
        case "stored with zone" | "virtual with zone":
            shown, expression = rng.choice(ZONED)
            base = Column("b", SQL_TYPES[kind], ("NULL", "DEFAULT NULL"))
            return base, Column("c", shown, (f"AS ({expression}) {stored}",)), ()
        case "on update":
            digits = "(6)" if "(6)" in kind else "(3)" if "(3)" in kind else ""
            now = f"CURRENT_TIMESTAMP{digits}"
            return None, Column("c", sql, (f"NOT NULL DEFAULT {now} ON UPDATE {now}",)), literals
    after = _attributes(attribute, kind, literals[0], in_key)
    nullable = not in_key and attribute != "not null"
    return None, Column("c", sql, tuple(after)), ["NULL", *literals] if nullable else literals


def _attributes(attribute: str, kind: str, literal: str, in_key: bool) -> list[str]:
    found = ["NOT NULL" if in_key or attribute == "not null" else "NULL"]
    match attribute:
        case "default":
            found.append(f"DEFAULT {literal}")
        case "default expression":
            found.append(f"DEFAULT {_expression(kind)}")
        case "invisible":
            found.append("DEFAULT NULL INVISIBLE" if not in_key else f"DEFAULT {literal} INVISIBLE")
        case "check":
            found.append("CHECK (`c` IS NOT NULL OR `id` < 1000000)")
        case "none":
            # MariaDB and MySQL 5.7 give a TIMESTAMP that says nothing a default of their own.
            found += ["DEFAULT '2000-01-01 00:00:00'"] if in_key and kind.startswith("timestamp") else []
    return found


def _expression(kind: str) -> str:
    if kind in _TIMES:
        return "(DATE_ADD('2020-01-01 00:00:00', INTERVAL 1 DAY))"
    return "(CONCAT('x', 1))" if kind == "varchar" else "(1 + 2)"


def _keys(
    kind: str, primary: str, further: str, partitioned: bool
) -> tuple[list[str], list[str], list[Column], dict[str, Sequence[str]]]:
    """Keys, names of the unique ones behind the primary, and the columns that they need with their literals."""
    keys, columns, literals = [], list[Column](), dict[str, Sequence[str]]()
    also = ", `id`" if partitioned else ""
    match primary:
        case "id" | "auto":
            keys.append("PRIMARY KEY (`id`)")
        case "value":
            keys.append(f"PRIMARY KEY (`c`{also})")
        case "id and value":
            keys.append("PRIMARY KEY (`id`, `c`)")
    unique = []
    match further:
        case "unique":
            unique.append(f"(`c`{also})")
        case "unique pair":
            unique.append(f"(`c`, `n`{also})")
        case "unique prefix":
            unique.append(f"(`c`(2){also})")
        case "two unique":
            unique += [f"(`c`{also})", f"(`n`, `c`{also})"]
        case "three unique":
            columns.append(Column("w", "INT", ("NULL",)))
            literals["w"] = ("NULL", "NULL", "1", "2", "3", "4")
            unique += [f"(`c`{also})", f"(`n`, `c`{also})", f"(`w`{also})"]
        case "soft delete":
            columns += [
                Column("d", "DATETIME", ("NULL",)),
                Column("live", "TINYINT", ("AS (IF(`d` IS NULL, 1, NULL)) VIRTUAL",)),
            ]
            literals["d"] = ("NULL", "NULL", "'2024-01-01 00:00:00'")
            unique.append(f"(`c`, `live`{also})")
        case "functional":
            unique.append(f"((UPPER(`c`)){also})" if kind in ("varchar", "char") else f"((`c` * 2){also})")
        case "without overlaps":
            columns += [Column("s", "DATE", ("NOT NULL",)), Column("e", "DATE", ("NOT NULL",))]
            literals["s"] = ("'2024-01-01'", "'2024-02-01'", "'2024-03-01'")
            literals["e"] = ("'2024-03-02'", "'2024-04-01'", "'2024-05-01'")
            keys.append("PERIOD FOR `when`(`s`, `e`)")
            if not partitioned:
                unique.append("(`n`, `when` WITHOUT OVERLAPS)")
        case "index":
            keys.append("KEY `i` (`c`, `n`)")
    names = [f"k{number}" for number in range(1, len(unique) + 1)]
    keys += [f"UNIQUE KEY `{name}` {parts}" for name, parts in zip(names, unique, strict=True)]
    if primary == "none" and further == "none" and partitioned:
        keys.append("KEY `i` (`id`)")
    return keys, names, columns, literals


def _foreign(action: str) -> list[str]:
    words = {"restrict": "", "cascade": " ON DELETE CASCADE ON UPDATE CASCADE", "set null": " ON DELETE SET NULL"}
    return [f"FOREIGN KEY (`f`) REFERENCES `p` (`id`){words[action]}"]


def _partition(way: str) -> str:
    match way:
        case "hash":
            return "PARTITION BY HASH (`id`) PARTITIONS 3"
        case "key":
            return "PARTITION BY KEY (`id`) PARTITIONS 3"
        case "range":
            parts = "PARTITION p0 VALUES LESS THAN (4), PARTITION p1 VALUES LESS THAN (8)"
            return f"PARTITION BY RANGE (`id`) ({parts}, PARTITION p2 VALUES LESS THAN MAXVALUE)"
        case "list":
            parts = ", ".join(f"PARTITION p{rest} VALUES IN ({rest})" for rest in range(3))
            return f"PARTITION BY LIST (MOD(`id`, 3)) ({parts})"
    return ""


def _target(way: str, kind: str, focus: Column, unique: Sequence[str], primary: str) -> list[str]:
    """How the target's table differs."""
    generated = any(" AS (" in f" {part}" for part in focus.after)
    collation = focus.type.partition(" CHARACTER SET")[2]
    charset = f" CHARACTER SET{collation}" if collation else ""
    alter = "ALTER TABLE {s}.`t`"
    match way:
        case "narrow" if kind in NARROWER and not generated:
            return [f"{alter} MODIFY `c` {NARROWER[kind]}{charset} {'NULL' if 'NULL' in focus.after else 'NOT NULL'}"]
        case "not null" if not generated and "NULL" in focus.after and "value" not in primary:
            return [f"{alter} MODIFY `c` {focus.type} NOT NULL"]
        case "wide" if kind in WIDER and not generated:
            return [f"{alter} MODIFY `c` {WIDER[kind]}{charset} {'NULL' if 'NULL' in focus.after else 'NOT NULL'}"]
        case "other charset" if collation and not generated:
            other = "utf16" if "utf8mb4" in collation else "utf8mb4"
            sql = focus.type.removesuffix(f" CHARACTER SET{collation}")
            null = "NULL" if "NULL" in focus.after else "NOT NULL"
            # Equal values of another collation have to stay apart.
            return [f"{alter} MODIFY `c` {sql} CHARACTER SET {other} COLLATE {other}_bin {null}"]
        case "extra column":
            return [f"{alter} ADD COLUMN `more` INT DEFAULT 5"]
        case "on update" if kind in ("timestamp", "datetime") and not generated:
            return [f"{alter} MODIFY `c` {focus.type} NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"]
        case "fewer keys":
            return [f"{alter} DROP KEY `{name}`" for name in unique]
    return []
