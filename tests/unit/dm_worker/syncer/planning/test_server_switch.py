"""Hazard: after a reset or failover of the upstream, a checkpoint means other transactions than the applied ones."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from dm_worker.syncer.planning.gtid_tracker import ExecutedGtids
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.planning.server_switch import UpstreamBinlog, ensure_same_history
from pkg.binlog import constants as c
from pkg.binlog.events import Event
from pkg.binlog.position import FileIdentity, Location, Position, stored_identity
from pkg.errors import Code, DMError
from tests.unit.dm_worker.syncer.planning.support import SOURCE, Log, by_server

FILE = FileIdentity("b.000003", 7, 1000)
AFTER_RESET = replace(FILE, created=1001)
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
FILES = ["b.000002", "b.000003", "b.000004"]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (UpstreamBinlog(7, FILES, f"{UUID}:1-9", FILE), ""),
        (UpstreamBinlog(7, FILES, f"{UUID}:1-9", AFTER_RESET), "created at 1001"),
        # The file was purged, or the server's log-bin was changed.
        (UpstreamBinlog(7, ["b.000004"], f"{UUID}:1-9", None), ""),
        (UpstreamBinlog(7, ["other.000001"], f"{UUID}:1-9", None), ""),
        (UpstreamBinlog(7, ["b.000001"], f"{UUID}:1-9", None), "it has b.000001"),
        # Another server has files of its own.
        (UpstreamBinlog(8, FILES, f"{UUID}:1-9", AFTER_RESET), ""),
        (UpstreamBinlog(8, ["b.000001"], f"{UUID}:1-5,{OTHER}:1", None), ""),
        (UpstreamBinlog(8, ["b.000001"], f"{UUID}:1-4", None), f"has not executed {UUID}:5"),
        # GTIDs that the task began with may be of a source that the upstream never knew.
        (UpstreamBinlog(8, ["b.000001"], f"{OTHER}:1-4", None), ""),
    ],
)
def test_history_of_mysql(found: UpstreamBinlog, says: str) -> None:
    checkpoint = Location(Position(FILE.name, 400), f"{UUID}:1-5", file=FILE)
    with pytest.raises(DMError, match=says) if says else nullcontext() as caught:
        ensure_same_history(checkpoint, found, "mysql")
    if caught is not None:
        assert caught.value.kind is Code.SyncerGetEvent
        # A server that is behind may get what it lacks.
        assert caught.value.retryable == (found.server_id == 8)


@pytest.mark.parametrize(
    ("server_id", "executed", "says"),
    [(8, "0-7-5", ""), (8, "0-8-9,1-8-1", ""), (8, "0-7-4", "has not executed 0-7-5"), (7, "0-7-4", "it has b.000001")],
)
def test_history_of_mariadb(server_id: int, executed: str, says: str) -> None:
    checkpoint = Location(Position(FILE.name, 400), "0-7-5", file=FILE)
    with pytest.raises(DMError, match=says) if says else nullcontext():
        ensure_same_history(checkpoint, UpstreamBinlog(server_id, ["b.000001"], executed, None), "mariadb")


def test_a_checkpoint_without_identity_is_not_compared() -> None:
    ensure_same_history(Location(Position(FILE.name, 400), "0-7-5"), UpstreamBinlog(7, [], "", None), "mariadb")


@pytest.mark.parametrize("name", ["b.000003", "with blank.000003"])
def test_an_identity_is_stored_and_counts_for_its_file_alone(name: str) -> None:
    identity = replace(FILE, name=name)
    assert stored_identity(identity.stored(), name) == identity
    # The version before moved the checkpoint and left the text.
    assert stored_identity(identity.stored(), "b.000004") is None
    assert stored_identity("", "") is None


def description(created: int, server_id: int = 7) -> Event:
    """As a server sends it at the start of a stream inside a file."""
    return Event(created, c.FORMAT_DESCRIPTION_EVENT, server_id, 100, 0, 0, b"")


def rotate(name: str) -> Event:
    data = bytes(19) + (4).to_bytes(8, "little") + name.encode()
    return Event(0, c.ROTATE_EVENT, 7, len(data), 0, c.FLAG_ARTIFICIAL, data)


def test_a_stream_must_be_in_the_checkpoint_s_file() -> None:
    start = Location(Position(FILE.name, 400), file=FILE)
    Planner(start).feed([rotate(FILE.name), description(1000)])
    for created, server_id in ((1001, 7), (1000, 8)):
        with pytest.raises(DMError, match="another binlog"):
            Planner(start).feed([rotate(FILE.name), description(created, server_id)])


def test_a_stream_that_is_opened_again_must_be_in_the_file_that_was_read() -> None:
    planner = Planner(Location(Position(FILE.name, 400)))
    planner.feed([rotate(FILE.name), description(1000), rotate("b.000004"), description(1100)])
    assert planner.progress.location.file == FileIdentity("b.000004", 7, 1100)
    planner.reopened()
    planner.feed([rotate("b.000004"), description(1100)])
    planner.reopened()
    with pytest.raises(DMError, match="another binlog"):
        planner.feed([rotate("b.000004"), description(1200)])


@pytest.mark.parametrize("known", [FileIdentity("bin.000001", 7, 1000), None])
def test_statements_of_another_server_have_its_positions(known: FileIdentity | None) -> None:
    """Its file has the name of the one before and is shorter. Statements with one position count as one."""
    log = Log()
    for number in (2, 3):
        log.mysql_gtid(number)
        log.query(b"ALTER TABLE t ADD COLUMN c%d INT" % number)
    before = Location(Position("bin.000001", 100_000), f"{SOURCE}:1", file=known)
    planner = Planner(before, gtids=ExecutedGtids("mysql", before.gtid_set), by_gtid=True)
    events = [rotate("bin.000001"), *by_server(log, 8)]
    found = []
    while events:
        del events[: planner.feed(events)]
        found += [one.position for one in planner.take_instructions() if isinstance(one, BinlogStatement)]
    assert found == [Position("bin.000001", end) for end in log.ends[1::2]]


def test_a_stream_by_gtid_of_the_same_file_keeps_the_offset_beyond_4_gib() -> None:
    offset = (1 << 32) + 400
    before = Location(Position(FILE.name, offset), f"{SOURCE}:1", file=FILE)
    planner = Planner(before, gtids=ExecutedGtids("mysql", before.gtid_set), by_gtid=True)
    planner.feed([rotate(FILE.name), description(1000)])
    assert planner.progress.location.position == before.position


def test_the_file_of_a_checkpoint_that_names_none_is_noted_without_a_change_of_the_upstream() -> None:
    planner = Planner(Location(Position(FILE.name, 400)))
    assert not planner.progress.has_pending
    planner.feed([rotate(FILE.name), description(1000)])
    planner.close()
    (advance,) = planner.take_instructions()
    assert advance.location == Location(Position(FILE.name, 400))  # type: ignore[union-attr]
    assert advance.location.file == FILE  # type: ignore[union-attr]
    assert not planner.progress.has_pending
