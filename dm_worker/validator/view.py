"""Converts a validator's state into DM's status messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dm_worker.syncer.figures.batch_report import Changes
from dm_worker.validator.differences import KIND_TEXTS, RowMismatch
from dm_worker.validator.store import Progress, TableState
from dm_worker.validator.verdicts import RowError
from pkg.mysql.names import TableId, qualified
from pkg.pb import dmworker_pb2 as pb

#: The newest notes that are kept.
MOST_NOTES = 20


def kind_of(difference: RowMismatch) -> str:
    """DM's text for the kind of a difference."""
    return KIND_TEXTS[difference.kind]


def table_states(
    tables: Mapping[TableId, TableState], uncompared: Mapping[tuple[TableId, TableId, str], int]
) -> list[TableState]:
    """The state of each table, with the rows that were not compared."""
    left_out: dict[TableId, list[str]] = {}
    for (_, source, reason), rows in sorted(uncompared.items()):
        left_out.setdefault(source, []).append(f"{rows} rows were not compared: {reason}")
    found = []
    for source, state in sorted(tables.items()):
        message = "; ".join(filter(None, (state.message, *left_out.get(source, ()))))
        found.append(TableState(source, state.target, state.stage, message))
    return found


def counts(what: str, numbers: Iterable[int]) -> str:
    """DM's form of three counts."""
    return f"{what}: {'/'.join(map(str, numbers))}"


def fill_progress(status: pb.ValidationStatus, progress: Progress, pending: Changes) -> None:
    """Adds the location and the counts of rows."""
    location = progress.location
    status.validatorBinlog = str(location.position) if location.position.name else ""
    status.validatorBinlogGtid = location.gtid_set
    status.processedRowsStatus = counts("insert/update/delete", progress.processed)
    status.pendingRowsStatus = counts("insert/update/delete", pending)
    status.notes.extend(progress.notes)


def table_message(source: str, state: TableState) -> pb.ValidationTableStatus:
    """One table as ``validation status`` shows it."""
    return pb.ValidationTableStatus(
        source=source,
        srcTable=qualified(*state.source),
        dstTable=qualified(*state.target),
        stage=pb.Stopped if state.stage == "Stopped" else pb.Running,
        message=state.message,
    )


def error_message(source: str, error: RowError) -> pb.ValidationError:
    """One error as ``validation show-error`` shows it."""
    one = error.difference
    return pb.ValidationError(
        id=str(error.number),
        source=source,
        srcTable=qualified(*one.source),
        srcData=one.expected,
        dstTable=qualified(*one.target),
        dstData=one.found,
        errorType=kind_of(one),
        status=error.status,  # type: ignore[arg-type]
        time=error.time,
        message=error.message,
    )
