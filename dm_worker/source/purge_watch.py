"""Asks the upstream regularly which binlog files it has, and passes them to the purge guard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pymysql
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pymysql.connections import Connection

from dm_worker.source.purge_guard import NO_RISK, PurgeDistance, PurgeGuard, PurgeRisk
from pkg.binlog.position import Position
from pkg.config.model import SourceConfig
from pkg.errors import DMError
from pkg.errors.workarounds import StoppedUnit
from pkg.mysql.connection import connect
from pkg.mysql.introspect import query, variable
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger
from pkg.process.service_thread import ServiceThread
from pkg.status.lag import UNKNOWN

log = get_logger(__name__)

#: Seconds between two checks.
INTERVAL = 30.0
_DAY = 86400.0
_READ_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class BinlogReader:
    """A reader of the upstream's binlog: its task ('' for the relay), position, and lag in seconds (0: unknown)."""

    task: str
    position: Position
    lag: float = 0.0

    @property
    def name(self) -> str:
        """The name in warnings and metrics."""
        return f"task {self.task}" if self.task else "relay"


def ask_upstream(source: SourceConfig) -> tuple[dict[str, int], float | None]:
    """The binlog files' sizes, oldest first, and how long files stay (seconds, None for ever).

    Raises DMError or ``pymysql.Error``.
    """
    conn = connect(source.from_, scope="upstream", read_timeout=_READ_TIMEOUT)
    try:
        files = {str(row[0]): int(row[1]) for row in query(conn, "SHOW BINARY LOGS")}
        return files, retention(conn)
    finally:
        conn.close()


def retention(conn: Connection[Any]) -> float | None:
    """Seconds after which the server removes a binlog file; None for never. Raises ``pymysql.Error``."""
    # MySQL servers with both variables allow only one of them to differ from 0.
    seconds = float(variable(conn, "binlog_expire_logs_seconds") or 0)
    days = float(variable(conn, "expire_logs_days") or 0)
    return seconds or days * _DAY or None


class PurgeWatch:
    """Watches from :meth:`start` to :meth:`stop`. ``readers`` returns the readers; it may wait for servers."""

    def __init__(self, source: SourceConfig, readers: Callable[[], Sequence[BinlogReader]]) -> None:
        self._source = source
        self._readers = readers
        self._guards: dict[str, PurgeGuard] = {}
        self._risks: dict[str, PurgeRisk] = {}
        self._distances: list[pb.PurgeDistance] = []
        self._end = threading.Event()
        self._thread = ServiceThread("purge-watch", self._main, self._end)

    @property
    def risks(self) -> dict[str, PurgeRisk]:
        """The last risk found for each reader."""
        return dict(self._risks)

    def warnings(self) -> list[str]:
        """For operators: files that will be purged or are gone."""
        return [f"{name}: {risk.text}" for name, risk in sorted(self.risks.items()) if risk.level]

    def distances(self) -> list[pb.PurgeDistance]:
        """For ``query-status``: how far the purge is from what each reader needs."""
        return list(self._distances)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end; returns at once."""
        self._end.set()

    def _main(self) -> None:
        while not self._end.is_set():
            try:
                self.look()
            except (DMError, pymysql.Error, OSError) as exc:
                log.info("cannot list the upstream's binlogs", source=self._source.source_id, error=str(exc))
            self._end.wait(INTERVAL)

    def _guard(self, reader: BinlogReader) -> PurgeGuard:
        return PurgeGuard(StoppedUnit(self._source.source_id, reader.task))

    def look(self) -> None:
        """One check. Raises DMError, ``pymysql.Error`` or ``OSError`` when the upstream does not answer."""
        readers = self._readers()
        files, stay = ask_upstream(self._source) if readers else ({}, None)
        self._guards = {reader.name: self._guards.get(reader.name) or self._guard(reader) for reader in readers}
        now = time.monotonic()
        risks = {
            reader.name: self._guards[reader.name].look(now, files, stay, reader.position, reader.lag)
            for reader in readers
        }
        for name, risk in risks.items():
            if risk.level > self._risks.get(name, NO_RISK).level:
                log.warning(
                    "the upstream may purge needed binlog files",
                    source=self._source.source_id,
                    reader=name,
                    warning=risk.text,
                )
        self._risks = risks
        distances = [self._guards[one.name].distance(now, files, stay, one.position) for one in readers]
        self._distances = [
            _message(reader.task, risks[reader.name], distance)
            for reader, distance in zip(readers, distances, strict=True)
        ]


def _message(task: str, risk: PurgeRisk, distance: PurgeDistance) -> pb.PurgeDistance:
    # Others than the settings may remove files: the guard's forecast is the earlier one then.
    known = [seconds for seconds in (risk.seconds_left, distance.expires) if seconds is not None]
    return pb.PurgeDistance(
        task=task,
        risk=risk.level,
        needed=str(distance.needed),
        oldest=distance.oldest,
        bytesBefore=UNKNOWN if distance.before is None else distance.before,
        bytesNeeded=UNKNOWN if distance.after is None else distance.after,
        retention=int(distance.retention or 0),
        secondsLeft=int(min(known, default=UNKNOWN)),
        text=risk.text,
    )


class PurgeCollector(Collector):
    """The risks as metrics. ``watch`` returns the bound source's id and watch."""

    def __init__(self, watch: Callable[[], tuple[str, PurgeWatch | None]]) -> None:
        self._watch = watch

    def collect(self) -> Iterator[Metric]:
        source, watch = self._watch()
        labels = ("reader", "source_id")
        level = GaugeMetricFamily(
            "dm_worker_upstream_purge_risk", "0 none, 1 a needed file will go, 2 it is missing.", labels=labels
        )
        left = GaugeMetricFamily(
            "dm_worker_upstream_purge_seconds_left", "Until a needed binlog file is purged.", labels=labels
        )
        for reader, risk in (watch.risks if watch is not None else {}).items():
            level.add_metric([reader, source], risk.level)
            if risk.seconds_left is not None:
                left.add_metric([reader, source], risk.seconds_left)
        yield from (level, left)
