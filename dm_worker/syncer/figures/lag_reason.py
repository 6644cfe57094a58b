"""Why a task is behind its upstream. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dm_worker.syncer.figures import batch_report

#: Stages of the main loop.
WAITING, CHECKPOINT, JOB, STATEMENT, DRIVER = "waiting", "checkpoint", "job", "ddl", "driver"
#: Stages of the planning thread.
SOURCE, READING, PLANNING, HANDING, REOPENING = "source", "reading", "planning", "handing over", "reopening"

#: Reasons, as the metric names them. ``engine``: decoding, moving and compacting rows takes longer than writing them.
SOURCE_IDLE, READ, PLAN, TARGET, ENGINE = "source_idle", "reading", "planning", "target_slow", "engine"
DDL, LOCK, RETRY, STOPPED = "ddl", "lock", "retry", "stopped"
REASONS = (SOURCE_IDLE, READ, PLAN, TARGET, ENGINE, DDL, LOCK, RETRY, STOPPED)


@dataclass(frozen=True, slots=True)
class LagFacts:
    """What a run is doing. ``main`` and ``reader`` are the stages of its threads, '' for no run. ``retrying``: the
    last try at a batch failed; ``locked``: a DDL of merged shards waits for other sources; ``behind``: a transaction
    that was read is not applied. ``shares`` are the seconds by stage of the last jobs; ``job``: their wall-clock
    seconds."""

    main: str = ""
    reader: str = ""
    retrying: bool = False
    locked: bool = False
    behind: bool = False
    job: float = 0.0
    shares: tuple[tuple[str, float], ...] = ()


def lag_reason(facts: LagFacts) -> str:
    """The reason for the lag, or for there being none."""
    if not facts.main:
        return STOPPED
    if facts.retrying or facts.reader == REOPENING:
        return RETRY
    if facts.main == STATEMENT:
        return DDL
    if facts.main in (JOB, CHECKPOINT, DRIVER) or facts.reader == HANDING:
        # What is read waits for what is applied.
        return TARGET if facts.main == CHECKPOINT or _writes_most(facts) else ENGINE
    if facts.locked:
        return LOCK
    if facts.reader == PLANNING:
        return PLAN
    if facts.reader == READING or facts.behind:
        return READ
    return SOURCE_IDLE


def _writes_most(facts: LagFacts) -> bool:
    shares = dict(facts.shares)
    return shares.get(batch_report.WRITE, 0.0) > facts.job / 2
