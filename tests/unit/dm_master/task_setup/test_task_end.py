"""Hazard: a task ends elsewhere than the flags say, or never."""

from __future__ import annotations

import pytest

from dm_master.task_setup.task_end import Moment, TaskEnd, ensure_possible, parse_moment, task_end
from pkg.binlog.position import Position
from pkg.config.codec import decode_subtask, encode_subtask
from pkg.config.model import SubTaskConfig, Until
from pkg.errors import DMError
from pkg.settings.connections import DBConfig

SERVER = DBConfig("127.0.0.1", 1)


def subtask(**changes: object) -> SubTaskConfig:
    common = {"name": "t", "source_id": "s", "task_mode": "incremental", "from_": SERVER, "to": SERVER}
    return SubTaskConfig(**{**common, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02 03:04:05", Moment("2026-01-02 03:04:05", None)),
        ("2026-01-02T03:04:05", Moment("2026-01-02 03:04:05", None)),
        ("2026-01-02T03:04:05Z", Moment("2026-01-02 03:04:05", 1767323045)),
        ("2026-01-02 03:04:05+08:00", Moment("2026-01-02 03:04:05", 1767323045 - 8 * 3600)),
        ("2026-01-02T03:04:05-0130", Moment("2026-01-02 03:04:05", 1767323045 + 90 * 60)),
    ],
)
def test_the_forms_of_a_time(text: str, moment: Moment) -> None:
    assert parse_moment(text, "--until-time") == moment


@pytest.mark.parametrize(
    "text",
    ["", "2026-01-02", "2026-13-02 03:04:05", "2026-01-02 25:04:05", "2026-01-02 03:04:05 UTC", "1767323045",
     "2026-01-02 03:04:05+99:00", "1960-01-02 03:04:05Z", "2040-01-02T03:04:05Z", "２026-01-02 03:04:05"],
)  # fmt: skip
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(DMError, match="--until-time"):
        parse_moment(text, "--until-time")


def test_an_end_is_one_of_three() -> None:
    assert task_end("", "", "") is None
    assert task_end("mysql-bin.000003:120", "", "") == TaskEnd(Position("mysql-bin.000003", 120))
    assert task_end("", "0-1-7", "") == TaskEnd(gtid_set="0-1-7")
    assert task_end("", "", "2026-01-02T03:04:05Z") == TaskEnd(moment=Moment("2026-01-02 03:04:05", 1767323045))
    with pytest.raises(DMError, match="--until-position and --until-time are given together"):
        task_end("mysql-bin.000003:120", "", "2026-01-02T03:04:05Z")
    for wrong in ("mysql-bin.000003", "mysql-bin:120"):
        with pytest.raises(DMError):
            task_end(wrong, "", "")


def test_ends_of_a_subtask() -> None:
    assert TaskEnd(Position("b.000003", 120)).until(0) == Until("b.000003", 120)
    assert TaskEnd(gtid_set="0-1-7").until(0) == Until(binlog_gtid="0-1-7")
    assert TaskEnd(moment=Moment("2026-01-02 03:04:05", None)).until(99) == Until(time=99)
    # UNIX_TIMESTAMP of a time that it does not know.
    with pytest.raises(DMError, match="no events"):
        TaskEnd(moment=Moment("2099-01-02 03:04:05", None)).until(0)


def test_an_end_that_a_task_cannot_have_is_refused() -> None:
    place, moment = TaskEnd(Position("b.000003", 120)), TaskEnd(moment=Moment("", 5))
    ensure_possible(place, [subtask()])
    ensure_possible(moment, [subtask(), subtask(source_id="s2", task_mode="all")])
    with pytest.raises(DMError, match="one source's"):
        ensure_possible(place, [subtask(), subtask(source_id="s2")])
    with pytest.raises(DMError, match="replicates nothing"):
        ensure_possible(moment, [subtask(task_mode="full")])
    with pytest.raises(DMError, match="held back"):
        ensure_possible(moment, [subtask(shard_mode="pessimistic")])
    with pytest.raises(DMError):
        ensure_possible(TaskEnd(gtid_set="0-1-7"), [subtask(flavor="mysql")])
    ensure_possible(TaskEnd(gtid_set="0-1-7"), [subtask(flavor="mariadb")])


def test_the_end_is_kept_with_the_subtask() -> None:
    for until in (Until("b.000003", 120), Until(binlog_gtid="0-1-7"), Until(time=99)):
        config = subtask(until=until)
        assert decode_subtask(encode_subtask(config)) == config
    assert "until" not in encode_subtask(subtask())
