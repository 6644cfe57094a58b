"""The flags of ``start-task`` for the end of a task, and its times: --until-position, --until-gtid, --until-time,
--start-time. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from pkg import errors
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Position, file_number, parse_position
from pkg.config.model import SubTaskConfig, Until
from pkg.errors import Code

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(Z|[+-]\d\d:?\d\d)?", re.ASCII)
#: The first second that a TIMESTAMP of every server can have, and the one after the last.
_FIRST, _AFTER = 1, 1 << 31


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of day on a date: in unix seconds, or as text in each upstream's own time zone."""

    text: str
    seconds: int | None


def parse_moment(text: str, flag: str) -> Moment:
    """Reads ``2026-01-02 03:04:05`` or the same with ``T``, and with ``Z`` or an offset after it. Raises 38041."""
    match = _MOMENT.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError("it does not have the form YYYY-MM-DD HH:MM:SS")
        day, clock, zone = match.groups()
        moment = datetime.fromisoformat(f"{day} {clock}").replace(tzinfo=_zone(zone or "Z"))
    except ValueError as exc:
        raise errors.new(
            Code.MasterInvalidOperateOp,
            f"{flag}: {text!r} is not a time: {exc}",
            workaround="Give it as '2026-01-02 03:04:05', with Z or an offset such as +08:00 if it is in another time "
            "zone than the upstream's.",
        ) from None
    if zone is None:
        return Moment(f"{day} {clock}", None)
    return Moment(f"{day} {clock}", checked_seconds(int(moment.timestamp()), text, flag))


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def checked_seconds(seconds: int, text: str, flag: str) -> int:
    """The seconds of a moment, which servers answer with 0 where they can't have it. Raises 38041 then."""
    if not _FIRST <= seconds < _AFTER:
        raise errors.new(
            Code.MasterInvalidOperateOp,
            f"{flag}: a binlog has no events of {text!r}",
            workaround="Give a time between 1970-01-01 and 2038-01-19.",
        )
    return seconds


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """Where a task is to end; one of the three is set."""

    position: Position | None = None
    gtid_set: str = ""
    moment: Moment | None = None

    def until(self, seconds: int) -> Until:
        """For a subtask. ``seconds``: of the moment, in the time zone of its upstream."""
        if self.moment is not None:
            return Until(time=checked_seconds(seconds, self.moment.text, "--until-time"))
        if self.position is not None:
            return Until(self.position.name, self.position.pos)
        return Until(binlog_gtid=self.gtid_set)


def task_end(position: str, gtid_set: str, moment: str) -> TaskEnd | None:
    """The end by the flags' texts; None without any. Raises 38041, 22003 and 22002."""
    given = [flag for flag, text in _flags(position, gtid_set, moment).items() if text]
    if len(given) > 1:
        raise _refused(f"{' and '.join(given)} are given together", "Give one of them.")
    if position:
        parsed = parse_position(position)
        file_number(parsed.name)
        return TaskEnd(position=parsed)
    if moment:
        return TaskEnd(moment=parse_moment(moment, "--until-time"))
    return TaskEnd(gtid_set=gtid_set) if gtid_set else None


def _flags(position: str, gtid_set: str, moment: str) -> dict[str, str]:
    return {"--until-position": position, "--until-gtid": gtid_set, "--until-time": moment}


def ensure_possible(end: TaskEnd, subtasks: Sequence[SubTaskConfig]) -> None:
    """Raises 38041 for subtasks that can't end there, 11093 and similar errors for a GTID set of another flavor."""
    for subtask in subtasks:
        if subtask.task_mode not in ("all", "incremental", "load&sync"):
            raise _refused(
                f"a task with task-mode {subtask.task_mode} replicates nothing, so it can't end at a location",
                "Leave the flag out.",
            )
        if subtask.shard_mode:
            raise _refused(
                f"a task with shard-mode {subtask.shard_mode} can't end at a location: rows may be held back for a DDL",
                "Leave the flag out, and stop the task when query-status shows no unresolvedGroups.",
            )
        if end.gtid_set:
            parse_gtid_set(end.gtid_set, subtask.flavor)
    if end.moment is None and len(subtasks) > 1:
        raise _refused(
            "a position or a GTID set is one source's, and the task has several",
            "Start the sources one by one with -s, or use --until-time.",
        )


def _refused(problem: str, workaround: str) -> errors.DMError:
    return errors.new(Code.MasterInvalidOperateOp, problem, workaround=workaround)
