"""Hazards: groups wait for each other, a difference between shards is passed over, the stored state is misread."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_worker.syncer.shard_ddl.group import side_by_side
from dm_worker.syncer.shard_ddl.group_status import GroupStatus, status_of
from dm_worker.syncer.shard_ddl.groups_snapshot import GroupsSnapshot, decode, encode
from dm_worker.syncer.shard_ddl.initial_groups import new_groups, regroup, stored_groups
from dm_worker.syncer.shard_ddl.source_groups import (
    AcknowledgeDDL,
    EndReread,
    GroupInstruction,
    ReportDDL,
    SettleDDL,
    SourceGroups,
    StartReread,
)
from pkg.errors import Code, DMError
from pkg.errors.workarounds import way_on
from pkg.ha.shard_ddl import DDLTexts
from pkg.mysql.names import TableId
from tests.unit.dm_worker.syncer.shard_ddl.shard_world import at, route

A1, A2, A3 = ("A", "t1"), ("A", "t2"), ("A", "t3")
B1, B2 = ("B", "t1"), ("B", "t2")
A, B = ("merged", "A"), ("merged", "B")
ADD_A: DDLTexts = ("ALTER TABLE `merged`.`A` ADD COLUMN a INT",)
ADD_B: DDLTexts = ("ALTER TABLE `merged`.`A` ADD COLUMN b INT",)


def key(place: int) -> str:
    return f"(bin.000001, {place})"


def settle(target: TableId, execute: bool, first: int) -> SettleDDL:
    return SettleDDL(target, 0, ADD_A, execute, key(first), "its session", 7, at(first - 1).position)


class Script:
    """Groups that receive events at positions of a binlog."""

    def __init__(self, *tables: TableId) -> None:
        self.groups = SourceGroups(route)
        for table in tables:
            self.groups.join(table)

    def ddl(self, place: int, table: TableId, statements: DDLTexts = ADD_A) -> list[GroupInstruction]:
        structure = f"{table} behind {place}"
        return self.groups.ddl(
            table, statements, key=key(place), start=at(place - 1), structure=structure, session="its session"
        )

    def settle(self, target: TableId, main: int, statements: DDLTexts = ADD_A) -> list[GroupInstruction]:
        """The lock service lets this source execute the DDL; returns what follows."""
        (settle,) = self.groups.resolve(target, statements, execute=True, revision=7)
        assert isinstance(settle, SettleDDL)
        return self.groups.settled(target, at(main))

    def restart(self) -> None:
        self.groups = decode(encode(self.groups), route)


def test_the_timeline_of_two_tables_in_one_upstream() -> None:
    """As DM documents it: t1 is ahead from 10 to 20, where t2 follows; the lock service decides when the main pass is
    at 25."""
    script = Script(A1, A2)
    groups = script.groups
    assert script.ddl(10, A1) == []
    assert not groups.takes(A1)
    assert groups.takes(A2)
    groups.hold(A1, 3)
    assert script.ddl(20, A2) == [ReportDDL(A, 0, ADD_A)]
    assert not groups.takes(A2)
    assert groups.resolve(A, ADD_A, execute=True, revision=7) == [settle(A, True, 10)]
    assert not groups.is_settled(A, 0)
    assert groups.settled(A, at(25)) == [AcknowledgeDDL(A, 0, ADD_A, True, 7), StartReread(A, at(9), at(25))]
    assert not groups.takes(A1)
    assert groups.met(key(10), at(10)) == []
    assert groups.takes(A1)
    assert groups.structure(A1) == f"{A1} behind 10"
    assert not groups.takes(A2)
    assert groups.met(key(20), at(20)) == []
    assert groups.takes(A2)
    assert groups.reached(at(22)) == []
    assert groups.is_settled(A, 0), "though its rows are still read again"
    assert groups.reached(at(25)) == [EndReread()]
    assert groups.is_settled(A, 0)
    assert groups.takes(A1)
    assert groups.structure(A1) is None
    assert groups.acknowledged(A) == []


def test_a_group_that_waits_delays_no_other() -> None:
    script = Script(A1, A2, B1, B2)
    script.ddl(10, A1)
    script.groups.hold(A1, 1)
    script.ddl(20, B1)
    assert script.ddl(30, B2) == [ReportDDL(B, 0, ADD_A)]
    assert script.settle(B, 30) == [AcknowledgeDDL(B, 0, ADD_A, True, 7)], (
        "nothing was held back: nothing is read again"
    )
    assert script.groups.takes(B1)
    assert not script.groups.takes(A1)
    assert script.groups.takes(A2)
    assert script.ddl(40, A2) == [ReportDDL(A, 0, ADD_A)]


def test_a_decision_during_another_groups_reread_is_asked_for_again_at_its_end() -> None:
    """It may be taken back until then."""
    script = Script(A1, B1)
    for table, place in ((A1, 10), (B1, 20)):
        script.ddl(place, table)
        script.groups.hold(table, 1)
    script.settle(A, 30)
    assert script.groups.resolve(B, ADD_A, execute=False, revision=7) == []
    script.groups.met(key(10), at(10))
    assert script.groups.reached(at(30)) == [EndReread(), ReportDDL(B, 0, ADD_A)]
    assert script.groups.resolve(B, ADD_A, execute=False, revision=7) == [settle(B, False, 20)]


def test_decisions_on_two_groups_at_once_are_carried_out_one_by_one() -> None:
    script = Script(A1, B1)
    script.ddl(10, A1)
    script.ddl(20, B1)
    assert script.groups.resolve(A, ADD_A, execute=True, revision=7) == [settle(A, True, 10)]
    assert script.groups.resolve(B, ADD_A, execute=True, revision=7) == []
    assert script.groups.resolve(A, ADD_A, execute=False, revision=8) == [], "too late: it is under way"
    ended = script.groups.settled(A, at(30))
    assert ended == [AcknowledgeDDL(A, 0, ADD_A, True, 7), ReportDDL(B, 0, ADD_A)]


def test_a_decision_that_was_taken_back_is_not_carried_out() -> None:
    script = Script(A1, B1)
    script.ddl(10, A1)
    script.ddl(20, B1)
    assert script.groups.resolve(A, ADD_A, execute=True, revision=6) == [replace(settle(A, True, 10), revision=6)]
    assert script.groups.resolve(B, ADD_A, execute=True, revision=5) == []
    assert script.groups.revoke(B) == [], "that one is asked for again anyway"
    assert script.groups.revoke(A) == [ReportDDL(B, 0, ADD_A)]
    assert script.groups.resolve(A, ADD_A, execute=False, revision=7) == [settle(A, False, 10)]
    assert script.groups.settled(A, at(30)) == [AcknowledgeDDL(A, 0, ADD_A, False, 7)]
    assert script.groups.revoke(A) == [], "too late"


def test_a_reread_ends_where_nothing_more_is_due() -> None:
    """Both tables are two DDLs ahead: what is behind the second one waits for it."""
    script = Script(A1, A2)
    script.ddl(10, A1)
    script.groups.hold(A1, 5)
    script.ddl(20, A1, ADD_B)
    script.groups.hold(A1, 7)
    script.ddl(30, A2)
    script.ddl(40, A2, ADD_B)
    assert status_of(script.groups).held_rows == 12
    script.settle(A, 90)
    script.groups.acknowledged(A)
    assert script.groups.met(key(10), at(10)) == []
    assert script.groups.met(key(15), at(15)) == [], "some other table's statement"
    assert script.groups.met(key(20), at(20)) == []
    assert not script.groups.takes(A1)
    assert script.groups.met(key(30), at(30)) == []
    assert script.groups.met(key(40), at(40)) == [EndReread(), ReportDDL(A, 1, ADD_B)]
    assert status_of(script.groups).held_rows == 7


def test_rows_of_a_dropped_table_are_not_mixed_with_those_of_its_successor() -> None:
    script = Script(A1, A2)
    script.ddl(10, A1)
    script.groups.hold(A1, 1)
    script.groups.drop(A1, key=key(20))
    script.ddl(30, A2)
    script.groups.hold(A2, 1)
    script.ddl(40, A2, ADD_B)
    # The new t1 has the newest structure: both DDLs' columns.
    script.groups.create(A1, key=key(50), structure="new")
    script.groups.hold(A1, 1)
    script.settle(A, 60)
    seen = []
    for place in (10, 20, 30, 40):
        script.restart()
        out = script.groups.met(key(place), at(place))
        seen.append((script.groups.takes(A1), script.groups.takes(A2)))
    assert seen[:3] == [(True, False), (False, False), (False, True)]
    assert out == [EndReread()]
    assert script.groups.acknowledged(A) == [ReportDDL(A, 1, ADD_B)]


def test_the_same_ddl_twice_is_reported_one_after_the_other() -> None:
    script = Script(A1)
    script.ddl(10, A1)
    script.ddl(20, A1)
    assert script.settle(A, 30) == [AcknowledgeDDL(A, 0, ADD_A, True, 7)]
    assert script.groups.resolve(A, ADD_A, execute=True, revision=7) == [], "that is still the first one"
    script.restart()
    assert script.groups.resume() == [AcknowledgeDDL(A, 0, ADD_A, True, 7)]
    assert script.groups.acknowledged(A) == [ReportDDL(A, 1, ADD_A)]


def test_different_ddls_are_an_error_that_shows_both_sequences() -> None:
    script = Script(A1, A2)
    script.ddl(10, A1)
    script.ddl(20, A1, ADD_B)
    script.ddl(30, A2)
    before = encode(script.groups).groups
    with pytest.raises(DMError) as caught:
        script.ddl(40, A2, ("ALTER TABLE `merged`.`A` ADD COLUMN c INT",))
    error = caught.value
    assert error.kind is Code.SyncUnitDDLWrongSequence
    assert "number 2 of their sequence" in error.message
    assert "`A`.`t1` ((bin.000001, 20))" in error.message
    assert "`A`.`t2` ((bin.000001, 40))" in error.message
    assert error.message.splitlines()[1:] == [
        "     # | `A`.`t1`                                  | `A`.`t2`",
        f"     1 | {ADD_A[0]} | {ADD_A[0]}",
        f"*    2 | {ADD_B[0]} | ALTER TABLE `merged`.`A` ADD COLUMN c INT",
    ]
    assert "binlog replace" in way_on(error, "t", "s")
    assert encode(script.groups).groups == before


def test_a_sequence_that_is_shorter_so_far_does_not_differ() -> None:
    text = side_by_side(("one", [ADD_A, ADD_B]), ("other", [ADD_A]), 4)
    assert [line[:6] for line in text.splitlines()[1:]] == ["     5", "     6"]


def test_a_table_nobody_knew_of_joins_only_between_ddls() -> None:
    script = Script(A1, A2)
    assert not script.groups.knows(A3)
    script.groups.join(A3)
    assert script.groups.knows(A3)
    assert script.groups.takes(A3)
    script.ddl(10, A1)
    with pytest.raises(DMError) as caught:
        script.groups.join(("A", "t9"))
    assert caught.value.kind is Code.SyncUnitAddTableInSharding
    assert "`A`.`t9`" in caught.value.message


def test_a_table_listed_before_its_creation_does_not_block_its_group_for_good() -> None:
    script = Script(A1, A2)
    script.ddl(10, A1)
    assert script.groups.create(A2, key=key(20), structure="new") == [ReportDDL(A, 0, ADD_A)]


def test_a_table_is_new_by_if_not_exists_only_where_nothing_shows_that_it_existed() -> None:
    script = Script(A1, A2, A3)
    group = script.groups.group_of(A1)

    def is_new(table: TableId, structure: str) -> bool:
        return group.may_be_new(table, structure, str)

    assert is_new(A2, "old"), "no DDL: nothing depends on it"
    script.ddl(10, A1)
    script.ddl(20, A3)
    script.ddl(30, A3, ADD_B)
    newest = f"{A3} behind 30"
    assert is_new(("A", "t9"), "any"), "not listed"
    assert is_new(A2, newest), "listed before its creation"
    assert not is_new(A2, f"{A1} behind 10")
    assert not is_new(A2, "")
    assert not is_new(A1, newest), "it has run a DDL"
    script.groups.restructure(A3, key=key(40), structure="wider")
    script.groups.drop(A3, key=key(50))
    assert is_new(A2, "wider")
    assert not is_new(A2, newest)


def test_a_table_listed_by_its_later_name_does_not_block_its_group_for_good() -> None:
    script = Script(A1, A2)
    script.ddl(10, A1)
    assert script.groups.rename(A1, A2, key=key(20), structure="renamed") == [ReportDDL(A, 0, ADD_A)]


def test_a_shard_that_is_dropped_is_not_waited_for() -> None:
    script = Script(A1, A2)
    script.ddl(10, A1)
    assert script.groups.drop(A2, key=key(20)) == [ReportDDL(A, 0, ADD_A)]
    assert script.groups.drop(A3, key=key(30)) == []


def test_a_rename_that_would_move_rows_between_tables_is_refused() -> None:
    script = Script(A1, A2)
    with pytest.raises(DMError) as caught:
        script.groups.rename(A1, B1, key=key(10), structure="")
    assert caught.value.kind is Code.SyncerUnsupportedStmt
    assert "merges into `merged`.`B`" in caught.value.message
    assert script.groups.takes(A1)


def test_tables_that_swap_names_in_one_statement_keep_their_rows_apart() -> None:
    script = Script(A1, A2)
    script.ddl(10, A1)
    script.groups.hold(A1, 1)
    for old, new in ((A1, A3), (A2, A1), (A3, A2)):
        script.groups.rename(old, new, key=key(20), structure="")
    assert script.groups.takes(A1)
    assert not script.groups.takes(A2)
    script.groups.hold(A2, 1)
    assert script.ddl(30, A1) == [ReportDDL(A, 0, ADD_A)]
    script.settle(A, 40)
    script.groups.met(key(10), at(10))
    assert (script.groups.takes(A1), script.groups.takes(A2)) == (True, False)
    script.groups.met(key(20), at(20))
    assert (script.groups.takes(A1), script.groups.takes(A2)) == (False, True)


@pytest.mark.parametrize("found", [key(20), "end"])
def test_a_binlog_that_was_replaced_is_noticed_when_it_is_read_again(found: str) -> None:
    script = Script(A1, A2)
    script.ddl(10, A1)
    script.groups.hold(A1, 1)
    script.ddl(20, A2)
    script.settle(A, 30)
    read = script.groups.met if found != "end" else lambda _, location: script.groups.reached(location)
    with pytest.raises(DMError) as caught:
        read(found, at(30))
    assert caught.value.kind is Code.SyncerEvent
    assert key(10) in caught.value.message


def test_a_decision_on_another_ddl_is_an_error() -> None:
    script = Script(A1)
    script.ddl(10, A1)
    with pytest.raises(DMError) as caught:
        script.groups.resolve(A, ADD_B, execute=True, revision=7)
    assert caught.value.kind is Code.SyncerUnitExecWithNoBlockingDDL
    assert script.groups.resolve(B, ADD_B, execute=True, revision=7) == []


def test_routes_may_change_only_when_all_is_settled() -> None:
    script = Script(A1, A2)
    state = encode(script.groups)
    decode(state, lambda schema, table: ("elsewhere", schema)).ensure_routes()
    script.ddl(10, A1)
    script.groups.ensure_routes()
    with pytest.raises(DMError) as caught:
        decode(encode(script.groups), lambda schema, table: ("elsewhere", schema)).ensure_routes()
    assert caught.value.kind is Code.SyncerUnitUpdateConfigInSharding


def everything(schema: str, table: str) -> bool:
    return True


def test_where_nothing_is_under_way_a_start_groups_tables_again() -> None:
    """By the routes of now: those that were there, though they may have gone since, and those that are listed."""

    def moved(schema: str, table: str) -> TableId:
        return "merged", {"A": "B", "B": "C"}[schema]

    groups = decode(encode(Script(A1, A2, B1).groups), moved)
    changed = regroup(groups, [B1, B2], lambda schema, table: (schema, table) != A2)
    found = {target: set(group.members) for target, group in groups.groups.items()}
    assert found == {A: set(), B: {A1}, ("merged", "C"): {B1, B2}}
    assert changed == found.keys()
    state = encode(groups)
    assert A not in state.groups, "its row is removed"
    assert regroup(decode(state, moved), [B2], everything) == set()


def test_in_the_middle_of_a_sequence_a_start_only_drops_what_takes_no_part() -> None:
    script = Script(A1, A2, A3)
    script.ddl(10, A1)
    script.groups.hold(A1, 1)
    script.ddl(20, A2)
    groups = decode(encode(script.groups), route)
    assert regroup(groups, [A1, A2, A3, ("A", "t4")], everything) == set()
    assert groups.resume() == []
    assert regroup(groups, [A1, A2], lambda schema, table: (schema, table) != A3) == {A}
    assert groups.resume() == [ReportDDL(A, 0, ADD_A)]


def test_a_table_that_is_routed_into_a_sequence_is_noticed_at_the_start() -> None:
    script = Script(A1, A2, B1)
    script.ddl(10, A1)
    groups = decode(encode(script.groups), lambda schema, table: A)
    with pytest.raises(DMError) as caught:
        regroup(groups, [], everything)
    assert caught.value.kind is Code.SyncUnitAddTableInSharding


@pytest.mark.parametrize("by_gtid", [False, True])
def test_how_statements_are_named_may_change_only_when_all_is_settled(by_gtid: bool) -> None:
    groups = new_groups([A1, A2], route, by_gtid=by_gtid)
    switched = stored_groups(encode(groups), route, by_gtid=not by_gtid)
    assert switched is not None
    groups.ddl(A1, ADD_A, key="its name", start=at(9), structure="with a")
    groups.hold(A1, 1)
    state = encode(groups)
    assert stored_groups(state, route, by_gtid=by_gtid) is not None
    with pytest.raises(DMError, match=f"enable-gtid was switched {'off' if by_gtid else 'on'}") as caught:
        stored_groups(state, route, by_gtid=not by_gtid)
    assert caught.value.kind is Code.SyncerUnitUpdateConfigInSharding
    # Nothing was unsettled when it was switched: from then on the new names count.
    switched.ddl(A1, ADD_A, key="its name", start=at(9), structure="with a")
    assert stored_groups(encode(switched), route, by_gtid=not by_gtid) is not None


def test_what_is_still_needed_of_the_binlog_begins_at_the_first_unsettled_ddl() -> None:
    script = Script(A1, A2, B1, B2)
    assert script.groups.oldest_needed is None
    script.ddl(10, B1)
    script.ddl(20, A1)
    assert script.groups.oldest_needed == at(9)
    script.ddl(30, B2)
    script.settle(B, 30)
    assert script.groups.oldest_needed == at(19)


def test_query_status_shows_who_is_waited_for() -> None:
    script = Script(A1, A2, B1)
    script.ddl(10, A1)
    script.groups.hold(A1, 4)
    script.ddl(20, A1, ADD_B)
    script.groups.hold(A1, 2)
    script.ddl(30, B1)
    status = status_of(script.groups)
    assert status.blocking_ddls == ADD_A, "that of B, which waits for the lock service"
    assert status.unresolved[0] == GroupStatus(
        "`merged`.`A`", ADD_A, str(at(9)), ("`A`.`t1`",), ("`A`.`t2`",), 0, 1, 6, rereading=False
    )
    script.ddl(40, A2)
    script.settle(A, 40)
    status = status_of(script.groups)
    assert status.unresolved[0].rereading
    assert status.blocking_ddls == ADD_A


def test_the_state_does_not_grow_with_rows() -> None:
    script = Script(A1, A2)
    script.ddl(10, A1)
    script.groups.hold(A1, 1)
    small = encode(script.groups)
    for _ in range(1000):
        assert not script.groups.takes(A1)
        assert script.groups.takes(A2)
        script.groups.hold(A1, 10**9)
    large = encode(script.groups)
    assert large.groups == small.groups
    assert len(large.progress) == len(small.progress) + 12


def test_structures_that_are_alike_are_stored_once() -> None:
    tables = [("A", f"t{i}") for i in range(100)]
    script = Script(*tables)
    for place, table in enumerate(tables):
        script.groups.ddl(table, ADD_A, key=key(place), start=at(place), structure="x" * 10_000)
    assert len(encode(script.groups).groups[A]) < 20_000


@pytest.mark.parametrize("damage", ["", "{}", '{"format":"other"}', "[", '{"format":"shard-groups/1"}'])
def test_a_state_that_can_not_be_read_is_an_error(damage: str) -> None:
    script = Script(A1)
    script.ddl(10, A1)
    state = encode(script.groups)
    with pytest.raises(DMError) as caught:
        decode(GroupsSnapshot({A: damage}, state.progress), route)
    assert caught.value.kind is Code.SyncUnitInvalidShardMeta
    if damage:
        with pytest.raises(DMError) as caught:
            decode(GroupsSnapshot(state.groups, damage), route)
        assert caught.value.kind is Code.SyncUnitInvalidShardMeta


def test_no_state_is_a_state() -> None:
    assert decode(GroupsSnapshot(), route).groups == {}
