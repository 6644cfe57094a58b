"""DDL statements: parses them with the location of every name, splits them, rewrites them for the target.

A statement that is not understood is an error with an operator action; it is never passed on by guessing.
"""

from pkg.ddl.check_names import has_checks, missing_check, with_check_names
from pkg.ddl.collate import with_collations
from pkg.ddl.columns import type_text
from pkg.ddl.foreign_names import by_copying, missing_foreign_key, renamed_with_table
from pkg.ddl.heeded import as_heeded
from pkg.ddl.key_names import KeyNames, free_key_name, key_names, leaves_names_out, with_key_names
from pkg.ddl.parser import classify, parse, parse_dialect
from pkg.ddl.rewrite import IGNORABLE_ERRORS, TableRewrite, ignorable_errors, rewrite, split, split_alter
from pkg.ddl.skipped import StatementClass
from pkg.ddl.statement import DDLKind, DDLStatement, TableRef
from pkg.ddl.timestamp_defaults import leaves_timestamps_open, with_timestamp_defaults
from pkg.ddl.tokens import Dialect, SessionDefaults
from pkg.ddl.uniform import uniform
from pkg.ddl.unparsed import named_schemas, separate

__all__ = [
    "IGNORABLE_ERRORS",
    "DDLKind",
    "DDLStatement",
    "Dialect",
    "KeyNames",
    "SessionDefaults",
    "StatementClass",
    "TableRef",
    "TableRewrite",
    "as_heeded",
    "by_copying",
    "classify",
    "free_key_name",
    "has_checks",
    "ignorable_errors",
    "key_names",
    "leaves_names_out",
    "leaves_timestamps_open",
    "missing_check",
    "missing_foreign_key",
    "named_schemas",
    "parse",
    "parse_dialect",
    "renamed_with_table",
    "rewrite",
    "separate",
    "split",
    "split_alter",
    "type_text",
    "uniform",
    "with_check_names",
    "with_collations",
    "with_key_names",
    "with_timestamp_defaults",
]
