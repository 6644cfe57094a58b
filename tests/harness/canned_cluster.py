"""The answers of a cluster that is not there, for pages: as many tasks and tables as a test wants."""

from __future__ import annotations

from collections import Counter
from typing import Any

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

ERROR = worker_pb.ProcessError(
    ErrCode=36027,
    ErrClass="sync-unit",
    ErrScope="internal",
    ErrLevel="high",
    Message="the target refused a batch of `shop`.`orders`",
    RawCause="Error 1406 (22001): Data too long for column 'note' at row 1",
    Workaround="Make the column wider on the target, then resume the task.",
)


class CannedCluster:
    """``call`` answers as the leader; ``answers`` replaces what a method returns; ``requests`` are all requests."""

    def __init__(self) -> None:
        self.status = pb.QueryStatusListResponse(result=True)
        self.members = pb.ListMemberResponse(result=True)
        self.locks = pb.ShowDDLLocksResponse(result=True)
        self.answers: dict[str, Message] = {}
        self.requests: list[tuple[str, Any]] = []
        self.members.members.add(leader=pb.ListLeaderMember(name="master1", addr="127.0.0.1:8261"))
        master = pb.MasterInfo(name="master1", alive=True, clientURLs=["http://127.0.0.1:9261"])
        self.members.members.add(master=pb.ListMasterMember(masters=[master]))
        self._workers = self.members.members.add(worker=pb.ListWorkerMember()).worker

    def call(self, method: str, request: Message, *, forwarded: bool = False) -> Message:
        self.requests.append((method, request))
        shown: dict[str, Message] = {
            "QueryStatus": self.status,
            "ListMember": self.members,
            "ShowDDLLocks": self.locks,
        }
        if method in self.answers:
            return self.answers[method]
        if method in shown:
            return shown[method]
        output = pb.DESCRIPTOR.services_by_name["Master"].methods_by_name[method].output_type
        return GetMessageClass(output)(result=True)  # type: ignore[call-arg]

    @property
    def calls(self) -> Counter[str]:
        return Counter(method for method, _ in self.requests)

    def add_source(self, name: str, *, relay: worker_pb.RelayStatus | None = None) -> worker_pb.QueryStatusResponse:
        number = len(self.status.sources) + 1
        status = worker_pb.SourceStatus(source=name, worker=f"worker{number}", relayStatus=relay)
        if relay is not None:
            status.relayFollows = True
        self._workers.workers.add(name=f"worker{number}", addr=f"127.0.0.1:{8261 + number}", stage="bound", source=name)
        return self.status.sources.add(result=True, sourceStatus=status)


def replicating(name: str, *, lag: int = 0, rows_per_second: int = 0) -> worker_pb.SubTaskStatus:
    sync = worker_pb.SyncStatus(
        masterBinlog="(mysql-bin.000012, 48210)",
        syncerBinlog="(mysql-bin.000012, 40110)" if lag else "(mysql-bin.000012, 48210)",
        masterBinlogGtid="0-1-9912",
        syncerBinlogGtid="0-1-9900" if lag else "0-1-9912",
        synced=not lag,
        secondsBehindMaster=lag,
        bytesBehind=8100 * lag,
        eta=f"{lag}s",
        lagReason="target_slow" if lag else "source_idle",
        streamSecondsBehind=lag // 2,
        streamBytesBehind=4000 * lag,
        streamLagReason="applying" if lag else "source_idle",
        recentRps=rows_per_second,
        totalRows=18_211_904,
    )
    sums = {"main/waiting": 30.0, "main/job": 60.0, "main/checkpoint": 10.0, "reader/source": 75.0}
    sums |= {"reader/reading": 25.0, "busy": 45.0, "job": 60.0, "work/decode": 10.0, "work/write": 35.0}
    profile = worker_pb.TimeProfile(seconds=100, sums=sums)
    return worker_pb.SubTaskStatus(name=name, stage=worker_pb.Running, unit=worker_pb.Sync, sync=sync, profile=profile)


