"""Makes the facts of subtasks and of their comparison from the workers' answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dm_master.cutover.facts import DiffFacts, DiffTableFacts, SubTaskFacts, ValidatorFacts
from dm_master.cutover.verdict import Unreadable
from pkg.binlog.position import Location, parse_position
from pkg.pb import dmworker_pb2 as pb
from pkg.status.amounts import numbers_of
from pkg.status.error_text import parsed_error

#: One source in the position of a compared table.
_PLACE = re.compile(r"(\S+) \[position: (\([^)]*\)), gtid-set: ([^\]]*)\]")


def diff_facts(answers: Sequence[pb.DiffSourceStatus], verdict: str) -> DiffFacts | Unreadable:
    """The last comparison of a task's sources; ``verdict`` is of all of them together."""
    # The check itself says what to do.
    refused = [f"{one.source}: {parsed_error(one.msg).message}" for one in answers if not one.result]
    if refused or not any(one.tables for one in answers):
        return Unreadable("; ".join(refused) or "no comparison was made")
    tables = [
        DiffTableFacts(
            table.target,
            table.state,
            table.reason or _differing(table),
            {source: Location(parse_position(place), gtid) for source, place, gtid in _PLACE.findall(table.position)},
        )
        for one in answers
        for table in one.tables
    ]
    return DiffFacts(verdict, tuple(tables), min((one.started for one in answers if one.started), default=""))


def _differing(table: pb.DiffTableStatus) -> str:
    counts = {name: getattr(table, name) for name in ("missing", "extra", "changed", "doubled")}
    return ", ".join(f"{count} rows {name}" for name, count in counts.items() if count)


def subtask_facts(answer: pb.QueryStatusResponse, task: str) -> SubTaskFacts:
    """The facts of a worker's subtask of ``task``, from the worker's answer."""
    source = answer.sourceStatus.source
    status = next((one for one in answer.subTaskStatus if one.name == task), None)
    if not answer.result or status is None:
        return SubTaskFacts(source, problem=answer.msg or f"task {task} does not run there")
    sync = status.sync
    return SubTaskFacts(
        source=source,
        unit=pb.UnitType.Name(status.unit),
        stage=pb.Stage.Name(status.stage),
        errors=tuple(error.Message for error in status.result.errors),
        applied=_location(sync.syncerBinlog, sync.syncerBinlogGtid),
        blocking=tuple(sync.blockingDDLs),
        held=tuple(f"{group.target} ({group.heldRows} rows)" for group in sync.unresolvedGroups),
        validator=_validator(status.validation) if status.HasField("validation") else None,
    )


def _validator(status: pb.ValidationStatus) -> ValidatorFacts | None:
    location = _location(status.validatorBinlog, status.validatorBinlogGtid)
    if location is None:
        return None
    new, pending = numbers_of(status.errorRowsStatus).get("new", 0), numbers_of(status.pendingRowsStatus)
    return ValidatorFacts(pb.Stage.Name(status.stage), location, sum(pending.values()), new)


def _location(position: str, gtid_set: str) -> Location | None:
    return Location(parse_position(position), gtid_set) if position else None
