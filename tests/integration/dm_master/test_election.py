"""Leadership on a real etcd: one leader at a time, and no write by a former one."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deploy.local.process import HarnessError, wait_until
from dm_master.election.campaign import Election, LeaderKey
from pkg.etcd import EtcdClient, Put
from pkg.ha.keys import LEADER_PREFIX
from pkg.ha.records import LeaderInfo
from tests.harness.etcd import EtcdServer

#: Seconds that a lease lives whose end a test waits for.
TTL = 2
#: And of one that must not end by itself, on a busy machine too.
LONG = 60


class Candidate:
    def __init__(
        self,
        etcd: EtcdServer,
        name: str,
        *,
        on_elected: Callable[[LeaderKey], None] | None = None,
        ttl: int = LONG,
        timeout: float = 5.0,
    ) -> None:
        self.name = name
        self.client = EtcdClient([etcd.endpoint], timeout=timeout)
        self.history: list[str] = []
        self.terms: list[LeaderKey] = []
        self._extra = on_elected
        self.election = Election(
            self.client, LeaderInfo(name, f"{name}:8261"), on_elected=self._elected, on_lost=self._lost, ttl=ttl
        )
        self.election.start()

    def _elected(self, term: LeaderKey) -> None:
        self.history.append("elected")
        self.terms.append(term)
        if self._extra:
            self._extra(term)

    def _lost(self) -> None:
        self.history.append("lost")

    @property
    def leads(self) -> bool:
        return self.election.term() is not None

    def close(self) -> None:
        self.election.stop()
        self.client.close()


@pytest.fixture
def stand(etcd: EtcdServer) -> Iterator[Callable[..., Candidate]]:
    made: list[Candidate] = []

    def make(name: str, **options: Any) -> Candidate:
        made.append(Candidate(etcd, name, **options))
        return made[-1]

    yield make
    for candidate in made:
        candidate.close()


def led_by(candidate: Candidate, seconds: float = LONG / 2) -> None:
    wait_until(lambda: candidate.leads, f"{candidate.name} leads", seconds)


def test_the_first_candidate_leads_and_the_others_know_it(stand: Callable[..., Candidate]) -> None:
    first = stand("m1")
    led_by(first)
    second = stand("m2")
    wait_until(lambda: second.election.leader() == LeaderInfo("m1", "m1:8261"), "m2 knows the leader")
    assert not second.leads


def test_a_stopped_leader_is_followed_at_once(stand: Callable[..., Candidate]) -> None:
    first = stand("m1")
    led_by(first)
    second = stand("m2")
    wait_until(lambda: second.election.leader() is not None, "m2 watches")
    first.election.stop()
    # Long before its lease would end by itself.
    led_by(second)
    assert first.history == ["elected", "lost"]
    assert second.terms[0].create_revision > first.terms[0].create_revision


def test_a_resigned_leader_waits_behind_the_others(stand: Callable[..., Candidate]) -> None:
    first = stand("m1")
    led_by(first)
    second = stand("m2")
    wait_until(lambda: len(second.client.get_prefix(LEADER_PREFIX)[0]) == 2, "m2 stands")
    first.election.resign()
    led_by(second)
    wait_until(lambda: len(second.client.get_prefix(LEADER_PREFIX)[0]) == 2, "m1 stands again")
    assert not first.leads


def test_an_evicted_leader_leads_again_only_when_allowed(stand: Callable[..., Candidate]) -> None:
    only = stand("m1")
    led_by(only)
    only.election.evict()
    wait_until(lambda: only.election.leader() is None, "nobody leads")
    assert not only.client.get_prefix(LEADER_PREFIX)[0]
    assert not only.leads
    only.election.cancel_evict()
    led_by(only)
    assert only.history == ["elected", "lost", "elected"]


def test_a_former_leader_cannot_write(etcd: EtcdServer, stand: Callable[..., Candidate]) -> None:
    with EtcdClient([etcd.endpoint]) as paused:
        lease = paused.lease_grant(LONG)
        key = LEADER_PREFIX + "paused"
        revision = paused.put(key, LeaderInfo("m0", "m0:8261").to_json(), lease=lease)
        old_term = LeaderKey(key, revision)
        assert paused.txn([old_term.compare], [Put("/state", "by m0")]).succeeded
        # As etcd does itself when a process was paused for longer than its lease.
        paused.lease_revoke(lease)
        successor = stand("m1")
        led_by(successor)
        assert not paused.txn([old_term.compare], [Put("/state", "by m0 again")]).succeeded
        assert successor.client.txn([successor.terms[0].compare], [Put("/state", "by m1")]).succeeded
        # A new key of the same name must not revive the old term either.
        paused.put(key, LeaderInfo("m0", "m0:8261").to_json())
        assert not paused.txn([old_term.compare], [Put("/state", "by m0 again")]).succeeded
        stored = paused.get("/state")
        assert stored is not None
        assert stored.value == "by m1"


PAUSABLE = """
import sys
from dm_master.election.campaign import Election
from pkg.etcd import EtcdClient, Put
from pkg.ha.records import LeaderInfo

