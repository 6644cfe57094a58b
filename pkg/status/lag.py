"""The lag of a stream of events, and the names of what a replication or a relay waits for."""

from __future__ import annotations

from dataclasses import dataclass

#: Instead of a lag that is unknown.
UNKNOWN = -1

SOURCE_IDLE, READ, PLAN, TARGET, ENGINE = "source_idle", "reading", "planning", "target_slow", "engine"
DDL, LOCK, HELD, RETRY, STOPPED = "ddl", "lock", "held", "retry", "stopped"
#: Reasons that only the stream has: the upstream does not answer; the relay log ends before the upstream's binlog; the
#: reader waits until what it has read is applied.
AWAY, RELAY, APPLYING = "upstream_away", "relay", "applying"


@dataclass(frozen=True, slots=True)
class StreamLag:
    """``seconds`` since the newest event that was read, at most, and ``unread`` bytes of binlog; both are 0 when all is
    read, and UNKNOWN when not known."""

    seconds: int
    unread: int
    reason: str
