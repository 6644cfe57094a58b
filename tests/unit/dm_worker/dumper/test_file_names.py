"""Hazard: a file name does not lead back to its schema and table, so that rows are loaded into another one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.dumper import file_names

_NAMES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=20)


@given(_NAMES, _NAMES, st.integers(0, 999_999_999))
def test_any_name_comes_back_from_its_file_name(schema: str, table: str, number: int) -> None:
    for name, kind in (
        (file_names.database_file(schema), "database"),
        (file_names.table_file(schema, table), "table"),
        (file_names.data_file(schema, table, number), "data"),
    ):
        assert "/" not in name
        parsed = file_names.parse(name)
        assert parsed is not None
        assert (parsed.kind, parsed.schema) == (kind, schema)
        assert parsed.table == ("" if kind == "database" else table)
