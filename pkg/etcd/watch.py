"""One watch stream of one member. The client resumes it after it breaks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

from pkg.etcd.endpoint import Endpoint
from pkg.etcd.errors import CompactedError, WatchCanceledError
from pkg.etcd.messages import event_of, range_end
from pkg.etcd.stubs import rpc
from pkg.etcd.types import WatchBatch

#: How often a silent watch checks its stop event, in seconds.
_STOP_POLL = 0.2
# The member must close the stream when it loses its leader; otherwise a partitioned member would stay silent forever.
_REQUIRE_LEADER = ("hasleader", "true")


def watch_stream(endpoint: Endpoint, prefix: str, from_revision: int, stop: threading.Event) -> Iterator[WatchBatch]:
    """Batches from one stream until ``stop`` is set or the stream breaks (``grpc.RpcError``)."""
    create = rpc.WatchCreateRequest(
        key=prefix.encode() or b"\0",
        range_end=range_end(prefix),
        start_revision=from_revision,
        # Idle watches receive the store's progress, so that compaction does not overtake them.
        progress_notify=True,
    )
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    requests.put(rpc.WatchRequest(create_request=create))
    call = endpoint.watchstub.Watch(iter(requests.get, None), metadata=(*(endpoint.metadata or ()), _REQUIRE_LEADER))
    try:
        for response in _until(stop, call):
            if response.canceled:
                _raise_canceled(prefix, response)
            if response.events:
                events = tuple(map(event_of, response.events))
                # While a watch catches up, the header is ahead of the events sent.
                yield WatchBatch(events, max(event.mod_revision for event in events))
            elif not response.created:
                yield WatchBatch((), response.header.revision)
    finally:
        requests.put(None)
        call.cancel()


def _until(stop: threading.Event, call: Any) -> Iterator[Any]:
    """The responses of ``call``; a thread reads them, because a blocked read cannot check ``stop``."""
    responses: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:
        try:
            for response in call:
                responses.put(response)
            responses.put(StopIteration())
        except BaseException as exc:  # noqa: BLE001 - passed on: a watch without a reader would be silent forever
            responses.put(exc)

    threading.Thread(target=read, name="etcd-watch", daemon=True).start()
    while not stop.is_set():
        try:
            item = responses.get(timeout=_STOP_POLL)
        except queue.Empty:
            continue
        if isinstance(item, StopIteration):
            return
        if isinstance(item, BaseException):
            raise item
        yield item


def _raise_canceled(prefix: str, response: Any) -> None:
    if response.compact_revision:
        raise CompactedError(prefix, response.compact_revision)
    raise WatchCanceledError(response.cancel_reason or "no reason given")
