"""Hazard: parts that run one by one lead to another table than all of them at once, or stop half way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pkg.ddl import DDLStatement, parse
from pkg.ddl.serial_parts import serial_parts
from pkg.ddl.statement import (
    AddColumn,
    AddIndex,
    AlterColumn,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropIndex,
    RenameColumn,
    RenameIndex,
    RenameTable,
)
from pkg.errors import DMError
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker import SchemaTracker, ServerDefaults, parse_create_table

SERVERS = {"mariadb": ServerDefaults(), "mysql": ServerDefaults("mysql", (8, 0, 12))}
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9), c INT NOT NULL, d VARCHAR(5), KEY ka (a), KEY kb (b),"
    " UNIQUE KEY kc (c, a)) DEFAULT CHARSET=latin1"
)


def texts(sql: str, flavor: str = "mysql") -> list[str]:
    parts = serial_parts(parse(sql, default_schema="s", flavor=flavor))
    return [part.sql.removeprefix("ALTER TABLE t ") for part in parts]


@pytest.mark.parametrize(
    ("alter", "parts"),
    [
        ("ADD INDEX i (n), ADD n INT", ["ADD n INT", "ADD INDEX i (n)"]),
        ("ADD (n INT, KEY i (n), m INT)", ["ADD COLUMN n INT", "ADD COLUMN m INT", "ADD KEY i (n)"]),
        ("RENAME TO u, ADD n INT", ["ADD n INT", "RENAME TO u"]),
        (
            "CHANGE a b VARCHAR(9), CHANGE b a INT",
            [
                "RENAME COLUMN `a` TO `dm_aside_a`",
                "CHANGE b a INT",
                "CHANGE COLUMN `dm_aside_a` `b` VARCHAR(9)",
            ],
        ),
        ("CHANGE a b INT, CHANGE b z INT", ["CHANGE b z INT", "CHANGE a b INT"]),
        ("RENAME INDEX ka TO kb, DROP INDEX kb", ["DROP INDEX kb", "RENAME INDEX ka TO kb"]),
        (
            "RENAME INDEX ka TO kb, RENAME KEY kb TO ka",
            ["RENAME INDEX `ka` TO `dm_aside_ka`", "RENAME KEY kb TO ka", "RENAME INDEX `dm_aside_ka` TO `kb`"],
        ),
        ("ADD INDEX ka (b), DROP INDEX ka", ["DROP INDEX ka", "ADD INDEX ka (b)"]),
        ("DROP INDEX ka, ADD INDEX other (a)", ["ADD INDEX other (a)", "DROP INDEX ka"]),
        ("ADD a BIGINT, DROP COLUMN a", ["DROP COLUMN a", "ADD a BIGINT"]),
        (
            "CHANGE COLUMN IF EXISTS a z BIGINT UNIQUE COMMENT 'x, y' AFTER n, ADD n INT FIRST",
            [
                "RENAME COLUMN `a` TO `z`",
                "MODIFY COLUMN `z` BIGINT UNIQUE COMMENT 'x, y' AFTER n",
                "ADD n INT FIRST",
            ],
        ),
        ("ALTER a SET DEFAULT 5, CHANGE a z INT", ["CHANGE a z INT", "ALTER COLUMN `z` SET DEFAULT 5"]),
        (
            "ADD n VARCHAR(9), CONVERT TO CHARACTER SET utf8mb4, DROP FOREIGN KEY f, COMMENT 'c'",
            ["DROP FOREIGN KEY f", "ADD n VARCHAR(9)", "CONVERT TO CHARACTER SET utf8mb4", "COMMENT 'c'"],
        ),
        ("ADD n VARCHAR(9), CHARSET utf8mb4", ["CHARSET utf8mb4", "ADD n VARCHAR(9)"]),
        (
            "ADD FOREIGN KEY (n) REFERENCES p (id), ADD n INT, ADD KEY k (n), ALGORITHM=COPY",
            [
                "ADD n INT, ALGORITHM=COPY",
                "ADD KEY k (n), ALGORITHM=COPY",
                "ADD FOREIGN KEY (n) REFERENCES p (id), ALGORITHM=COPY",
            ],
        ),
        ("RENAME TO u", ["RENAME TO u"]),
    ],
)
def test_the_order_of_parts(alter: str, parts: list[str]) -> None:
    assert texts(f"ALTER TABLE t {alter}", "") == parts


def test_what_an_option_and_a_conversion_decide_stays() -> None:
    late = ["CONVERT TO CHARACTER SET utf8", "CHARSET latin2"]
    assert texts("ALTER TABLE t CHARSET latin2, CONVERT TO CHARACTER SET utf8", "mysql") == late[::-1]
    assert texts("ALTER TABLE t CHARSET latin2, CONVERT TO CHARACTER SET utf8", "mariadb") == late
    assert texts("ALTER TABLE t CONVERT TO CHARACTER SET utf8, CHARSET latin2", "mysql") == late


# -- against the whole statement ---------------------------------------------------------------------------------

_TYPES = st.sampled_from(["INT", "BIGINT NOT NULL DEFAULT 3", "VARCHAR(7)", "VARCHAR(9) CHARACTER SET utf8mb4"])
_OLD = st.sampled_from("abcd")
_NAMES = st.sampled_from("abcdwxyz")
_INDEX = st.sampled_from(["ka", "kb", "kc", "kx", "ky"])
_PLACE = st.one_of(st.just(""), st.just(" FIRST"), _NAMES.map(lambda name: f" AFTER {name}"))
_ONE = st.one_of(
    st.builds("ADD {} {}{}".format, _NAMES, _TYPES, _PLACE),
    st.builds("ADD ({} {}, {} {})".format, _NAMES, _TYPES, _NAMES, _TYPES),
    st.builds("CHANGE {} {} {}{}".format, _OLD, _NAMES, _TYPES, _PLACE),
    st.builds("MODIFY {} {}{}".format, _OLD, _TYPES, _PLACE),
    st.builds("RENAME COLUMN {} TO {}".format, _OLD, _NAMES),
    st.builds("DROP COLUMN {}".format, _OLD),
    st.builds("ALTER {} SET DEFAULT 7".format, _OLD),
    st.builds("ADD INDEX {} ({})".format, _INDEX, _NAMES),
    st.builds("ADD UNIQUE {} ({}, id)".format, _INDEX, _NAMES),
    st.builds("DROP INDEX {}".format, _INDEX),
    st.builds("RENAME INDEX {} TO {}".format, _INDEX, _INDEX),
    st.sampled_from(
        ["CONVERT TO CHARACTER SET utf8mb4", "CHARSET utf8", "CHARSET latin2", "RENAME TO u", "COMMENT 'c'"]
    ),
)


@pytest.mark.parametrize("flavor", SERVERS)
@settings(max_examples=100)
@given(st.lists(_ONE, min_size=3, max_size=9))
def test_the_parts_lead_where_the_whole_leads(flavor: str, candidates: list[str]) -> None:
    parts: list[str] = []
    for part in candidates:
        parts += [part] if _after([_altering([*parts, part], flavor)], flavor) is not None else []
    assume(len(parts) > 1)
    whole = _altering(parts, flavor)
    serial = serial_parts(whole)
    found = _after(serial, flavor)
    assert _comparable(found) == _comparable(_after([whole], flavor)), (whole.sql, [part.sql for part in serial])


def _altering(parts: list[str], flavor: str) -> DDLStatement:
    return parse(f"ALTER TABLE t {', '.join(parts)}", default_schema="s", flavor=flavor)


def _after(statements: list[DDLStatement], flavor: str) -> TableInfo | None:
    """The table behind them; None if a server would refuse one of them."""
    server = SERVERS[flavor]
    tracker = SchemaTracker(server)
    tracker.set_table(parse_create_table(TABLE, "s", server))
    for statement in statements:
        (table,) = tracker.tables()
        if not _is_taken(table, statement):
            return None
        try:
            tracker.apply(statement)
        except DMError:
            return None
    (table,) = tracker.tables()
    return table


def _is_taken(table: TableInfo, statement: DDLStatement) -> bool:
    """Whether a server takes the statement: it names what is there, once, and makes what is not."""
    actions = statement.actions
    columns, indexes = [c.name for c in table.columns], [i.name for i in table.indexes]
    old = [a.old_name for a in actions if isinstance(a, ChangeColumn | RenameColumn)]
    gone = [a.name for a in actions if isinstance(a, DropColumn)]
    set_ = [a.name for a in actions if isinstance(a, AlterColumn)]
    added = [a.column.name for a in actions if isinstance(a, AddColumn)]
    index_names = [a.index.name for a in actions if isinstance(a, AddIndex)]
    index_names += [a.new_name for a in actions if isinstance(a, RenameIndex)]
    index_gone = [a.name for a in actions if isinstance(a, DropIndex)]
    index_gone += [a.old_name for a in actions if isinstance(a, RenameIndex)]
    return (
        statement.refs[0].table == table.name
        and {*old, *gone, *set_} <= {*columns}
        and len({*old, *gone}) == len([*old, *gone])
        and not {*set_} & {*gone}
        # A column that steps into the keys of one that goes is refused by another name: the keys would go too.
        and not {*gone} & {*added}
        and {*index_gone} <= {*indexes}
        and _are_unique([*index_gone])
        and _are_unique([*index_names, *(name for name in indexes if name not in index_gone)])
        and sum(isinstance(a, RenameTable) for a in actions) <= 1
        and sum(isinstance(a, ConvertCharset) for a in actions) <= 1
    )


def _are_unique(names: list[str]) -> bool:
    return len({*names}) == len(names)


def _comparable(info: TableInfo | None) -> TableInfo | None:
    return None if info is None else replace(info, indexes=tuple(sorted(info.indexes, key=lambda one: one.name)))
