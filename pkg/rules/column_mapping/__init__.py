"""Column mapping: values that are changed on their way, so that the rows of merged shards keep apart."""

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
