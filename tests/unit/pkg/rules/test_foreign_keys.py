"""Hazard: rows that foreign keys change upstream stay at the target, without a message."""

from __future__ import annotations

import pytest

from pkg.mysql.schema import ForeignKey
from pkg.rules.foreign_keys import IGNORE, ForeignKeySetting, MigratedTables, find_problems

CASCADE = ("CASCADE", "")
ROUTES = {("d", "p"): ("e", "p"), ("d", "c"): ("e", "c"), ("d", "g"): ("e", "g")}
PRESENT = tuple(ROUTES.values())


def key(child: str, parent: str, schema: str = "d", actions: tuple[str, str] = CASCADE) -> ForeignKey:
    return ForeignKey((schema, child), ("P",), (schema, parent), ("id",), any(actions), actions)


def test_the_same_keys_on_both_sides_are_fine_whatever_their_names_case() -> None:
    routes = {**ROUTES, ("d", "C"): ("e", "C")}
    found = find_problems(
        [key("C", "p")], [key("c", "P", "e")], MigratedTables.of(routes), PRESENT, ForeignKeySetting()
    )
    assert found == []


def test_what_the_task_is_still_to_create_is_not_missed() -> None:
    assert find_problems([key("c", "p")], [], MigratedTables.of(ROUTES), (), ForeignKeySetting()) == []


def test_keys_that_do_not_act_are_no_matter() -> None:
    upstream, target = [key("c", "p", actions=("", ""))], [key("c", "g", "e", ("", ""))]
    assert (
        find_problems(
            upstream, target, MigratedTables.of(ROUTES), PRESENT, ForeignKeySetting(checks=False, merges=True)
        )
        == []
    )


@pytest.mark.parametrize(
    ("target", "setting", "told"),
    [
        ([], ForeignKeySetting(), "the target table `e`.`c` has no such key"),
        ([key("c", "p", "e", ("", ""))], ForeignKeySetting(), "has no such key"),
        ([key("c", "p", "e", ("SET NULL", ""))], ForeignKeySetting(checks=False), "foreign_key_checks: 0"),
        ([key("c", "p", "e", ("SET NULL", ""))], ForeignKeySetting(), "has no such key"),
        ([key("c", "p", "e")], ForeignKeySetting(checks=False), "foreign_key_checks: 0"),
        ([key("c", "p", "e")], ForeignKeySetting(merges=True), "with shard-mode"),
        ([key("c", "p", "e")], ForeignKeySetting(mapped=[("d", "p")]), "column mapping"),
        ([key("c", "p", "e")], ForeignKeySetting(acts=False), "does not enforce"),
        ([key("c", "p", "e"), key("g", "c", "e")], ForeignKeySetting(), "no migrated key of the upstream"),
        ([key("c", "p", "e"), key("c", "own", "e", ("", ""))], ForeignKeySetting(), "the task does not migrate"),
    ],
)
def test_what_keeps_the_target_from_acting_is_reported_with_both_actions(
    target: list[ForeignKey], setting: ForeignKeySetting, told: str
) -> None:
    found = find_problems([key("c", "p")], target, MigratedTables.of(ROUTES), PRESENT, setting)
    assert told in found[0].what
    assert "`" in found[0].what
    assert IGNORE in found[0].workaround


def test_a_parent_that_is_not_migrated_never_shows_when_it_acts() -> None:
    (found,) = find_problems(
        [key("c", "p")], [], MigratedTables.of({("d", "c"): ("e", "c")}), PRESENT, ForeignKeySetting(checks=True)
    )
    assert "`d`.`p` is not migrated" in found.what


def test_children_that_are_not_migrated_are_no_matter() -> None:
    assert (
        find_problems([key("c", "p")], [], MigratedTables.of({("d", "p"): ("e", "p")}), PRESENT, ForeignKeySetting())
        == []
    )
