"""Hazards: a generated column has another value at the target, without a message; a harmless one is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pkg.mysql.computing_sessions import differing
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.mysql.session_expressions import CUT_FRACTIONS, kept_otherwise, remedy, variables_of


def table(expression: str, kind: str = "STORED", type_name: str = "varchar", keys: Sequence[str] = ()) -> TableInfo:
    columns = (
        Column("id", "int", "int"),
        Column("ts", "timestamp", "timestamp"),
        Column("dt", "datetime", "datetime"),
        Column("g", type_name, type_name, generated=kind),
        Column("base", "varchar", "varchar(20)", generated="VIRTUAL"),
    )
    indexes = (Index("k", tuple(IndexPart(name) for name in keys)),) if keys else ()
    return TableInfo("d", "t", columns, indexes, expressions=(("g", expression), ("base", "concat(`ts`)")))


@pytest.mark.parametrize(
    ("expression", "variables"),
    [
        ("cast(`ts` as date)", {"time_zone"}),
        ("hour(`TS`)", {"time_zone"}),
        ("unix_timestamp(`dt`)", {"time_zone"}),
        ("from_unixtime(`id`)", {"time_zone"}),
        ("convert_tz(`dt`,'SYSTEM','+00:00')", {"time_zone"}),
        ("convert_tz(`dt`,_utf8mb4\\'SYSTEM\\',_utf8mb4\\'+00:00\\')", {"time_zone"}),
        ("left(`base`,3)", {"time_zone"}),
        ("(`ts` < `dt`)", {"time_zone"}),
        ("ifnull(`ts`,'')", {"time_zone"}),
        ("`id` / 7", {"div_precision_increment"}),
        ("dayname(`dt`)", {"lc_time_names"}),
        ("week(`dt`)", {"default_week_format"}),
        # The same moment in every zone, or none.
        ("unix_timestamp(`ts`)", set()),
        ("ifnull(unix_timestamp(`ts`),0)", set()),
        ("if(`ts` is null,1,NULL)", set()),
        ("if((`ts` is not null),NULL,1)", set()),
        ("isnull(`ts`)", set()),
        ("cast(`dt` as date)", set()),
        ("`id` + 1", set()),
    ],
)
def test_the_variables_that_an_expression_depends_on(expression: str, variables: set[str]) -> None:
    assert variables_of(table(expression), "g") == variables


def test_a_copy_of_a_timestamp_is_the_same_moment() -> None:
    assert variables_of(table("`ts`", type_name="timestamp"), "g") == set()
    assert variables_of(table("`ts`", type_name="datetime"), "g") == {"time_zone"}


@pytest.mark.parametrize(
    ("base", "made", "variables"),
    [
        ("datetime(3)", "datetime", {CUT_FRACTIONS}),
        ("time(6)", "time(3)", {CUT_FRACTIONS}),
        ("datetime(3)", "datetime(3)", set()),
        ("datetime(3)", "date", set()),
        ("datetime", "datetime", set()),
        ("varchar(6)", "datetime", set()),
    ],
)
def test_fewer_digits_of_a_fraction_depend_on_the_mode(base: str, made: str, variables: set[str]) -> None:
    columns = (Column("b", base.split("(")[0], base), Column("g", made.split("(")[0], made, generated="STORED"))
    fractions = TableInfo("d", "t", columns, (), expressions=(("g", "`b` + interval 1 second"),))
    assert variables_of(fractions, "g") == variables
    refused = kept_otherwise(fractions, lambda: differing({"time_zone": "UTC", CUT_FRACTIONS: "ON"}, {}, {}))
    assert refused == ({"g": variables} if variables else {})
    cutting = {"sql_mode": f"STRICT_ALL_TABLES,{CUT_FRACTIONS}"}
    assert not kept_otherwise(fractions, lambda: differing({"time_zone": "UTC", CUT_FRACTIONS: "ON"}, {}, cutting))
    assert "Set " not in remedy(("d", "t"), {"g": frozenset({CUT_FRACTIONS})})


def test_only_what_is_kept_counts() -> None:
    asked: list[bool] = []

    def zone() -> list[str]:
        asked.append(True)
        return ["time_zone", "lc_time_names"]

    assert kept_otherwise(table("hour(`ts`)", "VIRTUAL"), zone) == {}
    assert kept_otherwise(table("`id` + 1"), zone) == {}
    assert not asked
    assert kept_otherwise(table("hour(`ts`)", "VIRTUAL", keys=["G"]), zone) == {"g": {"time_zone"}}
    assert kept_otherwise(table("hour(`ts`)"), zone) == {"g": {"time_zone"}}
    assert kept_otherwise(table("`id` / 7"), zone) == {}


def test_sessions_that_compute_alike() -> None:
    utc = {"time_zone": "UTC", "div_precision_increment": "4", "lc_time_names": "en_US"}
    assert differing(utc, {**utc, "time_zone": "+05:00"}, {}) == set()
    assert differing({**utc, "time_zone": "CST"}, utc, {}) == {"time_zone"}
    more = {**utc, "div_precision_increment": "7"}
    assert differing(more, utc, {}) == {"div_precision_increment"}
    assert differing(more, utc, {"Div_Precision_Increment": "7"}) == set()


def test_the_way_out_names_whole_commands() -> None:
    text = remedy(("d", "t"), {"g": frozenset({"div_precision_increment"})})
    assert text.startswith("Set div_precision_increment under `session` of target-database")
    assert "`ALTER TABLE `d`.`t` DROP COLUMN `g`;`" in text
