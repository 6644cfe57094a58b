"""The relay's metrics under DM's names, read from its state when scraped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dm_worker.relay.source_relay import SourceRelay
from pkg.binlog.position import parse_position
from pkg.pb import dmworker_pb2 as pb

_SPACES = ("capacity", "available")


class RelayCollector(Collector):
    """``relay`` returns the relay of the bound source; its series end with it."""

    def __init__(self, relay: Callable[[], SourceRelay | None]) -> None:
        self._relay = relay

    def collect(self) -> Iterator[Metric]:
        relay = self._relay()
        status = relay.status() if relay is not None else None
        if relay is None or status is None:
            return
        yield from _positions(status)
        yield from _lag(status)
        yield from _counts(relay)
        yield _space(relay)


def _positions(status: pb.RelayStatus) -> Iterator[Metric]:
    offset = GaugeMetricFamily("dm_relay_binlog_pos", "Offset in the binlog file.", labels=("node",))
    file = GaugeMetricFamily("dm_relay_binlog_file", "Number of the binlog file.", labels=("node",))
    for node, text in (("master", status.masterBinlog), ("relay", status.relayBinlog)):
        if text:
            number, pos = parse_position(text).sort_key()
            file.add_metric([node], number)
            offset.add_metric([node], pos)
    index = GaugeMetricFamily("dm_relay_sub_dir_index", "Number of the sub-folder.", labels=("node", "uuid"))
    if status.relaySubDir:
        uuid, _, suffix = status.relaySubDir.rpartition(".")
        index.add_metric(["relay", uuid], int(suffix))
    yield from (offset, file, index)


def _lag(status: pb.RelayStatus) -> Iterator[Metric]:
    for name, text, value in (
        ("dm_relay_lag_seconds", "Seconds that the relay log is behind.", status.secondsBehind),
        ("dm_relay_bytes_behind", "Bytes of binlog that are not in the relay log.", status.bytesBehind),
    ):
        # An unknown lag has no sample.
        yield GaugeMetricFamily(name, text, value=value if value >= 0 else None)


def _counts(relay: SourceRelay) -> Iterator[Metric]:
    counts = relay.counts
    if counts is None:
        return
    yield GaugeMetricFamily("dm_relay_data_corruption", "Damaged events that were received.", value=counts.corruption)
    yield GaugeMetricFamily("dm_relay_read_error_count", "Connections that broke.", value=counts.read_errors)
    blocks = counts.blocks
    yield GaugeMetricFamily("dm_relay_write_error_count", "Writes that failed.", value=blocks.errors)
    # DM counts per event; we count per block of events that arrive at once.
    yield blocks.size.family("dm_relay_write_size", "Bytes written of a block of events.")
    yield blocks.write.family("dm_relay_write_duration", "Seconds of writing a block of events.")
    yield blocks.read.family("dm_relay_read_binlog_duration", "Seconds of waiting for a block of events.")
    yield blocks.transform.family("dm_relay_read_transform_duration", "Seconds of checking a block of events.")
    exits = GaugeMetricFamily(
        "dm_relay_exit_with_error_count", "Pauses because of an error.", labels=("resumable_err",)
    )
    for resumable, count in sorted(counts.exits.items()):
        exits.add_metric([str(resumable).lower()], count)
    yield exits


def _space(relay: SourceRelay) -> Metric:
    space = GaugeMetricFamily("dm_relay_space", "Bytes of the disk that holds the relay log.", labels=("type",))
    usage = shutil.disk_usage(relay.folder.path)
    for kind, size in zip(_SPACES, (usage.total, usage.free), strict=True):
        space.add_metric([kind], size)
    return space
