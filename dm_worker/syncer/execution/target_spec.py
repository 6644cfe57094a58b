"""How a Spark task reaches the target. Pure, picklable data."""

from __future__ import annotations

from dataclasses import dataclass

from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.execution.target_connections import TargetAddress
from pkg.settings.connections import DBConfig


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """How a task reaches the target: ``markers`` and ``batches`` are the quoted names of the protocol's tables."""

    config: DBConfig
    session: tuple[tuple[str, str], ...]
    markers: str
    batches: str
    form: StatementForm

    @property
    def address(self) -> TargetAddress:
        return self.config, self.session
