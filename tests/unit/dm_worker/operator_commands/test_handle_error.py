"""Hazard: an order applies to another statement, arrives too late unnoticed, or overrules an operator's pause."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm_worker.operator_commands.binlog_operators import BinlogOperators
from dm_worker.operator_commands.handle_error import handle_error
from dm_worker.subtask.subtask import SubTask
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg.binlog.events import Event
from pkg.binlog.position import Location, Position
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.ha.binlog_operator import BinlogOperator
from pkg.pb import dmworker_pb2 as pb
from pkg.rules.model import BlockAllowList
from pkg.settings.connections import DBConfig

FILE = "bin.000003"
NAMES = {"skip": pb.Skip, "replace": pb.Replace, "inject": pb.Inject, "revert": pb.Revert, "list": pb.List}
#: Its transaction begins at 100, its event at 142 and ends at 200.
STATEMENT = BinlogStatement(
    Event(1, 2, 1, 58, 200, 0, b""),
    Position(FILE, 200),
    Location(Position(FILE, 100)),
    Location(Position(FILE, 200)),
    Location(Position(FILE, 200)),
)


class World:
    """A subtask as :func:`handle_error` sees it, and the orders as etcd keeps them."""

    def __init__(
        self, *, failed: bool = True, stuck: BinlogStatement | SettleDDL | None = STATEMENT, stage: int = pb.Paused
    ) -> None:
        server = DBConfig("h", 1)
        allowed = BlockAllowList(do_dbs=("d",))
        config = SubTaskConfig("t", "s", "all", server, server, block_allow_list=allowed)
        self.resumed = 0
        unit = SimpleNamespace(unit_type=pb.Sync, stuck_at=stuck, checkpoint=lambda: Location(Position(FILE, 100)))
        self.subtask: Any = SimpleNamespace(
            name="t",
            config=config,
            state=SimpleNamespace(failed=failed, stage=stage, unit=pb.Sync),
            unit=lambda: unit,
            retry=self._retry,
        )
        self.kept: dict[str, BinlogOperator] = {}

    def _retry(self) -> bool:
        self.resumed += 1
        return bool(self.subtask.state.failed)

    # what BinlogOperators does

    def of(self, task: str) -> list[BinlogOperator]:
        return list(self.kept.values())

    def put(self, operator: BinlogOperator) -> None:
        self.kept[operator.position] = operator

    def remove(self, operator: BinlogOperator) -> None:
        del self.kept[operator.position]

    def say(self, op: str, position: str = "", *sqls: str) -> str:
        request = pb.HandleWorkerErrorRequest(op=NAMES[op], task="t", binlogPos=position, sqls=sqls)
        return handle_error(cast(SubTask, self.subtask), cast(BinlogOperators, self), request)

    def refuses(self, code: int, text: str, *said: str) -> None:
        before = dict(self.kept)
        with pytest.raises(DMError, match=text) as caught:
            self.say(*said)
        assert caught.value.code == code
        assert caught.value.workaround
        assert (self.kept, self.resumed) == (before, 0)


@pytest.mark.parametrize("position", ["", f"{FILE}:100", f"{FILE}:142", "bin|000001.000003:150"])
def test_the_statement_of_the_error_has_one_name(position: str) -> None:
    world = World()
    assert world.say("skip", position) == ""
    assert list(world.kept) == [f"{FILE}:142"]
    assert world.resumed == 1
    assert json.loads(world.say("list")) == [{"op": 1, "task": "t", "binlogPos": f"{FILE}:142"}]
    assert world.resumed == 1, "listing changes nothing"
    world.say("revert", position)
    assert (world.kept, world.resumed) == ({}, 2)
    assert world.say("list") == ""


def test_another_position_is_taken_as_it_is() -> None:
    world = World()
    world.say("inject", f"{FILE}:900", "CREATE TABLE d.x (id INT)")
    assert world.kept[f"{FILE}:900"].statements == ("CREATE TABLE d.x (id INT)",)
    assert world.say("list", f"{FILE}:901") == ""


def test_a_second_order_for_a_statement_takes_the_place_of_the_first() -> None:
    world = World()
    world.say("skip")
    world.say("replace", "", "DROP TABLE d.x")
    assert [one.kind for one in world.kept.values()] == ["replace"]


def test_what_an_operator_paused_stays_paused() -> None:
    world = World(failed=False)
    assert "resume-task" in world.say("skip", f"{FILE}:900")
    assert world.kept


def test_a_try_that_began_before_the_order_is_followed_by_another() -> None:
    """Auto-resume begins one every few seconds: an operator must not have to hit the time in between."""
    world = World(failed=False, stage=pb.Running)

    def fail_at_the_third_look() -> bool:
        world.resumed += 1
        world.subtask.state.failed = world.resumed == 3
        return world.resumed == 3

    world.subtask.retry = fail_at_the_third_look
    assert world.say("skip") == ""
    assert list(world.kept) == [f"{FILE}:142"]
    assert world.resumed == 3


def test_a_running_task_is_left_alone() -> None:
    world = World(failed=False, stuck=None, stage=pb.Running)
    assert world.say("skip", f"{FILE}:900") == ""
    assert world.resumed == 1


def test_orders_that_can_have_no_effect_are_refused() -> None:
    World(failed=False, stuck=None, stage=pb.Running).refuses(11118, "source 's' has no error", "skip")
    World(stuck=None).refuses(11118, "only support to handle ddl error", "skip")
    world = World()
    world.refuses(11118, "before the checkpoint", "skip", f"{FILE}:99")
    world.refuses(11118, "before the checkpoint", "skip", "bin.000002:900")
    world.refuses(11118, "not valid", "skip", "here")
    world.refuses(11118, "no statements", "replace")
    world.refuses(
        11118, "statement 2 of 2: .*offset 6", "replace", "", "DROP TABLE d.x", "ALTER SEQUENCE d.s RESTART 5"
    )
    world.refuses(11118, "`e`.`x` is not migrated", "replace", "", "DROP TABLE e.x")
    world.refuses(36065, f"not exist, position: {FILE}:142", "revert")
    world.subtask.unit().unit_type = pb.Load
    world.refuses(40056, "needs unit Sync", "skip")


def test_a_ddl_that_all_shards_have_run_is_skipped_or_replaced_though_the_checkpoint_is_behind_it() -> None:
    at = Position(FILE, 50)
    settle = SettleDDL(("m", "t"), 0, ("ALTER TABLE `m`.`t` ADD UNIQUE (v)",), True, "0-1-7", "", 9, at)
    world = World(stuck=settle)
    world.refuses(11118, "it can only be skipped or replaced", "inject", "", "ALTER TABLE d.t ADD a INT")
    for op, statements in (("replace", ["ALTER TABLE d.t ADD a INT"]), ("skip", [])):
        world.say(op, "", *statements)
        assert [(one.kind, one.at) for one in world.kept.values()] == [(op, at)]
