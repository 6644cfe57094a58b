"""When to retry a failed subtask. Pure: time comes in as arguments.

The delay between retries grows by ``backoff-factor`` from ``backoff-min`` to ``backoff-max`` and shrinks by the same
factor for each ``backoff-rollback`` seconds without an error.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from pkg.config.model import CheckerConfig
from pkg.errors import Code, DMError

#: A retry cannot help: the data, the table or the configuration has to change first.
_FINAL_KINDS = frozenset(
    {
        Code.SyncerCancelledDDL,  # a DDL cancelled by a later one
        Code.RelayUUIDSuffixNotValid,  # relay: files and folders that no longer fit the upstream
        Code.RelayUUIDSuffixLessThanPrev,
        Code.RelayBinlogNameNotValid,
        Code.RelayNoCurrentUUID,
        Code.RelayLogDirpathEmpty,
        Code.DumpUnitRuntime,  # dump failed
        Code.DumpUnitGlobalLock,  # no right to take the global lock
        Code.LoadLightningHasDup,  # duplicates or checksum mismatch after a physical import
        Code.LoadLightningChecksum,
        Code.SyncUnitDDLWrongSequence,  # shard DDLs in different orders
        Code.SyncerUnitDMLColumnNotMatch,  # column count differs from value count
    }
)
#: Server messages after which the same statement would only fail again.
_FINAL_MESSAGES = re.compile(
    "|".join(
        (
            r"unsupported (?:add|modify|drop) column",
            r"unsupported modify\b",
            r"unsupported drop integer primary key",
            r"unsupported multi schema change",
            r"can't drop column with index",
            r"invalid default value",
            r"too many columns",
            r"too many keys",
            r"identifier name '?[^']*'? ?is too long",
            r"error (?:1062|1406|1366|8025)\b",
            r"could not find first log file name in binary log index file",
            r"master has purged binary logs containing gtids",
            r"binlog checksum mismatch, data may be corrupted",
        )
    ),
    re.IGNORECASE,
)
#: A lightning error (34019) is final, except when the server was only unavailable for a time.
_PASSING_LIGHTNING = re.compile(r"connection|timeout|timed out|region unavailable|server is busy", re.IGNORECASE)


def resumable(errs: Sequence[DMError]) -> bool:
    """Whether a retry may help against every one of ``errs``."""
    return all(_may_pass(error) for error in errs)


def _may_pass(error: DMError) -> bool:
    if error.kind in _FINAL_KINDS:
        return False
    text = f"{error.message}\n{error.raw_cause}"
    if error.kind is Code.LoadLightningRuntime:
        return _PASSING_LIGHTNING.search(text) is not None
    return _FINAL_MESSAGES.search(text) is None


class ResumePolicy:
    """Backoff of one subtask. Times are seconds of a monotonic clock."""

    def __init__(self, config: CheckerConfig, rng: random.Random | None = None) -> None:
        self._config = config
        self._rng = rng or random.Random()
        self._delay = config.backoff_min
        self._calm_since: float | None = None
        self._due_at: float | None = None

    def failed(self, errs: Sequence[DMError], now: float) -> None:
        """The subtask paused with ``errs``: plans the next retry, or none when it cannot help."""
        self._calm_since = None
        self._due_at = None
        if self._config.check_enable and resumable(errs):
            self._due_at = now + self._jittered()
            self._delay = min(self._delay * self._config.backoff_factor, self._config.backoff_max)

    def due(self, now: float) -> bool:
        """Whether the planned retry is due; true once per failure."""
        if self._due_at is None or now < self._due_at:
            return False
        self._due_at = None
        return True

    def healthy(self, now: float) -> None:
        """The subtask runs without errors; after enough time the delay decreases step by step."""
        if self._calm_since is None:
            self._calm_since = now
        elif now - self._calm_since >= self._config.backoff_rollback:
            self._delay = max(self._delay / self._config.backoff_factor, self._config.backoff_min)
            self._calm_since = now

    def _jittered(self) -> float:
        if not self._config.backoff_jitter:
            return self._delay
        # A random delay from half to all of it: subtasks that failed together do not retry together.
        return self._delay * (0.5 + self._rng.random() / 2)
