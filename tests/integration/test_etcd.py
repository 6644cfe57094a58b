"""pkg.etcd on a real etcd: what happens when the server, the lease or the history goes away."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from deploy.local.process import free_port, wait_until
from pkg.errors import Code, DMError
from pkg.etcd import (
    CompactedError,
    Delete,
    EtcdClient,
    Get,
    LeaseKeeper,
    PrefixMirror,
    Put,
    WatchBatch,
    WatchEvent,
    create_revision_is,
    exists,
    missing,
    mod_revision_is,
    value_is,
    version_is,
)
from tests.harness.etcd import EtcdServer


@pytest.fixture
def client(etcd: EtcdServer) -> Iterator[EtcdClient]:
    """A client that waits long enough for an etcd that starts, or that writes to a busy disk."""
    with EtcdClient([etcd.endpoint], timeout=60) as made:
        yield made


class Watcher:
    """Reads a watch in a thread; ``events`` is what came so far."""

    def __init__(self, client: EtcdClient, prefix: str, revision: int) -> None:
        self.events: list[WatchEvent] = []
        self.error: BaseException | None = None
        self.stop = threading.Event()
        self._batches = client.watch_prefix(prefix, revision, self.stop)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        try:
            for batch in self._batches:
                assert isinstance(batch, WatchBatch)
                self.events.extend(batch.events)
        except BaseException as exc:  # noqa: BLE001  (the test looks at it)
            self.error = exc

    def values(self) -> list[str]:
        return [event.value for event in self.events]

    def end(self) -> None:
        self.stop.set()
        self.thread.join(60)
        assert not self.thread.is_alive()


def test_keys_and_prefixes(client: EtcdClient) -> None:
    assert client.get("/a/1") is None
    client.put("/a/1", "one")
    client.put("/a/2", "zwei – ü")
    client.put("/b", "other")
    pairs, revision = client.get_prefix("/a/")
    assert [(kv.key, kv.value) for kv in pairs] == [("/a/1", "one"), ("/a/2", "zwei – ü")]
    assert revision >= pairs[-1].mod_revision
    assert client.delete("/a/1") is True
    assert client.delete("/a/1") is False
    assert client.delete_prefix("/a/") == 1
    left = client.get("/b")
    assert left is not None
    assert left.value == "other"


def test_a_transaction_does_one_branch_whole(client: EtcdClient) -> None:
    created = client.txn([missing("/k")], [Put("/k", "1"), Put("/l", "2")])
    assert created.succeeded
    stored = client.get("/k")
    assert stored is not None
    assert stored.create_revision == created.revision
    refused = client.txn([missing("/k")], [Put("/k", "overwritten")], [Get("/", prefix=True)])
    assert not refused.succeeded
    assert [kv.value for kv in refused.responses[0].kvs] == ["1", "2"]
    conditions = [
        exists("/k"),
        value_is("/k", "1"),
        version_is("/k", 1),
        create_revision_is("/k", created.revision),
        mod_revision_is("/k", created.revision),
    ]
    done = client.txn(conditions, [Delete("/", prefix=True)])
    assert done.succeeded
    assert done.responses[0].deleted == 2


def test_a_refused_transaction_names_etcds_reason(client: EtcdClient) -> None:
    with pytest.raises(DMError) as caught:
        client.txn([], [Put("/k", "1"), Put("/k", "2")])
    assert caught.value.kind is Code.HAFailTxnOperation
    assert "duplicate key" in caught.value.raw_cause
    assert not caught.value.retryable


def test_a_transaction_that_is_too_big_says_which_limit(client: EtcdClient) -> None:
    with pytest.raises(DMError) as caught:
        client.txn([], [Put(f"/k/{number}", "v") for number in range(200)])
    assert caught.value.kind is Code.HAFailTxnOperation
    assert "max-txn-ops" in caught.value.workaround
    assert client.get_prefix("/k/")[0] == []


def test_calls_survive_a_restart_of_etcd_within_their_timeout(etcd: EtcdServer) -> None:
    with EtcdClient([etcd.endpoint], timeout=90) as client:
        client.put("/k", "before")
        etcd.kill()
        threading.Timer(0.5, etcd.start).start()
        stored = client.get("/k")
        assert stored is not None
        assert stored.value == "before"
        assert client.txn([exists("/k")], [Put("/k", "after")]).succeeded


def test_an_unreachable_etcd_is_an_error_in_time() -> None:
    with EtcdClient([f"127.0.0.1:{free_port()}"], timeout=1.0) as client:
        began = time.monotonic()
        with pytest.raises(DMError) as caught:
            client.get("/k")
        assert time.monotonic() - began < 30
    assert caught.value.kind is Code.HAFailTxnOperation
    assert caught.value.retryable
    assert caught.value.workaround


def test_a_dead_endpoint_is_skipped(etcd: EtcdServer) -> None:
    with EtcdClient([f"127.0.0.1:{free_port()}", etcd.endpoint], timeout=60) as client:
        client.put("/k", "v")
        stop = threading.Event()
        assert next(iter(client.watch_prefix("/k", 1, stop))).events[0].value == "v"
        stop.set()


def test_a_silent_endpoint_is_skipped(etcd: EtcdServer) -> None:
    other = EtcdServer()
    other.start()
    try:
        with EtcdClient([other.endpoint, etcd.endpoint], timeout=6) as client:
            client.get("/k")
            other.signal(19)  # SIGSTOP: accepts connections, never answers
            client.put("/k", "v")
        with EtcdClient([etcd.endpoint]) as direct:
            assert direct.get("/k") is not None
    finally:
        other.signal(18)
        other.cleanup()


def test_an_ambiguous_transaction_is_not_sent_twice(etcd: EtcdServer) -> None:
    with EtcdClient([etcd.endpoint], timeout=3.0) as client:
        client.put("/k", "v")
        etcd.signal(19)
        try:
            with pytest.raises(DMError) as caught:
                client.txn([], [Put("/n", "x")])
        finally:
            etcd.signal(18)
        assert caught.value.retryable
        assert "unknown" in caught.value.message
        wait_until(lambda: client.get("/k") is not None, "etcd answers again")
        stored = client.get("/n")
        assert stored is None or stored.version == 1


def test_a_closed_client_says_so(etcd: EtcdServer) -> None:
    client = EtcdClient([etcd.endpoint])
    client.put("/k", "v")
    client.close()
    with pytest.raises(DMError, match="closed"):
        client.get("/k")


# --- watches ---


def test_a_watch_sees_each_change_once_over_a_kill_of_etcd(etcd: EtcdServer, client: EtcdClient) -> None:
    revision = client.put("/w/0", "0")
    watcher = Watcher(client, "/w/", revision)
    for number in range(1, 5):
        client.put(f"/w/{number}", str(number))
    wait_until(lambda: len(watcher.events) == 5, "the watch is live")
    etcd.kill()
    etcd.start()
    for number in range(5, 10):
        client.put(f"/w/{number}", str(number))
    client.delete("/w/0")
    wait_until(lambda: len(watcher.events) >= 11, "the watch resumed")
    time.sleep(0.3)
    watcher.end()
    assert watcher.values() == [*map(str, range(10)), ""]
    assert watcher.events[-1].type == "delete"
    assert watcher.error is None


def test_a_watch_that_catches_up_on_a_long_history_loses_nothing(etcd: EtcdServer, client: EtcdClient) -> None:
    first = client.put("/w/k", "0")
    for number in range(1, 1500):
        client.put("/w/k", str(number))
    watcher = Watcher(client, "/w/", first)
    wait_until(lambda: len(watcher.events) >= 1, "the watch began")
    etcd.kill()
    etcd.start()
    wait_until(lambda: len(watcher.events) >= 1500, "the watch caught up")
    watcher.end()
    assert watcher.values() == [str(number) for number in range(1500)]


def test_a_watch_of_compacted_history_asks_for_a_new_list(client: EtcdClient) -> None:
    first = client.put("/w/k", "1")
    last = client.put("/w/k", "2")
    client.compact(last)
    with pytest.raises(CompactedError):
        next(iter(client.watch_prefix("/w/", first, threading.Event())))


def test_a_silent_watch_stops_on_request(client: EtcdClient) -> None:
    watcher = Watcher(client, "/nothing/", 0)
    time.sleep(0.3)
    watcher.end()
    assert watcher.error is None


# --- mirrors ---


class Mirrored:
    def __init__(self, client: EtcdClient, prefix: str) -> None:
        self.changes: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()
        self.errors: list[BaseException] = []
        self.mirror = PrefixMirror(client, prefix, self._changed, on_error=self.errors.append).start()

    def _changed(self, events: Sequence[WatchEvent]) -> None:
        for event in events:
            self.changes.put((event.type, event.key, event.value))

    def state(self) -> dict[str, str]:
        return {key: kv.value for key, kv in self.mirror.snapshot().items()}


def test_a_mirror_follows(client: EtcdClient) -> None:
    client.put("/m/1", "a")
    mirrored = Mirrored(client, "/m/")
    assert mirrored.mirror.wait_synced(60)
    assert mirrored.changes.get(timeout=60) == ("put", "/m/1", "a")
    client.put("/m/2", "b")
    assert mirrored.changes.get(timeout=60) == ("put", "/m/2", "b")
    client.delete("/m/1")
    assert mirrored.changes.get(timeout=60) == ("delete", "/m/1", "")
    assert mirrored.state() == {"/m/2": "b"}
    mirrored.mirror.stop()
    assert not mirrored.errors


def test_a_mirror_lists_again_after_a_compaction_while_it_was_cut_off(etcd: EtcdServer, client: EtcdClient) -> None:
    client.put("/m/gone", "1")
    client.put("/m/kept", "1")
    client.put("/m/changed", "1")
    mirrored = Mirrored(client, "/m/")
    assert mirrored.mirror.wait_synced(60)
    for _ in range(3):
        mirrored.changes.get(timeout=60)
    etcd.signal(19)  # the mirror's stream hangs; the changes below come from after its revision
    etcd.kill()
    port, etcd.port = etcd.port, free_port()
    etcd.start()  # behind another port, where the mirror cannot see it
    with EtcdClient([etcd.endpoint]) as other:
        other.delete("/m/gone")
        other.put("/m/changed", "2")
        other.compact(other.put("/m/new", "1"))
    etcd.stop()
    etcd.port = port
    etcd.start()
    seen = {mirrored.changes.get(timeout=60) for _ in range(3)}
    assert seen == {("delete", "/m/gone", ""), ("put", "/m/changed", "2"), ("put", "/m/new", "1")}
    assert mirrored.state() == {"/m/kept": "1", "/m/changed": "2", "/m/new": "1"}
    mirrored.mirror.stop()
    assert mirrored.changes.empty()
    assert not mirrored.errors


def test_a_failing_callback_is_not_silent(client: EtcdClient) -> None:
    client.put("/m/1", "a")
    errors: queue.SimpleQueue[BaseException] = queue.SimpleQueue()

    def fail(_events: Sequence[WatchEvent]) -> None:
        raise LookupError("broken")

    PrefixMirror(client, "/m/", fail, on_error=errors.put).start()
    assert isinstance(errors.get(timeout=60), LookupError)


# --- leases ---


def test_a_kept_lease_outlives_its_ttl(client: EtcdClient) -> None:
    lost = threading.Event()
    keeper = LeaseKeeper(client, 4, lost.set)
    client.put("/alive", "w", lease=keeper.start())
    time.sleep(4.5)
    assert keeper.valid()
    assert client.get("/alive") is not None
    keeper.stop()
    assert client.get("/alive") is None
    assert not lost.is_set()
    assert not keeper.valid()


def test_a_lease_is_given_up_before_etcd_would(etcd: EtcdServer, client: EtcdClient) -> None:
    lost = threading.Event()
    keeper = LeaseKeeper(client, 2, lost.set)
    client.put("/alive", "w", lease=keeper.start())
    etcd.signal(19)
    try:
        began = time.monotonic()
        assert lost.wait(60)
        # Nobody else may have the lease before: it counts as lost from then on, however late that is noticed.
        time.sleep(max(0.0, began + 2 - time.monotonic()))
        assert not keeper.valid()
    finally:
        etcd.signal(18)
    keeper.stop()


def test_a_short_outage_of_etcd_does_not_cost_the_lease(etcd: EtcdServer, client: EtcdClient) -> None:
    lost = threading.Event()
    keeper = LeaseKeeper(client, 18, lost.set)
    client.put("/alive", "w", lease=keeper.start())
    etcd.kill()
    # It is renewed when two thirds of its time are left: that fails.
    wait_until(lambda: keeper.remaining() < 11.5, "a renewal was due")
    etcd.start()
    wait_until(lambda: keeper.remaining() > 12, "it is renewed")
    assert keeper.valid()
    assert client.get("/alive") is not None
    assert not lost.is_set()
    keeper.stop()


def test_a_lease_revoked_by_somebody_else_is_noticed(client: EtcdClient) -> None:
    lost = threading.Event()
    keeper = LeaseKeeper(client, 9, lost.set)
    client.lease_revoke(keeper.start())
    assert lost.wait(8), "noticed before it would have ended by itself"
    keeper.stop()
    client.lease_revoke(keeper.lease_id)


def test_on_lost_may_stop_its_own_keeper(client: EtcdClient) -> None:
    done = threading.Event()

    def on_lost() -> None:
        keeper.stop()
        done.set()

    keeper = LeaseKeeper(client, 1, on_lost)
    client.lease_revoke(keeper.start())
    assert done.wait(60)


# --- the cluster and its users ---


def test_members_and_status(etcd: EtcdServer, client: EtcdClient) -> None:
    (member,) = client.member_list()
    assert member.name == "default"
    assert member.client_urls == (f"http://{etcd.endpoint}",)
    status = client.status()
    assert status.leader == member.id == status.member_id
    assert status.version.startswith("3.")
    assert not status.errors
