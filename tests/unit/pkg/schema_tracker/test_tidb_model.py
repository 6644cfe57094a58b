"""Hazard: a structure that DM left is read differently from what the statements made, so rows go into wrong columns.

The oracle is TiDB's tracker, which made the descriptions from the statements beside them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pkg import ddl
from pkg.mysql.schema import Column, Index, TableInfo
from pkg.schema_tracker import SchemaTracker, ServerDefaults, table_of_tidb_model
from tests.harness.dm_state.tables import models, without_late_fields

_SERVERS = [ServerDefaults(), ServerDefaults("mysql", (5, 7, 40)), ServerDefaults("mysql", (8, 0, 36))]


def _made_here(statements: list[str], server: ServerDefaults) -> TableInfo:
    tracker = SchemaTracker(server)
    tracker.set_schema("d", "utf8mb4", "utf8mb4_bin")
    for sql in statements:
        tracker.apply(ddl.parse(sql, default_schema="d", flavor=server.flavor, version=server.version))
    info = tracker.table("d", "t")
    assert info is not None
    return info


def _without_defaults_of_tidb(column: Column) -> Column:
    """Collations that no statement named are TiDB's, and it has one way to write a default."""
    default = column.default and column.default.strip("'")
    return replace(column, collation="", default=None if default == "NULL" else default)


def _unnamed(index: Index) -> tuple[object, ...]:
    """Names that the servers find differ."""
    return (index.parts, index.unique)


@pytest.mark.parametrize("server", _SERVERS, ids=lambda one: f"{one.flavor}-{one.version[0]}.{one.version[1]}")
@pytest.mark.parametrize("early", [False, True], ids=["newest", "2.0"])
@pytest.mark.parametrize("name", models())
def test_a_model_is_what_its_statements_made(name: str, early: bool, server: ServerDefaults) -> None:
    statements, text = models()[name]
    model = json.loads(text)
    if early and name != "expression index":
        model = without_late_fields(model)
    found, expected = table_of_tidb_model(model, "d", "t", server), _made_here(statements, server)
    assert (found.schema, found.name) == ("d", "t")
    if name == "expression default":
        assert [column.default for column in found.columns] == ["(uuid_to_bin(uuid()))", "(uuid())"]
        found = replace(found, columns=tuple(replace(one, default=None) for one in found.columns))
        expected = replace(expected, columns=tuple(replace(one, default=None) for one in expected.columns))
    assert [*map(_without_defaults_of_tidb, found.columns)] == [*map(_without_defaults_of_tidb, expected.columns)]
    assert {*map(_unnamed, found.indexes)} == {*map(_unnamed, expected.indexes)}
    assert found.foreign_keys == expected.foreign_keys
    assert found.row_key() is None or found.row_key() == expected.row_key()


def test_a_stale_name_in_an_index_does_not_count() -> None:
    """TiDB's tracker leaves the former name of a renamed column in the parts of indexes."""
    model = json.loads(models()["altered"][1])
    assert "b" in [part["name"]["O"] for index in model["index_info"] for part in index["idx_cols"]]
    info = table_of_tidb_model(model, "d", "t", ServerDefaults())
    assert {index.name: index.columns for index in info.indexes}["ub"] == ("amount",)


def _broken(**changes: Any) -> dict[str, Any]:
    return {**json.loads(models()["moved"][1]), **changes}


@pytest.mark.parametrize(
    "model",
    [
        None,
        [],
        {},
        {"ddls": []},
        _broken(cols=None),
        _broken(view={"view_select": "SELECT 1"}),
        _broken(cols=[{**_broken()["cols"][0], "state": 3}]),
        _broken(cols=[{**_broken()["cols"][0], "type": {**_broken()["cols"][0]["type"], "Tp": 255}}]),
        _broken(charset="klingon"),
    ],
)
def test_what_is_no_structure_is_refused(model: Any) -> None:
    with pytest.raises(ValueError):
        table_of_tidb_model(model, "d", "t", ServerDefaults())
