"""Who changed what when: the last changes that operators made, in etcd.

The log is a ring of a fixed number of keys. An entry and the number of the next one are written in one transaction, so
that masters which write at the same time lose no entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from pkg.errors import Code, DMError, new
from pkg.etcd import EtcdClient
from pkg.etcd.types import Put, missing, mod_revision_is
from pkg.ha.keys import EVENT, EVENT_COUNT
from pkg.ha.records import OperatorEvent
from pkg.process.log import get_logger
from pkg.status.preview import preview

log = get_logger("events")

#: Entries that stay.
MOST_EVENTS = 1000
#: Characters of one text of an entry.
MOST_TEXT = 500
_ATTEMPTS = 30
_actor: ContextVar[str] = ContextVar("actor", default="gRPC (dmctl)")


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Within the block, ``name`` is who changes something."""
    token = _actor.set(name)
    try:
        yield
    finally:
        _actor.reset(token)


class EventLog:
    """``now`` gives the time of an entry."""

    def __init__(self, etcd: EtcdClient, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._etcd = etcd
        self._now = now

    def note(self, method: str, request: Any, answer: Any) -> None:
        """Notes a request that changes something, and its result. The request is over: an error here is only logged."""
        event = event_of(method, request, answer, self._now())
        if event is None:
            return
        try:
            self._append(event)
        except DMError as exc:
            log.error("a change is not in the event log", who=event.who, what=event.what, error=str(exc))

    def latest(self) -> list[OperatorEvent]:
        """All entries, the newest first."""
        found, _ = self._etcd.get_prefix(EVENT.prefix())
        # The ring's order is that of the writes, not that of the slots.
        found.sort(key=lambda kv: kv.mod_revision, reverse=True)
        return [OperatorEvent.from_json(kv.value) for kv in found]

    def _append(self, event: OperatorEvent) -> None:
        for _ in range(_ATTEMPTS):
            count = self._etcd.get(EVENT_COUNT)
            number = int(count.value) if count is not None else 0
            before = missing(EVENT_COUNT) if count is None else mod_revision_is(EVENT_COUNT, count.mod_revision)
            puts = (
                Put(EVENT_COUNT, str(number + 1)),
                Put(EVENT.key(str(number % MOST_EVENTS)), event.to_json()),
            )
            if self._etcd.txn([before], puts).succeeded:
                return
        raise new(Code.HAFailTxnOperation, f"the event log was written by others {_ATTEMPTS} times in a row")


def event_of(method: str, request: Any, answer: Any, at: datetime) -> OperatorEvent | None:
    """The entry about a request and its answer; None for one that changes nothing. Pure, but for who acts."""
    described = preview(method, request)
    if described is None or (method == "OperateCutover" and answer.result and not answer.done):
        # dmctl asks for a cutover again until it is done.
        return None
    # A cutover's sources have no results of their own.
    parts = [one for one in getattr(answer, "sources", ()) if hasattr(one, "result")]
    failed = [f"{one.source}: {one.msg}" for one in parts if not one.result]
    return OperatorEvent(
        at=at.isoformat(timespec="seconds"),
        who=_short(_actor.get()),
        what=_short(described.title),
        command=_short(described.command),
        result="done" if answer.result and not failed else "failed",
        detail=_short("; ".join(filter(None, [answer.msg, *failed]))),
    )


def _short(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
