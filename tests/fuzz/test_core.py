"""Hazards: a seed that is another history tomorrow, pairs that never count, a shrinker that loses the fault."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import cast

import pytest
from py4j.protocol import Py4JError

from tests.fuzz.aim import aimed_group
from tests.fuzz.engine import LocalContext, LocalEngine
from tests.fuzz.features import ABILITIES, CATALOGUE, Pair, apart, excluded, features_of, possible_pairs
from tests.fuzz.generator import GROUP, TASK, generate, settings_of
from tests.fuzz.history import Column, History, Step, Table
from tests.fuzz.holes import DEFECTS, REPLACED, SHOWN, open_holes
from tests.fuzz.ingredients import NEEDS, counted
from tests.fuzz.known import HOLES
from tests.fuzz.oracle import Content, differences, without_signs
from tests.fuzz.pairs import Coverage, pairs_of
from tests.fuzz.refusals import STOPPING, TABLE, reason
from tests.fuzz.report import page
from tests.fuzz.runner import Runner
from tests.fuzz.search import Finding, Tally
from tests.fuzz.servers import Servers
from tests.fuzz.shrink import shrink
from tests.fuzz.verdict import Verdict

PAIRS = ("mariadb", "mysql-8.0", "mariadb:mysql-8.4", "mysql-5.7:tidb", "mariadb-11.8")


@pytest.mark.parametrize("name", PAIRS)
def test_a_seed_is_always_the_same_history(name: str) -> None:
    pair = Pair.parse(name)
    for seed in range(40):
        assert generate(seed, pair) == generate(seed, pair)


@pytest.mark.parametrize("name", PAIRS)
def test_a_file_holds_a_whole_history(name: str) -> None:
    pair = Pair.parse(name)
    for seed in range(40):
        history = generate(seed, pair)
        assert History.from_json(history.to_json()) == history


def test_histories_of_a_group_share_the_settings_of_their_task() -> None:
    pair = Pair.parse("mariadb")
    for group in range(10):
        settings = settings_of(group * GROUP, pair)
        assert all(generate(group * GROUP + n, pair).settings == settings for n in range(GROUP))


@pytest.mark.parametrize("name", PAIRS)
def test_no_history_has_features_that_exclude_each_other_or_that_its_servers_lack(name: str) -> None:
    pair = Pair.parse(name)
    have = set(features_of(pair))
    for seed in range(60):
        features = generate(seed, pair).features
        assert have.issuperset(features)
        once = [one for one in features if not _several(one)]
        assert not [(a, b) for a, b in pairs_of(once) if excluded(a, b)]


@pytest.mark.parametrize("rule", ["drop database", "drop table"])
def test_no_statement_comes_at_a_moment_that_excludes_it_nor_does_a_rule_s_own_while_a_dump_runs(rule: str) -> None:
    pair = Pair.parse("mariadb")
    for seed in range(200):
        history = generate(seed, pair, ["mode=all", f"rule={rule}", f"statement={rule}"])
        for step in history.steps:
            assert not [one for one in step.tags if excluded(one, f"moment={step.phase}")], (seed, step)
        # How far the dump is would say whether the target has what the statement drops.
        own = [step.phase for step in history.steps if f"statement={rule}" in step.tags]
        assert {"snapshot", "chunk"}.isdisjoint(own), (seed, own)


@pytest.mark.parametrize(("kind", "words"), [("add", "REORGANIZE"), ("truncate", "TRUNCATE PARTITION")])
def test_all_partitions_are_made_anew_between_a_unique_key_and_one_new_partition(kind: str, words: str) -> None:
    """Otherwise a MariaDB itself may be unable to open the table (known.py)."""
    rebuilt = 0
    for seed in range(150):
        focus = ["mode=incremental", "partition=range", "statement=add unique", f"statement={kind} partition"]
        keyed = False
        for step in generate(seed, Pair.parse("mariadb"), focus).steps:
            if "ADD UNIQUE" in step.text:
                keyed = True
            elif step.text.endswith("FORCE"):
                rebuilt += keyed
                keyed = False
            assert not (keyed and words in step.text), (seed, step)
    assert rebuilt > 20


def _several(feature: str) -> bool:
    return next(one.several for one in CATALOGUE if one.name == feature.split("=", 1)[0])


@pytest.mark.parametrize("name", PAIRS)
def test_the_generator_reaches_every_feature(name: str) -> None:
    pair = Pair.parse(name)
    seen: set[str] = set()
    for seed in range(0, 9000, 6):
        history = generate(seed, pair)
        seen.update(history.features, *(step.tags for step in history.steps))
    missing = {one for one in features_of(pair) if not one.startswith("event=")} - seen
    assert not missing


def test_pairs_are_counted_once_and_only_possible_ones() -> None:
    coverage = Coverage(Pair.parse("mariadb"))
    assert coverage.add(["type=int", "primary key=id", "type=int"]) == 1
    assert coverage.add(["primary key=id", "type=int"]) == 0
    # A table has one type in focus, and a BLOB is no key.
    assert coverage.add(["type=int", "type=blob"]) == 0
    assert coverage.add(["type=blob", "primary key=value"]) == 0
    assert coverage.covered == 1
    assert coverage.gain(["type=int", "primary key=id"]) == 0
    assert coverage.gain(["type=int", "primary key=none"]) == 1
    # A task that stopped tells only of what stopped it.
    stopped = ["row image=MINIMAL", "type=int", "primary key=none"]
    assert coverage.add(stopped, by=["row image=MINIMAL"]) == 2
    assert coverage.gain(["type=int", "primary key=none"]) == 1


def test_a_pair_is_worth_less_after_each_vain_try_and_nothing_once_it_is_covered() -> None:
    coverage = Coverage(Pair.parse("mariadb"))
    pair = ["type=int", "primary key=none"]
    before = coverage.worth_of("type=int")
    assert coverage.worth(*pair) == 1
    coverage.add([], meant=pair)
    assert coverage.worth(*pair) == coverage.worth(*reversed(pair)) == 1 / 2
    assert coverage.worth_of("type=int") == pytest.approx(before - 1 / 2)
    coverage.add(pair, meant=pair)
    assert coverage.worth(*pair) == 0
    assert coverage.worth_of("type=int") == pytest.approx(before - 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # A column that is ON UPDATE is a time, which has no collation.
        ("attribute=on update", "collation=utf8mb4_bin"),
        # A statement about partitions needs a partitioned table, which has no foreign keys.
        ("statement=drop partition", "foreign key=cascade"),
        # A target of another form belongs to a task without a dump.
        ("target=wide", "moment=snapshot"),
        ("type=bit", "target=wide"),
        # In a session with both, a MariaDB loses rows that are in its binlog.
        ("foreign checks=0", "unique checks=0"),
    ],
)
def test_pairs_that_leave_a_parameter_no_value_are_not_counted(one: str, other: str) -> None:
    pair = Pair.parse("mariadb")
    assert other in apart(pair, one)
    assert one in apart(pair, other)
    assert not [found for found in possible_pairs(pair) if set(found) == {one, other}]


@pytest.mark.parametrize("name", PAIRS)
def test_histories_aim_at_so_many_open_pairs_that_a_few_hundred_mean_to_have_nearly_all(name: str) -> None:
    pair = Pair.parse(name)
    coverage = Coverage(pair)
    for group in range(40):
        aims = aimed_group(coverage, pair, random.Random(group), TASK, GROUP)
        for number, focus in enumerate(aims):
            history = generate(group * GROUP + number, pair, focus)
            meant = history.planned
            assert {one for one in focus if one.split("=", 1)[0] in TASK} <= meant
            coverage.add(meant, by=STOPPING & meant)
    assert coverage.share > 0.78


def test_values_that_are_exchanged_are_often_spelled_otherwise() -> None:
    focus = ["type=varchar", "collation=utf8mb4_general_ci", "further key=unique", "statement=swap values"]
    respelled = 0
    for seed in range(60):
        history = generate(seed, Pair.parse("mariadb"), [*focus, "mode=incremental", "merge=none", "row filter=none"])
        texts = [dict(step.values).get("c", "") for step in history.steps if step.do == "update"]
        respelled += any(text in ("'A '", "'B'", "'CH'", "'Ch'", "'C'", "'AA'", "' '", "'É'", "'E'") for text in texts)
    assert respelled > 20


def test_the_first_rows_of_a_unique_key_are_there_and_differ_in_any_collation() -> None:
    focus = ["type=varchar", "mode=incremental", "merge=none", "row filter=none", "attribute=none", "primary key=id"]
    for key, other in (("unique", "n"), ("unique pair", "n"), ("soft delete", "d")):
        for seed in range(20):
            history = generate(seed, Pair.parse("mariadb"), [*focus, f"further key={key}"])
            rows = [row for step in history.steps for row in step.rows if step.table == "t"][:2]
            assert [row["id"] for row in rows] == ["1", "2"]
            assert len({row["c"].lower().replace("é", "e").replace(" ", "") for row in rows}) == 2
            assert "NULL" not in [row["c"] for row in rows]
            assert key == "unique" or rows[0][other] == rows[1][other]


def test_the_replication_mostly_opens_with_what_shows_most_about_the_table_and_is_committed() -> None:
    """Otherwise values that were to meet have been changed before."""
    task = ["mode=incremental", "event=none", "merge=none", "row filter=none", "binlog_format=ROW"]
    opened: Counter[str] = Counter()
    for seed in range(40):
        focus = [*task, "row image=FULL", "target=same", "attribute=on update", "primary key=value", "further key=none"]
        history = generate(seed, Pair.parse("mariadb"), focus)
        steps = iter(history.steps)
        first = next(tag for step in steps for tag in step.tags if tag.startswith("statement="))
        opened[first] += not any(step.text.startswith(("ROLLBACK", "XA")) for step in islice(steps, 1))
    kinds = ("replace", "on duplicate key", "restore value", "delete and insert", "update key", "update same")
    assert sum(opened[f"statement={kind}"] for kind in kinds) > 20, opened


def test_an_update_that_keeps_its_row_keeps_the_columns_of_its_keys() -> None:
    seen = 0
    for seed in range(40):
        focus = ["mode=incremental", "attribute=on update", "primary key=id and value", "statement=update same"]
        for step in generate(seed, Pair.parse("mariadb"), focus).steps:
            if "statement=update same" in step.tags and step.do == "update":
                assert (step.values["id"], step.values["c"]) == ("`id`", "`c`")
                seen += 1
    assert seen > 20


def test_no_possible_pair_is_excluded() -> None:
    for name in ABILITIES:
        if name != "tidb":
            assert not [pair for pair in possible_pairs(Pair.parse(name)) if excluded(*pair)]


def test_a_pair_of_servers_is_named_with_one_name_or_two() -> None:
    assert Pair.parse("mariadb") == Pair("mariadb", "mariadb")
    assert str(Pair.parse("mysql-5.7:tidb")) == "mysql-5.7:tidb"
    for wrong in ("mariadb:oracle", "tidb", ""):
        with pytest.raises(ValueError, match="PAIR"):
            Pair.parse(wrong)


def test_an_error_is_right_only_for_what_the_table_names() -> None:
    assert reason(36014, "", ["binlog_format=MIXED", "mode=all"])
    assert reason(36014, "", ["binlog_format=ROW"]) is None
    assert reason(36013, "", ["binlog_format=MIXED"]) is None
    key = "statement=foreign key"
    assert reason(20070, "", [key, "statement=gh-ost"])
    assert reason(20070, "", [key]) is None
    assert reason(10006, "Column 'c' cannot be null", ["target=on update"])
    assert reason(10006, "Column 'c' cannot be null", ["target=wide"]) is None
    for line in TABLE:
        assert reason(line.code, line.words, line.features) is not None


def test_a_negative_zero_is_a_zero_where_the_target_has_no_other() -> None:
    content = Content(
        (("a", "double"), ("f", "float"), ("v", "varchar")), Counter([("-0.0", "-0.0", "-0.0"), ("-1.0", "2.0", "x")])
    )
    plain = without_signs(content)
    assert sorted(map(str, plain.rows)) == ["('-1.0', '2.0', 'x')", "('0.0', '0.0', '-0.0')"]


def test_a_text_that_is_a_document_at_the_target_is_compared_as_one() -> None:
    def table(kind: str, *values: str | None) -> dict[tuple[str, str], Content | None]:
        return {("s", "t"): Content((("id", "int"), ("j", kind)), Counter((str(n), v) for n, v in enumerate(values)))}

    text = b'{"b":1,  "a": [1.5]}'.hex().upper()
    assert differences(table("longtext", text, None), table("json", '{"a": [1.5], "b": 1}', None)) == []
    assert differences(table("longtext", text, None), table("json", '{"a": [1.5], "b": 2}', None))
    assert differences(table("longtext", text), table("longtext", b'{"b":1,"a":[1.5]}'.hex().upper()))


def test_the_page_says_what_was_found_and_why_what_is_inherent_is_inherent() -> None:
    pair, history = Pair.parse("mariadb:tidb"), _history()
    tally = Tally(
        pair, 7, seconds=60, histories=3, kinds=Counter(equal=1, different=2), versions=("mariadb 10", "tidb 8")
    )
    why = "a native replica has the same rows as the target"
    lost = Verdict("different", text="s.t: only upstream 1 rows")
    tally.findings += [
        Finding(history, lost, 1.0, history, inherent=why),
        Finding(history, Verdict("stopped", code=36061), 2.0, history, "temporary tables"),
        Finding(history, Verdict("hang"), 3.0, history),
    ]
    shown = page(tally, Coverage(pair))
    assert "mariadb 10 and tidb 8" in shown
    assert "2, and 1 that are inherent" in shown
    inherent = shown.partition("## Inherent")[2]
    assert why in inherent
    assert "only upstream 1 rows" in inherent
    assert "(code 36061); looks like “temporary tables” (statements about a temporary table" in shown
    assert "neither came to the end nor stopped; not known yet" in shown


def test_a_search_leaves_no_files_behind() -> None:
    runner = Runner(cast(Servers, None), LocalEngine())
    assert runner.folder.exists()
    runner.close()
    assert not runner.folder.exists()


def test_a_death_that_has_not_come_does_not_reach_the_next_task() -> None:
    def works(engine: LocalEngine) -> bool:
        data = cast(LocalContext, engine.context()).parallelize([1, 2], 2)
        return data.mapPartitions(list).collect() == [1, 2]

    crashing, dying, dead = LocalEngine(), LocalEngine(), LocalEngine()
    crashing.crash("before")
    dying.die(1)
    dead.die(0)
    for harmed in (crashing, dying, dead):
        assert works(harmed.unharmed())
        with pytest.raises(Py4JError):
            works(harmed)
    whole = LocalEngine()
    assert whole.unharmed() is whole


def _history() -> History:
    columns = tuple(Column(name, "INT") for name in "abcd")
    steps = tuple(Step("insert", table="t", how="INSERT", rows=({"a": str(n), "b": "0", "c": "1"},)) for n in range(20))
    settings = {"mode": "all", "safe": "on", "target": "same"}
    return History(1, "mariadb", settings, (Table("t", columns, ("KEY (`a`)",)),), (("SET x = 1",), ()), steps)


def test_shrinking_keeps_what_is_needed_and_nothing_else() -> None:
    def fails(history: History) -> bool:
        rows = [row for step in history.steps for row in step.rows]
        columns = {column.name for table in history.tables for column in table.columns}
        return (
            history.settings["safe"] == "on"
            and "a" in columns
            and sum(row.get("a") in ("3", "17") for row in rows) == 2
        )

    small = shrink(_history(), fails)
    assert [step.rows for step in small.steps] == [({"a": "3"},), ({"a": "17"},)]
    assert [column.name for column in small.tables[0].columns] == ["a"]
    assert not small.tables[0].keys
    assert small.sessions == ((),)
    assert small.settings == {"mode": "incremental", "safe": "on", "target": "same"}


def test_shrinking_keeps_a_full_copy_of_rows_that_rules_change() -> None:
    history = _history()
    ruled = replace(
        history,
        settings={**history.settings, "row filter": "insert"},
        steps=tuple(replace(step, phase="before") for step in history.steps),
    )
    small = shrink(ruled, lambda one: bool(one.steps) and one.settings["row filter"] == "insert")
    assert (small.settings["mode"], len(small.steps)) == ("all", 1)


def test_shrinking_ends_when_its_tries_are_used_up() -> None:
    tries = 0

    def fails(_: History) -> bool:
        nonlocal tries
        tries += 1
        return True

    shrink(_history(), fails, most=7)
    assert tries == 7


def test_a_history_that_fails_only_as_it_is_stays_as_it_is() -> None:
    history = _history()
    assert shrink(history, lambda one: one == history) == history
    assert shrink(replace(history, steps=()), lambda _: False).steps == ()


def test_each_known_hole_can_be_put_back_and_is_gone_afterwards() -> None:
    assert {hole.name for hole in HOLES} == set(REPLACED)
    for name, replaced in (*REPLACED.items(), *DEFECTS.items()):
        before = [getattr(one.place, one.name) for one in replaced]
        with open_holes([name]):
            now = [getattr(one.place, one.name) for one in replaced]
            assert all(there is not was for there, was in zip(now, before, strict=True))
        assert [getattr(one.place, one.name) for one in replaced] == before


def test_what_shows_a_hole_has_what_it_needs() -> None:
    """Otherwise histories are counted that could not show it, or others are not."""
    assert set(NEEDS) == set(REPLACED) | set(DEFECTS)
    found = Path(__file__).parent / "found"
    assert [hole for hole, name in SHOWN.items() if not NEEDS[hole](History.read(found / f"{name}.json"))] == []


def test_a_time_that_on_update_sets_is_often_of_the_primary_key_and_its_rows_are_often_upserted() -> None:
    """Otherwise a search seldom has a row that the target moves to another key."""
    needs = NEEDS["ON UPDATE in the key"]
    assert sum(needs(generate(seed, Pair.parse("mariadb"))) for seed in range(5000, 5400)) > 8


def test_a_search_without_servers_counts_each_history_once() -> None:
    counts = counted(Pair.parse("mariadb"), 1, 64)
    assert counts["only the first table of a DDL is routed"] > 0
    assert max(counts.values()) <= 64 + GROUP
