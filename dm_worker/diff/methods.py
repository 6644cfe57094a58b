"""The two methods that make a comparison's result certain: a common position of both sides, or differences that
last."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from dm_worker.comparison.outcome import Difference
from dm_worker.diff.confirmations import Confirmations
from dm_worker.diff.meeting import pair_table
from dm_worker.diff.progress import ChunkWork
from dm_worker.diff.snapshot_pair import PairServers, PairUpstream
from dm_worker.diff.standing import StandingDifferences
from dm_worker.diff.target_place import TargetPlace
from dm_worker.diff.unheld_pair import UnheldServers
from dm_worker.diff.upstream_snapshot import UpstreamKind
from pkg.config.model import SubTaskConfig
from pkg.mysql.names import TableId


class Certainty(Protocol):
    """Decides which differences count when a chunk is compared several times."""

    @property
    def waits_for(self) -> str:
        """Why no chunk can be compared now."""
        ...

    def is_due(self, work: ChunkWork) -> bool:
        """Whether the chunk may be compared now."""
        ...

    def seen(self, work: ChunkWork, differences: Sequence[Difference], *, exact: bool) -> list[Difference] | None:
        """The differences that count; None while the chunk must be compared again."""
        ...

    def given_up(self, work: ChunkWork) -> str:
        """Why the rest of the chunk's table can't be compared; '' where it can. To be asked once."""
        ...

    def forget(self, target: TableId) -> None:
        """No chunk of the table is compared any more."""
        ...


class ComparisonMethod(Protocol):
    """How the snapshots of both sides belong together, and what differences in them mean."""

    def servers(
        self, own: SubTaskConfig, configs: Sequence[SubTaskConfig], *, lock: bool
    ) -> PairServers | UnheldServers:
        """``configs``: the sources of the tables, in order; ``own`` is the one that compares."""
        ...

    def certainty(self) -> Certainty: ...


class AtOnePosition:
    """For upstreams that a task replicates into the target: replication is held at the position of their snapshots."""

    def servers(self, own: SubTaskConfig, configs: Sequence[SubTaskConfig], *, lock: bool) -> PairServers:
        upstreams = tuple(
            PairUpstream(one.source_id, one.from_, UpstreamKind(one.flavor, lock), TargetPlace.of(one))
            for one in configs
        )
        return PairServers(upstreams, own.to, pair_table(own.meta_schema, own.name), own.source_id)

    def certainty(self) -> Certainty:
        return Confirmations(time.monotonic)


class WithoutPosition:
    """For servers whose replication is unknown. ``settle``: seconds for which a difference
    must last."""

    def __init__(self, settle: float) -> None:
        self._settle = settle

    def servers(self, own: SubTaskConfig, configs: Sequence[SubTaskConfig], *, lock: bool) -> UnheldServers:
        return UnheldServers(tuple(one.from_ for one in configs), own.to)

    def certainty(self) -> Certainty:
        return StandingDifferences(self._settle, time.monotonic)
