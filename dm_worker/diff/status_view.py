"""Converts a comparison into its status message. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from dm_worker.diff.difference_files import DifferenceFiles
from dm_worker.diff.progress import DiffProgress, TableProgress
from dm_worker.diff.state_table import DiffRecord
from pkg.mysql.names import qualified
from pkg.pb import dmworker_pb2 as pb


def shown_comparison(record: DiffRecord, progress: DiffProgress, files: DifferenceFiles) -> pb.DiffSourceStatus:
    """The answer about one source."""
    tables = list(progress.tables.values())
    differ = any(table.counts.total or table.repairs for table in tables)
    return pb.DiffSourceStatus(
        result=True,
        run=record.run,
        stage=record.stage,
        started=datetime.fromtimestamp(record.begun, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        rows=sum(table.rows for table in tables),
        bytes=sum(table.bytes for table in tables),
        totalRows=sum(table.total_rows for table in tables),
        differences=str(files.differences) if differ else "",
        repairs=str(files.repairs) if differ and not record.settings.redact else "",
        tables=[_table(table) for table in tables],
    )


def _table(table: TableProgress) -> pb.DiffTableStatus:
    counts = table.counts
    return pb.DiffTableStatus(
        target=qualified(*table.target),
        sources=table.sources,
        state=table.state.value,
        reason=table.shown_reason,
        rows=table.rows,
        bytes=table.bytes,
        totalRows=table.total_rows,
        chunks=len(table.spans or ()),
        chunksDone=len(table.done),
        missing=counts.missing,
        extra=counts.extra,
        changed=counts.changed,
        doubled=counts.doubled,
        repaired=table.repaired,
        firstKeys=table.first_keys,
        how=table.how,
        position=table.place,
    )
