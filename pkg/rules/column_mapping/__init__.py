"""Column mapping: changes values on their way, so that the rows of merged shards stay distinct."""

from pkg.rules.column_mapping.mapper import EXPRESSIONS, ColumnMapper, TableMapping, collisions
from pkg.rules.column_mapping.transforms import VALUE_LIMIT, Affix, MappedColumn, PartitionId, Transform

__all__ = [
    "EXPRESSIONS",
    "VALUE_LIMIT",
    "Affix",
    "ColumnMapper",
    "MappedColumn",
    "PartitionId",
    "TableMapping",
    "Transform",
    "collisions",
]
