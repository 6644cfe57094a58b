"""Hazard: the validator loses changes, blames right rows, or outlives or disturbs what it accompanies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from deploy.local.process import wait_until
from dm_worker.validator import rounds, validator
from dm_worker.validator.differences import KIND_TEXTS, RowMismatch
from dm_worker.validator.verdicts import Verdicts
from pkg.config.model import ValidatorConfig
from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as pb
from tests.unit.dm_worker.syncer.execution.test_row_block import plan_of
from tests.unit.dm_worker.validator import simulated
from tests.unit.dm_worker.validator.simulated import CFG, World, at

DELETED, MISSING, CHANGED = KIND_TEXTS


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    found = World(monkeypatch)
    yield found
    found.end()


def test_right_rows_are_counted_and_wrong_ones_named(world: World) -> None:
    world.batch({1: "a", 2: "b", 3: "c"})
    world.batch({1: "d", 3: None})
    status = world.wait()
    assert (status.processedRowsStatus, status.stage, status.mode) == (
        "insert/update/delete: 3/1/1", pb.Running, "full",
    )  # fmt: skip
    assert world.errors() == []
    world.batch({1: "e", 2: None, 4: "f", 5: "g"}, lost=[1, 2, 4])
    assert world.wait().errorRowsStatus == "new/ignored/resolved: 3/0/0"
    assert sorted(world.errors()) == [
        (CHANGED, "'e'", pb.NewErr), (DELETED, "", pb.NewErr), (MISSING, "'f'", pb.NewErr),
    ]  # fmt: skip


def test_a_repaired_row_is_resolved_and_stays_listed(world: World) -> None:
    world.batch({1: "a"}, lost=[1])
    wait_until(lambda: world.errors() == [(MISSING, "'a'", pb.NewErr)], "it is found")
    world.target.rows[1] = "a"
    wait_until(lambda: world.errors() == [(MISSING, "'a'", pb.ResolvedErr)], "it is right again")


def test_an_error_that_is_found_meanwhile_is_listed_only_with_its_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.batch({1: "a"}, lost=[1])
    wait_until(lambda: len(world.errors()) == 1, "it is found")
    flush = world.validator._flush
    found = RowMismatch(world.plan.target, world.plan.source, b"2", 2, "", "", b"2=gone")

    def flush_and_find() -> None:
        flush()
        monkeypatch.setattr(world.validator, "_flush", flush)
        world.validator._accept(Verdicts([found]))

    monkeypatch.setattr(world.validator, "_flush", flush_and_find)
    numbers = [int(one.id) for one in world.validator.error_messages()]
    assert min(numbers) > 0
    wait_until(lambda: len(world.errors()) == 2, "it is listed afterwards")


def test_many_errors_are_checked_in_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validator, "MOST_CHECKS", 2)
    world.batch(dict.fromkeys(range(5), "a"), lost=range(5))
    wait_until(lambda: len(world.errors()) == 5, "they are found")
    world.target.rows[4] = "a"
    wait_until(lambda: world.status().errorRowsStatus == "new/ignored/resolved: 4/0/1", "the last one is right again")


def test_a_lost_version_that_a_later_one_hides_stays_an_error(world: World) -> None:
    world.batch({1: "a"})
    world.batch({1: "b"}, lost=[1])
    wait_until(lambda: world.errors() == [(CHANGED, "'b'", pb.NewErr)], "it is found")
    world.batch({1: "c"})
    world.wait()
    (one,) = world.validator.error_messages()
    assert (one.status, one.message) == (pb.NewErr, "a later change of the row hides it")


def test_a_lost_version_is_found_where_many_batches_wait_for_one_comparison(world: World) -> None:
    world.target.away = True
    world.batch({1: "a"}, lost=[1])
    tell = world.batch({2: "b"}, told=False)
    world.target.away = False
    undecided = "1 rows differed once; the next comparison decides"
    wait_until(lambda: undecided in world.status().notes, "the snapshot may contain more than was compared")
    world.target.away = True
    tell()
    world.batch({1: "c"})
    world.target.away = False
    world.wait()
    (one,) = world.validator.error_messages()
    assert (one.errorType, one.srcData, one.message) == (MISSING, "'a'", "a later change of the row hides it")


@pytest.mark.parametrize("look_bytes", [200, rounds.LOOK_BYTES])
def test_rows_that_change_in_each_of_many_batches_are_right(
    look_bytes: int, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "LOOK_BYTES", look_bytes)
    world.end()
    world.start()
    world.target.away = True
    for n in range(9):
        world.batch({1: f"v{n}", 2: "b" if n % 2 else None, 3 + n: "c"}, lost=[6])
    world.target.away = False
    world.wait()
    assert world.errors() == [(MISSING, "'c'", pb.NewErr)]
    assert world.status().processedRowsStatus == "insert/update/delete: 14/8/5"


def test_nothing_is_lost_or_reported_while_the_target_is_away(world: World) -> None:
    world.batch({1: "a"})
    world.wait()
    world.target.away = True
    for n in range(20):
        world.batch({n: "x", 50: f"v{n}"}, lost=[7])
    assert world.status().pendingRowsStatus != "insert/update/delete: 0/0/0"
    world.target.away = False
    world.wait()
    assert world.errors() == [(MISSING, "'x'", pb.NewErr)]
    assert world.status().stage == pb.Running


def test_a_statement_explains_what_it_may_have_changed(world: World) -> None:
    world.target.away = True
    world.batch({1: "a", 2: "b"})
    world.target.number += 1
    world.target.rows = dict.fromkeys(world.target.rows, "as the statement made it")
    world.validator.restructured(world.target.number, [world.plan.target])
    world.validator.passed(at(world.target.number))
    world.target.away = False
    world.wait()
    assert world.errors() == []
    (table,) = world.validator.table_messages()
    assert table.message == "2 rows were not compared: the table's structure changed meanwhile"
    world.batch({3: "c"}, lost=[3])
    world.wait()
    assert world.errors() == [(MISSING, "'c'", pb.NewErr)]


def test_tables_that_other_sources_may_change_wait_for_their_ddl(world: World) -> None:
    world.unsettled.append("`d`.`t1`")
    world.batch({1: "a"}, lost=[1])
    world.wait()
    assert world.errors() == []
    world.unsettled.clear()
    world.batch({1: "b"}, lost=[1])
    wait_until(lambda: len(world.errors()) == 1, "it is found")


def test_an_abandoned_attempt_reports_no_row(world: World) -> None:
    world.target.away = True
    world.batch({1: "a"})
    # The next batch is partly applied, and refused as too large; smaller ones follow.
    world.target.number += 1
    world.target.rows[1] = "c"
    world.validator.interrupted()
    world.target.away = False
    wait_until(lambda: world.status().pendingRowsStatus.endswith(" 0/0/0"), "it is looked at")
    assert world.errors() == []
    world.batch({2: "b"})
    world.batch({1: "c"})
    world.wait()
    assert world.errors() == []


def test_a_pause_keeps_what_waits(world: World) -> None:
    world.target.away = True
    world.batch({1: "a"}, lost=[1])
    world.validator.stop()
    assert world.status().stage == pb.Stopped
    world.target.away = False
    world.run()
    world.validator.start(lambda _: None)
    world.wait()
    assert world.errors() == [(MISSING, "'a'", pb.NewErr)]
    assert not [note for note in world.status().notes if "have been compared" in note]


def test_errors_progress_and_orders_survive_the_process(world: World) -> None:
    world.batch({1: "a", 2: "b"}, lost=[1, 2])
    wait_until(lambda: len(world.errors()) == 2, "they are found")
    first, second = (int(one.id) for one in world.validator.error_messages())
    assert world.validator.operate(first, pb.IgnoredErr)
    assert not world.validator.operate(99, pb.IgnoredErr)
    world.end()
    world.start()
    assert sorted(world.errors()) == [(MISSING, "'a'", pb.IgnoredErr), (MISSING, "'b'", pb.NewErr)]
    assert world.wait().processedRowsStatus == "insert/update/delete: 2/0/0"
    assert not [note for note in world.status().notes if "have been compared" in note]
    assert world.validator.operate(second, None)
    assert world.errors() == [(MISSING, "'a'", pb.IgnoredErr)]


def test_changes_that_an_ended_process_did_not_compare_are_named(world: World) -> None:
    world.batch({1: "a"})
    world.wait()
    world.end()
    world.batch({1: "b"}, told=False)
    world.start()
    wait_until(lambda: len(world.status().notes) == 2, lambda: f"the gap is named: {world.status()}")
    assert world.status().notes[1] == f"changes from {at(1).position} to {at(2).position} may not have been compared"


def test_stored_progress_may_be_read_before_replication_continues(world: World) -> None:
    world.batch({1: "a"})
    world.wait()
    world.end()
    world.batch({1: "b"}, told=False)
    world.start(begun=False)
    wait_until(lambda: world.store.reads > 1, "the store is read")
    world.run()
    wait_until(lambda: len(world.status().notes) == 2, lambda: f"the gap is named: {world.status()}")


def test_changes_while_the_validation_was_stopped_are_named(world: World) -> None:
    world.batch({1: "a"})
    world.wait()
    world.validator.expect("")
    assert world.status().stage == pb.Stopped
    world.batch({1: "b"}, lost=[1])
    world.validator.expect("fast")
    world.batch({2: "b"})
    assert world.wait().mode == "fast"
    assert world.status().notes[-1] == f"changes from {at(1).position} to {at(2).position} may not have been compared"
    assert world.errors() == []


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_a_start_by_time_is_done_with_a_round_of_the_sweep_that_begins_afterwards(world: World, mode: str) -> None:
    world.validator.expect("")
    world.validator.sweep_begins("before")
    world.validator.expect(mode, "here")
    assert world.validator.sweep_rate > 0
    assert world.status().notes[-1].startswith("changes from here on")
    world.validator.sweep_ended("before", (), "")
    assert world.status().notes[-1].startswith("changes from here on")
    world.validator.sweep_begins("after")
    world.validator.sweep_ended("after", (), "tables not swept as a whole: 1 (t: why)")
    assert (
        world.status().notes[-1]
        == "all changes from here on are compared, but for tables not swept as a whole: 1 (t: why)"
    )
    assert (world.validator.sweep_rate > 0) == (mode == "full")
    world.end()
    world.start("")
    world.validator.expect(mode, "here")
    wait_until(
        lambda: world.status().notes[-1].startswith("all changes from here on"),
        lambda: f"another process knows that it is done: {world.status()}",
    )
    world.validator.expect("")
    world.validator.expect(mode, "here, another start")
    assert world.status().notes[-1].startswith("changes from here, another start on")


def test_a_table_without_a_key_is_stopped_with_the_reason(world: World) -> None:
    world.plan = plan_of(keyless=True)
    world.batch({1: "a"}, lost=[1])
    assert world.wait().processedRowsStatus == "insert/update/delete: 0/0/0"
    (table,) = world.validator.table_messages()
    assert (table.stage, table.message) == (pb.Stopped, "no primary key")
    assert world.errors() == []


def test_a_defect_stops_the_validation_and_not_the_syncer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("as told")

    with monkeypatch.context() as patch:
        patch.setattr(world.validator, "_take", broken)
        world.batch({1: "a"})
    wait_until(lambda: world.status().stage == pb.Stopped, "it has stopped")
    (error,) = world.status().result.errors
    assert (error.ErrCode, "as told" in error.Message) == (43007, True)
    world.validator.stop()
    world.run()
    world.validator.start(lambda _: None)
    world.batch({2: "b"}, lost=[2])
    wait_until(lambda: len(world.errors()) == 1, "a resumed task is compared again")


@pytest.mark.parametrize("by_gtid", [False, True])
def test_at_the_cutover_all_is_compared_at_once_and_stored(
    world: World, monkeypatch: pytest.MonkeyPatch, by_gtid: bool
) -> None:
    slow = ValidatorConfig(validate_interval=3600, check_interval=3600, meta_flush_interval=3600)
    monkeypatch.setattr(simulated, "CFG", replace(CFG, flavor="mysql", validator=slow))
    world.end()
    world.start()
    world.batch({1: "a"})
    wait_until(lambda: world.status().validatorBinlog != "", "the first round, which begins at once")
    end = at(world.target.number + 2)
    world.validator.cut_over_at("" if by_gtid else str(end.position), end.gtid_set if by_gtid else "")
    assert world.status().cutoverBinlogPos == ("" if by_gtid else str(end.position))
    assert world.status().cutoverBinlogGtid == (end.gtid_set if by_gtid else "")
    assert "are not all compared yet" in world.status().notes[-1]
    world.batch({2: "b"})
    world.batch({3: "c"}, lost=[3])
    assert world.wait().notes[-1].endswith("are compared")
    wait_until(lambda: world.store.kept is not None and world.store.kept.location == end, "the position is stored")
    assert [kind for kind, _, _ in world.errors()] == ["Expected rows not exist"]
    world.end()
    world.start()
    wait_until(lambda: world.status().notes != [], "what was stored is read")
    assert world.status().notes[-1].endswith("are compared")


def test_an_invalid_cutover_position_is_refused_and_the_earlier_one_stays(world: World) -> None:
    world.validator.cut_over_at("(b.000009, 4)", "")
    with pytest.raises(DMError):
        world.validator.cut_over_at("the end", "")
    assert world.status().cutoverBinlogPos == "(b.000009, 4)"


def test_a_task_without_validation_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.end()
    found = world.start(None)
    status = pb.SubTaskStatus()
    found.fill(status)
    assert not status.HasField("validation")
    world.batch({1: "a"}, lost=[1])
    world.end()
