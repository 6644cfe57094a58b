"""Why a task is behind its upstream. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from dm_worker.syncer.figures import batch_report
from pkg.status.lag import DDL, ENGINE, HELD, LOCK, PLAN, READ, RETRY, SOURCE_IDLE, STOPPED, TARGET

#: Stages of the main loop.
WAITING, CHECKPOINT, JOB, STATEMENT, DRIVER = "waiting", "checkpoint", "job", "ddl", "driver"
#: Stages of the planning thread.
SOURCE, READING, PLANNING, HANDING, REOPENING = "source", "reading", "planning", "handing over", "reopening"

#: Reasons, as in the metric. ``engine``: decoding, moving and compacting rows takes longer than writing them. HELD, at
#: a location, is a stage of the main loop, too.
REASONS = (SOURCE_IDLE, READ, PLAN, TARGET, ENGINE, DDL, LOCK, HELD, RETRY, STOPPED)


#: After this many seconds in one stage, the state of the target counts too: a Spark task reports what it waited for
#: only when it ends.
LONG_WAIT = 2.0

#: A lag below this many seconds does not matter to an operator when a DDL of merged shards waits.
SMALL_LAG = 5


class TargetState(Enum):
    """The target's activity when it was queried. BUSY: it has executed one of the account's statements for long."""

    NOT_ASKED = auto()
    ANSWERS = auto()
    BUSY = auto()
    AWAY = auto()


@dataclass(frozen=True, slots=True)
class LagFacts:
    """What a run is doing. ``main`` and ``reader`` are the stages of its threads, '' for no run, ``main_for`` and
    ``reader_for`` the seconds since they entered them. ``retrying``: the last attempt at a batch failed; ``locked``: a
    DDL of merged shards waits for other shards; ``lag``: seconds since the commit of the oldest transaction that was
    read and is not applied; ``unread``: for a time no event has arrived, although the upstream's binlog has more.
    ``shares`` are the seconds by stage of the last jobs; ``job``: their wall-clock seconds."""

    main: str = ""
    reader: str = ""
    main_for: float = 0.0
    reader_for: float = 0.0
    retrying: bool = False
    locked: bool = False
    lag: int = 0
    unread: bool = False
    job: float = 0.0
    shares: tuple[tuple[str, float], ...] = ()
    target: TargetState = TargetState.NOT_ASKED

    @property
    def may_wait_for_target(self) -> bool:
        """Whether the run has possibly waited for the target for so long that the target should be queried."""
        working = self.main in (JOB, CHECKPOINT, STATEMENT, DRIVER) and self.main_for >= LONG_WAIT
        return working or (self.reader == PLANNING and self.reader_for >= LONG_WAIT)


def lag_reason(facts: LagFacts) -> str:
    """The reason for the lag, or for no lag."""
    if not facts.main:
        return STOPPED
    if facts.retrying or facts.reader == REOPENING or facts.target is TargetState.AWAY:
        return RETRY
    if facts.main == STATEMENT:
        return DDL
    if facts.main == HELD:
        return HELD
    if facts.locked and facts.lag < SMALL_LAG:
        # Other shards and tables replicate meanwhile.
        return LOCK
    if facts.main in (JOB, CHECKPOINT, DRIVER) or facts.reader == HANDING:
        # Reading waits for applying.
        slow = facts.main == CHECKPOINT or facts.target is TargetState.BUSY or _writes_most(facts)
        return TARGET if slow else ENGINE
    if facts.locked:
        return LOCK
    if facts.reader == PLANNING:
        return TARGET if facts.target is TargetState.BUSY else PLAN
    if facts.reader == READING or facts.lag or facts.unread:
        return READ
    return SOURCE_IDLE


def _writes_most(facts: LagFacts) -> bool:
    shares = dict(facts.shares)
    return shares.get(batch_report.WRITE, 0.0) > facts.job / 2
