"""DM's metrics of the validator. This version has no validator, so they are declared without series."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from pkg.process.metrics import AnnouncedFamily

#: Name → help. DM doubles the prefix.
VALIDATOR = {
    "dm_validator_validator_error_count": "Rows that differ.",
    "dm_validator_validator_logpos_latency": "Bytes that the validator is behind, within a binlog file.",
    "dm_validator_validator_logfile_latency": "Binlog files that the validator is behind.",
    "dm_validator_validator_binlog_pos": "Offset in the binlog file.",
    "dm_validator_validator_binlog_file": "Number of the binlog file.",
}


class ValidatorCollector(Collector):
    """Dashboards find the names; a value would mean that rows were compared."""

    def collect(self) -> Iterator[Metric]:
        for name, text in VALIDATOR.items():
            yield AnnouncedFamily(name, f"{text} This version has no validator.", labels=("task", "source_id"))