def copying(name: str) -> worker_pb.SubTaskStatus:
    dump = worker_pb.DumpStatus(
        totalTables=100_000,
        completedTables=42_350,
        finishedBytes=38_654_705_664,
        finishedRows=212_000_000,
        estimateTotalRows=500_000_000,
        bps=84_934_656,
        progress="42.40 %",
    )
    return worker_pb.SubTaskStatus(name=name, stage=worker_pb.Running, unit=worker_pb.Dump, dump=dump)


def failed(name: str) -> worker_pb.SubTaskStatus:
    subtask = replicating(name, lag=4210)
    subtask.stage = worker_pb.Paused
    subtask.result.errors.append(ERROR)
    return subtask


def paused(name: str) -> worker_pb.SubTaskStatus:
    subtask = replicating(name)
    subtask.stage = worker_pb.Paused
    subtask.result.isCanceled = True
    return subtask


def small_cluster() -> CannedCluster:
    """Four tasks on three sources: one replicates, one copies, one has failed, one is paused; a DDL lock."""
    cluster = CannedCluster()
    relay = worker_pb.RelayStatus(
        relayBinlog="(mysql-bin.000012, 48210)",
        stage=worker_pb.Running,
        secondsBehind=1,
        bytesBehind=8200,
        lagReason="reading",
    )
    for name, subtasks in (
        ("eu-shop-1", [replicating("orders", lag=2, rows_per_second=18_400), failed("invoices"), paused("audit")]),
        ("eu-shop-2", [replicating("orders", lag=5, rows_per_second=9_300)]),
        ("us-shop-1", [copying("catalogue")]),
    ):
        source = cluster.add_source(name, relay=relay if name == "eu-shop-1" else None)
        source.subTaskStatus.extend(subtasks)
    _add_purge_distances(cluster.status.sources[0].sourceStatus)
    cluster.locks.locks.add(
        ID="orders-`shop`.`orders`",
        task="orders",
        mode="pessimistic",
        owner="eu-shop-1",
        DDLs=["ALTER TABLE `shop`.`orders` ADD COLUMN `note` VARCHAR(100)"],
        synced=["eu-shop-1"],
        unsynced=["eu-shop-2"],
        phase="waiting",
        since="2026-11-26T06:10:00Z",
        waitsFor=["eu-shop-2"],
        heldRows=[pb.HeldRows(source="eu-shop-1", rows=1830)],
        unlocks=[pb.UnlockChoice(op=pb.SkipLock)],
    )
    return cluster


def _add_purge_distances(status: worker_pb.SourceStatus) -> None:
    """The relay log is safe; a task that stands still will lose a file."""
    status.purgeDistances.add(
        needed="(mysql-bin.000012, 48210)", oldest="mysql-bin.000004", bytesBefore=8_600_000_000, bytesNeeded=8_200,
        retention=604_800, secondsLeft=604_000,
    )  # fmt: skip
    status.purgeDistances.add(
        task="invoices", risk=1, needed="(mysql-bin.000005, 120)", oldest="mysql-bin.000004", bytesBefore=1_073_741_944,
        bytesNeeded=7_516_192_768, retention=604_800, secondsLeft=86_000,
        text="the upstream will purge mysql-bin.000005, which is needed, in about 24 hours: nothing is read from it",
    )  # fmt: skip


def large_cluster(tasks: int, sources: int = 50) -> CannedCluster:
    cluster = CannedCluster()
    answers = [cluster.add_source(f"source-{number:03}") for number in range(sources)]
    for number in range(tasks):
        make = failed if number % 97 == 0 else copying if number % 11 == 0 else replicating
        answers[number % sources].subTaskStatus.append(make(f"task-{number:05}"))
    return cluster


def rules(tables: int, targets: int) -> pb.ShowRulesResponse:
    """The rules of a task with many tables, which merge into fewer."""
    answer = pb.ShowRulesResponse(result=True, summary=pb.RulesSummary(tables=tables, targets=targets))
    for number in range(tables):
        answer.tables.add(
            source=f"source-{number % 4}",
            schema=f"shop_{number % 4}",
            table=f"orders_{number}",
            targetSchema="shop",
            targetTable=f"orders_{number % targets}",
            rules=[pb.AppliedRule(block="routes", name="orders", effect="goes to `shop`")],
        )
    return answer
