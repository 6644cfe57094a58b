"""Hazard: DM reads a structure that is handed back to it differently than it was, and puts values into other columns.

The oracle is TiDB's tracker: its descriptions of tables, read and written again, are the same.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pkg.mysql.schema import Column, TableInfo
from pkg.schema_tracker import ServerDefaults, parse_create_table, table_of_tidb_model
from pkg.schema_tracker.tidb_json import tidb_model_of
from tests.harness.dm_state.tables import models

_SERVERS = [ServerDefaults(), ServerDefaults("mysql", (5, 7, 40)), ServerDefaults("mysql", (8, 0, 36))]
_OF_TABLE = ("name", "charset", "collate", "state", "pk_is_handle", "is_common_handle", "version", "max_idx_id")
_OF_COLUMN = ("default", "default_bit", "default_is_expr", "generated_stored", "offset", "state", "hidden", "version")
_OF_TYPE = ("Tp", "Flag", "Flen", "Decimal", "Charset", "Collate", "Elems")
#: ON UPDATE, and that a column is the first of a key: TiDB leaves that out where a foreign key made the index.
_UNTRACKED_FLAGS = 8192 | 8


def _columns(model: Any) -> list[Any]:
    shown = []
    for column in model["cols"]:
        kind = {key: column["type"][key] for key in _OF_TYPE}
        kind["Flag"] &= ~_UNTRACKED_FLAGS
        if column["hidden"]:
            continue
        generated = bool(column["generated_expr_string"])
        shown.append([column["name"], kind, generated, *(column[key] for key in _OF_COLUMN)])
    return shown


def _keys(model: Any) -> list[Any]:
    keys = ("idx_name", "is_unique", "is_primary", "state", "index_type", "is_invisible")
    return sorted(
        [*(str(index[key]) for key in keys), [(one["length"], _place(one, model)) for one in index["idx_cols"]]]
        for index in model["index_info"] or ()
    )


def _place(part: Any, model: Any) -> int:
    """Expressions are hidden columns after all others, in the order of the indexes."""
    column = model["cols"][part["offset"]]
    return -1 if column["hidden"] else int(column["offset"])


@pytest.mark.parametrize("server", _SERVERS, ids=lambda one: f"{one.flavor}-{one.version[0]}.{one.version[1]}")
@pytest.mark.parametrize("name", models())
def test_what_tidb_described_is_described_the_same(name: str, server: ServerDefaults) -> None:
    model = json.loads(models()[name][1])
    if name == "json" and server.mariadb:
        model["cols"].pop()  # it is a text there
    if name == "numbers" and not server.shows_width:
        model["cols"][5]["type"]["Flen"] = 11  # INT(5) is INT there
    info = table_of_tidb_model(model, "d", "t", server)
    again = json.loads(json.dumps(tidb_model_of(info)))
    assert {key: again[key] for key in _OF_TABLE} == {key: model[key] for key in _OF_TABLE}
    assert _columns(again) == _columns(model)
    assert _keys(again) == _keys(model)
    back = table_of_tidb_model(again, "d", "t", server)
    assert (back.columns, back.indexes) == (info.columns, info.indexes)


@pytest.mark.parametrize("server", _SERVERS, ids=lambda one: f"{one.flavor}-{one.version[0]}.{one.version[1]}")
def test_names_of_todays_servers_are_those_that_tidb_knows(server: ServerDefaults) -> None:
    sql = "CREATE TABLE t (a INT, v VARCHAR(9) COLLATE utf8_bin) CHARSET utf8 COLLATE utf8_general_ci"
    model = tidb_model_of(parse_create_table(sql, "d", server))
    assert (model["charset"], model["collate"]) == ("utf8", "utf8_general_ci")
    assert (model["cols"][1]["type"]["Charset"], model["cols"][1]["type"]["Collate"]) == ("utf8", "utf8_bin")


def test_a_type_that_tidb_lacks_is_named() -> None:
    info = TableInfo("d", "t", (Column("where", "point", "point"),))
    with pytest.raises(ValueError, match="column where has type point, which TiDB"):
        tidb_model_of(info)
