"""The keys of rules in source and task files. Pure data; ``yaml_blocks.py`` reads them."""

from __future__ import annotations

from pkg.settings.keys import Block, FileKey

_FILTER = "pkg/rules/binlog_filter/filter.py"
_LIST = "pkg/rules/block_allow_list.py"
_ROUTER = "pkg/rules/table_router.py"
_MAPPER = "pkg/rules/column_mapping/mapper.py"
_EXPRESSIONS = "dm_worker/syncer/rows/task_rules.py"
_SHOP = '"shop_*"'


def _extract(part: str, comment: str = "", regexp: str = "", column: str = "") -> Block:
    return Block(
        f"extract-{part}",
        (
            FileKey(
                f"{part}-regexp",
                f"Regular expression with groups, which takes the part of the {part}'s name.",
                _ROUTER,
                sample=regexp,
            ),
            FileKey("target-column", "Column of the target that gets it.", _ROUTER, sample=column),
        ),
        comment=comment,
    )


ROUTE = (
    FileKey("schema-pattern", "Upstream schemas.", _ROUTER, default="required", sample=(_SHOP, _SHOP)),
    FileKey("table-pattern", "Upstream tables; empty: a rule for the schema.", _ROUTER, sample='"orders_*"'),
    FileKey("target-schema", "Schema of the target.", _ROUTER, default="required", sample=('"shop"', '"shop"')),
    FileKey("target-table", "Table of the target; empty: the upstream's name.", _ROUTER, sample='"orders"'),
    _extract(
        "table",
        """\
The row's origin: the parts in ( ) of the upstream table's name go into a column of the target table. The column
must exist there and must not exist in the upstream's table. extract-schema (schema-regexp) and extract-source
(source-regexp, over the source-id) do the same. A name that does not match the expression is an error.""",
        '"orders_(.*)"',
        '"c_shard"',
    ),
    _extract("schema", 'extract-schema: {schema-regexp: "shop_(.*)", target-column: "c_schema"}'),
    _extract("source", 'extract-source: {source-regexp: "(.*)", target-column: "c_source"}'),
)
FILTER = (
    FileKey("schema-pattern", "Schemas that the filter is for.", _FILTER, default="required", sample=_SHOP),
    FileKey(
        "table-pattern",
        "Tables that it is for; empty: the schema; `*`: both.",
        _FILTER,
        sample='"orders_*"',
    ),
    FileKey(
        "events",
        "Event types: docs/merge-rules.md.",
        _FILTER,
        default="[]",
        sample='["truncate table", "drop table"]',
        comment="""\
insert, update, delete; DDL such as "drop table" or "truncate table"; groups: all, none, all dml, none dml, all ddl,
none ddl, incompatible ddl changes. The first entry that decides wins. Each part of a statement is decided by
itself: docs/merge-rules.md shows its event type. ADD COLUMN is "alter table", and also "add column".""",
    ),
    FileKey(
        "sql-pattern",
        "Regular expressions, one of which the statement must match.",
        _FILTER,
        default="[]",
        sample="[]",
        comment="Regular expressions, one of which must match a part of the statement; case does not count.",
    ),
    FileKey(
        "action",
        "Do, Ignore or Error. A source's filters come after those of the task.",
        _FILTER,
        default="Do",
        sample="Ignore",
        comment="Ignore: not at the target; the structure is still followed. Do: only these. Error: the task stops.",
    ),
)
EXPRESSION_FILTER = (
    FileKey("schema", "Upstream schema.", _EXPRESSIONS, default="required", sample='"shop_1"'),
    FileKey("table", "Upstream table.", _EXPRESSIONS, default="required", sample='"orders_1"'),
    FileKey(
        "insert-value-expr",
        "Inserted rows for which it is true are left out.",
        _EXPRESSIONS,
        sample="\"state = 'draft' and amount < 10\"",
    ),
    FileKey("update-old-value-expr", "For updates: true for the row before.", _EXPRESSIONS),
    FileKey("update-new-value-expr", "For updates: true for the row after.", _EXPRESSIONS),
    FileKey("delete-value-expr", "Deletes of rows for which it is true are left out.", _EXPRESSIONS),
)
COLUMN_MAPPING = (
    FileKey("schema-pattern", "Upstream schemas.", _MAPPER, default="required", sample=_SHOP),
    FileKey("table-pattern", "Upstream tables.", _MAPPER, sample='"orders_*"'),
    FileKey(
        "source-column",
        "Column that is read; empty: target-column.",
        _MAPPER,
        sample='"id"',
        comment="The column that is read (by default target-column), and the column that gets the result.",
    ),
    FileKey("target-column", "Column that gets the result.", _MAPPER, default="required", sample='"id"'),
    FileKey(
        "expression",
        "partition id, add prefix or add suffix.",
        _MAPPER,
        default="required",
        sample='"partition id"',
        comment="""\
partition id: a number of 63 bits, made of the instance id (4 bits), the number after the schema's prefix (7), the
  number after the table's prefix (8) and the value, 0 to 17592186044415 (44). An empty argument leaves its part
  out; a fourth argument is the text between prefix and number. The target's column must be a BIGINT (or a text of
  19 characters): create the target table by hand if the upstream's column is smaller.
add prefix, add suffix: a text with the one argument before or after it.""",
    ),
    FileKey(
        "arguments",
        "Arguments of the expression.",
        _MAPPER,
        default="[]",
        sample='["1", "shop", "orders", "_"]',
    ),
    FileKey("create-table-query", "Target tables are created from the upstream's.", kind="warned"),
)


def _tables(key: str, effect: str, note: str, table: str) -> Block:
    names = (
        FileKey("db-name", f"{effect}{note}", _LIST, sample=_SHOP),
        FileKey("tbl-name", f"Tables of it.{note}", _LIST, sample=table),
    )
    return Block(key, names, form="items")


def block_allow_list(note: str = "") -> tuple[FileKey | Block, ...]:
    """``note`` is added to the effect of each key."""
    return (
        _tables("do-tables", "Schema of tables that take part.", note, '"*"'),
        FileKey("do-dbs", f"Schemas that take part; empty: all.{note}", _LIST, default="[]", sample=f"[{_SHOP}]"),
        _tables("ignore-tables", "Schema of tables that are left out.", note, '"tmp_*"'),
        FileKey(
            "ignore-dbs",
            f"Schemas that are left out, if do-dbs is empty.{note}",
            _LIST,
            default="[]",
            sample="[]",
        ),
    )
