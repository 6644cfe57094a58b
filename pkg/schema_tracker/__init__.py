"""Follows the structures of upstream tables through their DDL."""

from pkg.schema_tracker.server import Charset, ServerDefaults, fetch_collations, fetch_server_defaults
from pkg.schema_tracker.structure import parse_create_table
from pkg.schema_tracker.tidb_json import tidb_model_of
from pkg.schema_tracker.tidb_model import TIDB_CHARSET, table_of_tidb_model
from pkg.schema_tracker.tracker import SchemaTracker

__all__ = [
    "TIDB_CHARSET",
    "Charset",
    "SchemaTracker",
    "ServerDefaults",
    "fetch_collations",
    "fetch_server_defaults",
    "parse_create_table",
    "table_of_tidb_model",
    "tidb_model_of",
]
