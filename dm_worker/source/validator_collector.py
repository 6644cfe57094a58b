"""DM's metrics of the validator, from the subtasks' status, so that they end with their subtask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from pkg.binlog.position import Position, file_number, parse_position
from pkg.pb import dmworker_pb2 as pb
from pkg.process.metrics import AnnouncedFamily

#: Name → help. DM doubles the prefix.
VALIDATOR = {
    "dm_validator_validator_error_count": "Rows that differ.",
    "dm_validator_validator_logpos_latency": "Bytes that the validator is behind the syncer, within a binlog file.",
    "dm_validator_validator_logfile_latency": "Binlog files that the validator is behind the syncer.",
    "dm_validator_validator_binlog_pos": "Offset in the binlog file up to which changes are compared.",
    "dm_validator_validator_binlog_file": "Number of the binlog file up to which changes are compared.",
}


class ValidatorCollector(Collector):
    """A task without a validator has no series; dashboards find the names."""

    def __init__(self, statuses: Callable[[], tuple[str, Sequence[pb.SubTaskStatus]]]) -> None:
        self._statuses = statuses

    def collect(self) -> Iterator[Metric]:
        families = {name: AnnouncedFamily(name, text, labels=("task", "source_id")) for name, text in VALIDATOR.items()}
        source, statuses = self._statuses()
        for status in statuses:
            if status.HasField("validation"):
                for name, value in zip(VALIDATOR, _values(status), strict=True):
                    if value is not None:
                        families[name].add_metric([status.name, source], value)
        yield from families.values()


def _values(status: pb.SubTaskStatus) -> tuple[float | None, ...]:
    """One value per name; None while it is not known."""
    new = int(status.validation.errorRowsStatus.rpartition(" ")[2].split("/")[0])
    here, there = _position(status.validation.validatorBinlog), _position(status.sync.syncerBinlog)
    if here is None:
        return new, None, None, None, None
    behind = _behind(here, there) if there is not None else (None, None)
    return new, *behind, here.pos, file_number(here.name)


def _position(text: str) -> Position | None:
    return parse_position(text) if text else None


def _behind(here: Position, there: Position) -> tuple[float, float]:
    files = file_number(there.name) - file_number(here.name)
    return max(0, there.pos - here.pos) if files == 0 else 0, max(0, files)