client = EtcdClient([sys.argv[1]])
terms = []
election = Election(
    client,
    LeaderInfo("m1", "m1:8261"),
    on_elected=lambda term: (terms.append(term), print("elected", flush=True)),
    on_lost=lambda: print("lost", flush=True),
    ttl=int(sys.argv[2]),
)
election.start()
for _ in sys.stdin:
    print("wrote" if client.txn([terms[0].compare], [Put("/state", "by m1")]).succeeded else "refused", flush=True)
"""


def test_a_leader_that_wakes_from_a_long_pause_cannot_write(etcd: EtcdServer, stand: Callable[..., Candidate]) -> None:
    command = [sys.executable, "-c", PAUSABLE, etcd.endpoint, str(TTL)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert process.stdin is not None
    assert process.stdout is not None

    def write() -> None:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()

    try:
        assert process.stdout.readline() == "elected\n"
        write()
        assert process.stdout.readline() == "wrote\n"
        process.send_signal(signal.SIGSTOP)
        successor = stand("m2")
        led_by(successor)
        assert successor.client.txn([successor.terms[0].compare], [Put("/state", "by m2")]).succeeded
        write()
        process.send_signal(signal.SIGCONT)
        assert {process.stdout.readline(), process.stdout.readline()} == {"lost\n", "refused\n"}
        stored = successor.client.get("/state")
        assert stored is not None
        assert stored.value == "by m2"
    finally:
        process.kill()
        process.wait()


def test_a_leader_without_etcd_steps_down_within_its_lease(etcd: EtcdServer, stand: Callable[..., Candidate]) -> None:
    # A call to etcd would be tried for much longer than the lease lives.
    only = stand("m1", ttl=TTL, timeout=600)
    led_by(only)
    terms = len(only.terms)
    etcd.kill()
    wait_until(lambda: not only.leads, "m1 steps down")
    assert only.history == ["elected", "lost"] * terms
    etcd.start()
    led_by(only)


def test_a_leader_whose_key_is_deleted_steps_down_and_stands_again(stand: Callable[..., Candidate]) -> None:
    only = stand("m1")
    led_by(only)
    only.client.delete_prefix(LEADER_PREFIX)
    wait_until(lambda: only.history[:2] == ["elected", "lost"], "m1 steps down")
    led_by(only)
    assert only.history == ["elected", "lost", "elected"]


def test_a_leader_that_cannot_begin_gives_way(stand: Callable[..., Candidate]) -> None:
    def fail(_term: LeaderKey) -> None:
        raise LookupError("state cannot be loaded")

    first = stand("m1", on_elected=fail)
    wait_until(lambda: "lost" in first.history, "m1 gives up")
    second = stand("m2")
    led_by(second)


def test_a_restarted_master_does_not_wait_for_its_former_lease(
    etcd: EtcdServer, stand: Callable[..., Candidate]
) -> None:
    with EtcdClient([etcd.endpoint]) as killed:
        lease = killed.lease_grant(600)
        killed.put(f"{LEADER_PREFIX}{lease:x}", LeaderInfo("m1", "m1:8261").to_json(), lease=lease)
    led_by(stand("m1"))


def test_another_masters_lease_is_respected(etcd: EtcdServer, stand: Callable[..., Candidate]) -> None:
    with EtcdClient([etcd.endpoint]) as other:
        lease = other.lease_grant(600)
        other.put(f"{LEADER_PREFIX}{lease:x}", LeaderInfo("m0", "m0:8261").to_json(), lease=lease)
        waiting = stand("m1")
        wait_until(lambda: len(other.get_prefix(LEADER_PREFIX)[0]) == 2, "m1 stands")
        with pytest.raises(HarnessError):
            led_by(waiting, TTL)
        other.lease_revoke(lease)
        led_by(waiting)


def test_there_is_never_more_than_one_leader(stand: Callable[..., Candidate]) -> None:
    candidates = [stand(f"m{number}") for number in range(3)]
    overlaps: list[set[LeaderKey]] = []
    done = threading.Event()

    def terms() -> set[LeaderKey]:
        return {term for candidate in candidates if (term := candidate.election.term())}

    def observe() -> None:
        while not done.is_set():
            # Terms found in both looks were all held between them, at one moment.
            held = terms() & terms()
            if len(held) > 1:
                overlaps.append(held)

    observer = threading.Thread(target=observe)
    observer.start()
    try:
        for _ in range(4):
            wait_until(lambda: any(candidate.leads for candidate in candidates), "somebody leads")
            leader = next(candidate for candidate in candidates if candidate.leads)
            over = leader.history.count("lost") + 1
            leader.election.resign()
            wait_until(lambda who=leader, times=over: who.history.count("lost") == times, "the term ends")  # type: ignore[misc]
    finally:
        done.set()
        observer.join()
    assert not overlaps
    assert sum(candidate.history.count("elected") for candidate in candidates) >= 4
