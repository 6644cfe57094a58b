"""The time profile in a status answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dm_worker.syncer.figures.sync_figures import SyncFigures
from pkg.pb import dmworker_pb2 as pb


def add_profiles(statuses: Iterable[pb.SubTaskStatus], figures: Mapping[str, SyncFigures]) -> None:
    """Adds the profile to the status of each task that replicates."""
    for status in statuses:
        found = figures.get(status.name)
        if found is not None:
            seconds, sums = found.recent()
            status.profile.CopyFrom(pb.TimeProfile(seconds=seconds, sums=sums))
