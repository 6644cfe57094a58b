"""ALTER TABLE statements of several parts that a server accepts, and the resulting table."""

from __future__ import annotations

from hypothesis import strategies as st

from pkg.ddl import DDLStatement, parse
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


@st.composite
def alters(draw: st.DrawFn, flavor: str, *, charsets: bool = True) -> DDLStatement:
    """An ALTER TABLE of :data:`TABLE` that a server accepts, of as many parts as possible. ``charsets``: it may change
    charsets."""
    parts: list[str] = []
    one = _ONE if charsets else _ONE.filter(lambda part: "CHAR" not in part)
    for part in draw(st.lists(one, min_size=3, max_size=9)):
        parts += [part] if after([_altering([*parts, part], flavor)], flavor) is not None else []
    return _altering(parts or ["ADD x INT"], flavor)


def _altering(parts: list[str], flavor: str) -> DDLStatement:
    return parse(f"ALTER TABLE t {', '.join(parts)}", default_schema="s", flavor=flavor)


def after(statements: list[DDLStatement], flavor: str) -> TableInfo | None:
    """The table after the statements; None if a server would refuse one of them."""
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
    """Whether a server accepts the statement: it names existing objects, each once, and creates only new ones."""
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
        # No added column has the name of a dropped one: it would take that one's place in the keys.
        and not {*gone} & {*added}
        and {*index_gone} <= {*indexes}
        and _are_unique([*index_gone])
        and _are_unique([*index_names, *(name for name in indexes if name not in index_gone)])
        and sum(isinstance(a, RenameTable) for a in actions) <= 1
        and sum(isinstance(a, ConvertCharset) for a in actions) <= 1
    )


def _are_unique(names: list[str]) -> bool:
    return len({*names}) == len(names)
