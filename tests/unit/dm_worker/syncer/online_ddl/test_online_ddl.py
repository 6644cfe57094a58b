"""Hazards: a change of an online DDL tool is lost, doubled or done to the wrong table; a user's table is lost by it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dm_worker.syncer.ddl.ghost_replay import on_real_table
from dm_worker.syncer.online_ddl.ghost_records import GhostDDL, GhostRecord, GhostSession
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL, Replay
from pkg import ddl
from pkg.ddl.statement import AddColumn
from pkg.errors import Code, DMError
from pkg.rules.model import SHADOW_TABLE_RULES, TRASH_TABLE_RULES
from pkg.rules.online_tables import OnlineTables
from pkg.schema_tracker import ServerDefaults

TABLES = OnlineTables(SHADOW_TABLE_RULES, TRASH_TABLE_RULES)
ONE = GhostSession(0, (33, 33, 8), "+02:00", explicit_timestamp=False, utf8mb4_collation=45)
GH_OST = [
    "drop /* gh-ost */ table if exists `d`.`_t_gho`",
    "drop /* gh-ost */ table if exists `d`.`_t_ghc`",
    "create /* gh-ost */ table `d`.`_t_ghc` (id bigint auto_increment, value varchar(4096), primary key (id))",
    "create /* gh-ost */ table `d`.`_t_gho` like `d`.`t`",
    "alter /* gh-ost */ table `d`.`_t_gho` add column c int, drop column b",
    "alter /* gh-ost */ table `d`.`_t_gho` AUTO_INCREMENT=7",
]
ADDED = "alter /* gh-ost */ table `d`.`_t_gho` add column c int, drop column b"
ATOMIC = [
    "create /* gh-ost */ table `d`.`_t_del` (id int auto_increment primary key) comment='ghost-cut-over-sentry'",
    "DROP TABLE IF EXISTS `d`.`_t_del`",
    "rename /* gh-ost */ table `d`.`t` to `d`.`_t_del`, `d`.`_t_gho` to `d`.`t`",
]
TWO_STEPS = [
    "alter /* gh-ost */ table `d`.`t` rename `_t_del`",
    "alter /* gh-ost */ table `d`.`_t_gho` rename `t`",
]
AFTER = ["drop /* gh-ost */ table if exists `d`.`_t_ghc`", "drop /* gh-ost */ table if exists `d`.`_t_del`"]
PT_OSC = [
    "CREATE TABLE `d`.`_t_new` (id int primary key, b int)",
    "ALTER TABLE `d`.`_t_new` add column c int",
    "RENAME TABLE `d`.`t` TO `d`.`_t_old`, `d`.`_t_new` TO `d`.`t`",
    "DROP TABLE IF EXISTS `d`.`_t_old`",
]


def feed(online: OnlineDDL, *events: str) -> list[ddl.DDLStatement | Replay]:
    """What the target receives for these events, one after the other."""
    found: list[ddl.DDLStatement | Replay] = []
    for event in events:
        parts = ddl.split(ddl.parse(event, default_schema="d"))
        resolved = online.resolve(parts)
        assert online.resolve(parts) == resolved, "to resolve changes nothing"
        found += [one for one in resolved if one is not None]
        for part in parts:
            online.record(part, ONE)
    return found


def texts(found: Sequence[ddl.DDLStatement | Replay]) -> list[str]:
    return [one.sql if isinstance(one, ddl.DDLStatement) else "; ".join(each.sql for each in one.ddls) for one in found]


def refused(online: OnlineDDL, *events: str) -> DMError:
    feed(online, *events[:-1])
    parts = ddl.split(ddl.parse(events[-1], default_schema="d"))
    with pytest.raises(DMError) as caught:
        online.resolve(parts)
    assert caught.value.workaround
    return caught.value


@pytest.mark.parametrize("cut_over", [ATOMIC, TWO_STEPS], ids=["atomic", "two steps"])
def test_gh_ost_swaps_once_and_leaves_nothing_behind(cut_over: list[str]) -> None:
    online = OnlineDDL(TABLES)
    assert feed(online, *GH_OST) == []
    [replay] = feed(online, *cut_over)
    assert isinstance(replay, Replay)
    assert (replay.ghost, replay.real, [one.session for one in replay.ddls]) == (("d", "_t_gho"), ("d", "t"), [ONE])
    assert texts([replay]) == [ADDED]
    # Where the structure of the real table is before the renaming.
    assert replay.holder == (("d", "t") if cut_over is ATOMIC else ("d", "_t_del"))
    assert feed(online, *AFTER) == []
    assert set(online.take_changes().values()) == {None}
    assert texts(feed(online, "DROP TABLE t", "CREATE TABLE t (a INT)")) == ["DROP TABLE t", "CREATE TABLE t (a INT)"]


def test_a_restart_anywhere_has_the_same_result() -> None:
    events = [*GH_OST, *TWO_STEPS, *AFTER, *PT_OSC, "ALTER TABLE t ADD d INT"]
    whole = texts(feed(OnlineDDL(TABLES), *events))
    for cut in range(len(events)):
        before, found = OnlineDDL(TABLES), []
        found += texts(feed(before, *events[:cut]))
        # What the meta table would hold, and no more.
        stored = {name: record.to_json() for name, record in before.take_changes().items() if record is not None}
        ghosts = {name: GhostRecord.from_json(text, name) for name, text in stored.items()}
        found += texts(feed(OnlineDDL(TABLES, ghosts), *events[cut:]))
        assert found == whole


def test_a_tool_that_gives_up_and_starts_again() -> None:
    online = OnlineDDL(TABLES)
    again = [GH_OST[3], "alter table `d`.`_t_gho` add column e int"]
    assert feed(online, *GH_OST, "DROP TABLE _t_gho", *again) == []
    assert texts(feed(online, *ATOMIC)) == [
        "ALTER TABLE `d`.`_t_gho` add column e int".replace("ALTER TABLE", "alter table")
    ]
    # Without the drop, a new table of that name starts over just the same.
    feed(online, *GH_OST, "CREATE OR REPLACE TABLE _t_gho LIKE t", again[1])
    assert texts(feed(online, *ATOMIC)) == [again[1]]


def test_a_rollback_leaves_the_real_table_as_it_was() -> None:
    online = OnlineDDL(TABLES)
    assert feed(online, *GH_OST, TWO_STEPS[0], "alter table d._t_del rename t", "drop table d._t_gho") == []
    assert texts(feed(online, "ALTER TABLE t ADD x INT")) == ["ALTER TABLE t ADD x INT"]
    assert texts(feed(online, "CREATE TABLE IF NOT EXISTS t (a INT)"))


def test_rows_that_are_thrown_away_and_names_that_stand_there_already_change_nothing() -> None:
    online = OnlineDDL(TABLES)
    feed(online, *GH_OST, "TRUNCATE TABLE _t_gho", "CREATE TABLE IF NOT EXISTS _t_gho LIKE t", "TRUNCATE TABLE _t_old")
    assert texts(feed(online, *ATOMIC)) == [ADDED]


def test_index_statements_are_remembered_with_their_schema() -> None:
    online = OnlineDDL(TABLES)
    feed(online, "CREATE TABLE _t_new LIKE t", "CREATE INDEX i ON _t_new (b)", "DROP INDEX j ON _t_new")
    found = texts(feed(online, PT_OSC[2]))
    assert found == ["CREATE INDEX i ON `d`.`_t_new` (b); DROP INDEX j ON `d`.`_t_new`"]


def test_two_changes_at_once_do_not_mix() -> None:
    online = OnlineDDL(TABLES)
    other = [event.replace("_t_", "_u_").replace("`t`", "`u`").replace(" c ", " z ") for event in PT_OSC]
    interleaved = [event for pair in zip(PT_OSC, other, strict=True) for event in pair]
    assert texts(feed(online, *interleaved)) == [
        "ALTER TABLE `d`.`_t_new` add column c int",
        "ALTER TABLE `d`.`_u_new` add column z int",
    ]


def test_a_dropped_schema_takes_its_changes_along() -> None:
    online = OnlineDDL(TABLES)
    feed(online, *PT_OSC[:2])
    assert texts(feed(online, "DROP DATABASE d")) == ["DROP DATABASE d"]
    assert online.take_changes() == {("d", "_t_new"): None}


@pytest.mark.parametrize(
    ("events", "code"),
    [
        (["ALTER TABLE _t_new ADD c INT", PT_OSC[2]], 36046),
        ([*PT_OSC[:2], "DROP TABLE _t_new", PT_OSC[2]], 36046),
        (["RENAME TABLE t TO _t_gho"], 36044),
        (["RENAME TABLE _t_gho TO _t_new"], 36045),
        (["RENAME TABLE _t_old TO _t_new"], 36045),
        (["ALTER TABLE _t_gho ADD c INT, RENAME TO t"], 36043),
        (["RENAME TABLE _t_old TO t"], 36043),
        (["RENAME TABLE t TO _t_old", "ALTER TABLE _t_old ADD c INT", "RENAME TABLE _t_old TO t"], 36043),
        (["RENAME TABLE u TO _t_old", "RENAME TABLE _t_old TO t"], 36043),
        (["ALTER TABLE t EXCHANGE PARTITION p WITH TABLE _t_new"], 36041),
        # The target would keep the rows of the table that went away.
        (["RENAME TABLE t TO _t_old", "CREATE TABLE t (a INT)"], 36043),
        (["RENAME TABLE t TO _t_old", "RENAME TABLE x TO t"], 36043),
        (["RENAME TABLE t TO _t_old", "RENAME TABLE _t_old TO __t_old", "CREATE TABLE IF NOT EXISTS t (a INT)"], 36043),
        # drop_swap: the target would lose the rows.
        ([*PT_OSC[:2], "DROP TABLE IF EXISTS `d`.`t`"], 36040),
        (["CREATE TABLE __t_new LIKE t", "DROP TABLE IF EXISTS `d`.`t`"], 36040),
    ],
)
def test_what_can_not_be_followed_is_refused(events: list[str], code: int) -> None:
    assert refused(OnlineDDL(TABLES), *events).code == code


def test_a_drop_that_an_operator_skipped_is_followed_by_the_swap() -> None:
    online = OnlineDDL(TABLES)
    feed(online, *PT_OSC[:2])
    online.record(ddl.parse("DROP TABLE IF EXISTS `d`.`t`"), ONE)
    assert texts(feed(online, "RENAME TABLE `d`.`_t_new` TO `d`.`t`")) == [PT_OSC[1]]


def test_a_table_that_was_renamed_away_for_good_can_be_dropped_and_recreated() -> None:
    online = OnlineDDL(TABLES)
    found = feed(online, "RENAME TABLE t TO _t_old", "DROP TABLE IF EXISTS t", "CREATE TABLE t (a INT)")
    assert texts(found) == ["DROP TABLE IF EXISTS t", "CREATE TABLE t (a INT)"]


def test_a_table_that_an_operator_recreated_is_one_like_others() -> None:
    online = OnlineDDL(TABLES)
    feed(online, "RENAME TABLE t TO _t_old")
    online.record(ddl.parse("CREATE TABLE d.t (a INT)"), ONE)
    [replay] = feed(online, "CREATE TABLE _t_gho LIKE t", ATOMIC[2])
    assert isinstance(replay, Replay)
    assert replay.holder == ("d", "t")


@pytest.mark.parametrize(
    ("shadow", "trash", "missing"),
    [("^_(.+)_x$", "^_(.+)_old$", "`d`.`_t_new`"), ("^_(.+)_new$", "^_(.+)_x$", "_t_old")],
)
def test_a_swap_of_which_the_rules_match_half_is_refused(shadow: str, trash: str, missing: str) -> None:
    online = OnlineDDL(OnlineTables([shadow], [trash]))
    with pytest.raises(DMError, match=missing) as caught:
        online.check_rules(ddl.parse(PT_OSC[2]))
    assert caught.value.kind is Code.ConfigOnlineDDLMistakeRegex
    for other in (
        "RENAME TABLE d.t TO d.u, d.v TO d.t",
        "RENAME TABLE d.a TO d._a_old, d._b_new TO d.c",
        "RENAME TABLE d.a TO d.b",
    ):
        online.check_rules(ddl.parse(other))


def test_a_session_that_an_earlier_version_remembered_is_read() -> None:
    text = '{"schema":"d","table":"t","ddls":["x"],"sessions":[{"sql_mode":4,"charsets":null,"time_zone":""}]}'
    assert GhostRecord.from_json(text, ("d", "_t_gho")).ddls == (GhostDDL("x", GhostSession(4)),)


def test_the_remembered_session_decides_what_a_definition_means() -> None:
    ddl_ = GhostDDL("ALTER TABLE d._t_gho ADD a TIMESTAMP, ADD b CHAR(1) CHARACTER SET utf8mb4", ONE)
    renaming = ddl.Dialect.of("", "mysql", (8, 0, 12))
    replay = Replay(("d", "_t_gho"), ("d", "t"), ("d", "t"), (ddl_,))
    (first, second) = on_real_table(ddl_, replay, renaming, ServerDefaults()).actions
    assert isinstance(first, AddColumn)
    assert isinstance(second, AddColumn)
    assert first.column.nullable is False
    assert second.column.type.collation == "utf8mb4_general_ci"


def test_records_of_dm_are_read_and_others_are_refused() -> None:
    text = '{"schema":"d","table":"t","ddls":["ALTER TABLE `d`.`_t_new` ADD COLUMN `c` INT"]}'
    record = GhostRecord.from_json(text, ("d", "_t_new"))
    assert record == GhostRecord("d", "t", (GhostDDL("ALTER TABLE `d`.`_t_new` ADD COLUMN `c` INT"),))
    assert texts(feed(OnlineDDL(TABLES, {("d", "_t_new"): record}), PT_OSC[2])) == [record.ddls[0].sql]
    assert GhostRecord.from_json(record.to_json(), ("d", "_t_new")) == record
    for bad in ("", "[]", '{"schema":"d"}', text.replace("}", ',"sessions":[{}]}')):
        with pytest.raises(DMError) as caught:
            GhostRecord.from_json(bad, ("d", "_t_new"))
        assert caught.value.kind is Code.SyncerUnitOnlineDDLInvalidMeta
