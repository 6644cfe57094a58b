"""Hazard: rows of two tables go to one table of a target that ignores case in names, and only a DDL lies between."""

from __future__ import annotations

import pytest

from dm_worker.syncer.rows.name_spellings import SpellingsInUse, namesake
from pkg.errors import Code, DMError


def test_a_second_spelling_is_found_out_for_as_long_as_the_first_table_is_there() -> None:
    there = {("d", "t"), ("d", "T")}
    spellings = SpellingsInUse(there.__contains__)
    spellings.use(("d", "t"), ("d", "t"))
    spellings.use(("d", "t"), ("d", "t"))
    with pytest.raises(DMError, match=r"`d`.`T`.*`d`.`t`") as caught:
        spellings.use(("d", "T"), ("d", "T"))
    assert caught.value.kind is Code.SyncUnitNotSupportedDML
    there.remove(("d", "t"))
    spellings.use(("d", "T"), ("d", "T"))


def test_shards_that_merge_into_one_name_are_no_second_spelling() -> None:
    spellings = SpellingsInUse(lambda _: True)
    spellings.use(("d", "t"), ("d1", "t"))
    spellings.use(("d", "t"), ("d2", "T"))


def test_a_namesake_is_another_name_of_the_target_in_the_same_letters() -> None:
    others = [("d", "t"), ("d", "u"), ("e", "T")]
    assert namesake(("d", "T"), others, lambda schema, table: (schema, table)) == (("d", "t"), ("d", "t"))
    assert namesake(("d", "T"), others, lambda schema, table: ("d", "T")) is None
