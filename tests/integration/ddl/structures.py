"""What must be equal between two structures."""

from __future__ import annotations

from typing import Any

from pkg.mysql.schema import TableInfo


def comparable(table: TableInfo) -> dict[str, Any]:
    """All but DEFAULT values and the engine's name, which each server shows differently."""
    return {
        "columns": [
            (c.name, c.type_name, c.column_type, c.nullable, c.unsigned, c.charset, c.collation, c.generated)
            for c in table.columns
        ],
        "flags": [(c.auto_increment, c.invisible) for c in table.columns],
        "unique": [(k.name, k.parts) for k in table.indexes if k.unique],
        "indexes": [(k.name, k.columns) for k in table.indexes],
        "charset": (table.charset, table.collation),
        "foreign keys": table.foreign_keys,
    }
