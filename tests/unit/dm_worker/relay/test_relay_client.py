"""Hazard: the relay begins or continues at the wrong position, or accepts another server's history."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm_worker.relay import relay_client
from dm_worker.relay.layout import RelayDir, RelayMeta
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.relay_client import RelayClient
from dm_worker.relay.relay_writer import BlockCounts, RelayWriter, is_disk_full
from dm_worker.relay.upstream_server import UpstreamServer
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.server_stream import ServerStream
from pkg.config.model import SourceConfig
from pkg.errors import Code, DMError
from pkg.settings.connections import DBConfig
from tests.unit.dm_worker.relay.server_files import Upstream, Work

FIRST, SECOND = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
HERE = UpstreamServer("u1", 7, Location(Position("bin.000009", 500), f"{FIRST}:1-100"))


def client(folder: Path, start: Location | None = None, **options: Any) -> RelayClient:
    source = SourceConfig("s", DBConfig(host="127.0.0.1", port=1, user="u"), flavor="mysql", **options)
    return RelayClient(source, RelayDir(folder), ReadableEnd(), 77, lambda: start, BlockCounts())


def begins(made: RelayClient) -> tuple[Location, bool]:
    return made._location(made._writer_for(HERE), HERE)


def test_an_empty_folder_begins_at_the_checkpoints_file_then_the_configured_then_the_current(tmp_path: Path) -> None:
    start = Location(Position("bin.000003", 12345), "")
    named = {"relay_binlog_name": "bin.000005"}
    assert begins(client(tmp_path / "a", start, **named)) == (Location(Position("bin.000003", 4)), False)
    assert begins(client(tmp_path / "b", None, **named)) == (Location(Position("bin.000005", 4)), False)
    assert begins(client(tmp_path / "c")) == (Location(Position("bin.000009", 4)), False)


def filled(folder: Path, size: int = 0, **options: Any) -> RelayClient:
    """A relay that pulled a file from server u1; ``size``: as if it were so long."""
    (file,) = Upstream("mysql", True, [[Work("dml", 0, (5,)), Work("ddl", 1, (5,))]]).files
    made = client(folder, **options)
    subdir = made.folder.create_subdir("u1", RelayMeta("", 4, ""))
    (subdir.path / file.name).write_bytes(file.data)
    made.recover()
    assert made.writer is not None
    if size:
        made.writer.follower.boundary = size
    return made


def test_the_same_server_is_asked_for_the_exact_position(tmp_path: Path) -> None:
    made = filled(tmp_path, enable_gtid=True)
    assert made.writer is not None
    location, use_gtid = begins_as(made, f"{FIRST}:1-100,{SECOND}:1-3")
    assert not use_gtid
    assert location.position == Position("bin.000001", made.writer.follower.boundary)
    made.drop()


def begins_as(made: RelayClient, executed: str, uuid: str = "u1") -> tuple[Location, bool]:
    server = UpstreamServer(uuid, 7, Location(Position("bin.000009", 500), executed))
    return made._location(made._writer_for(server), server)


def test_beyond_4_gib_the_file_is_asked_for_from_its_head(tmp_path: Path) -> None:
    made = filled(tmp_path, 1 << 32)
    assert begins_as(made, "")[0].position == Position("bin.000001", 4)
    made.drop()


def test_a_new_server_is_asked_by_gtid_for_what_the_old_one_did_not_send(tmp_path: Path) -> None:
    made = filled(tmp_path, enable_gtid=True)
    location, use_gtid = begins_as(made, f"{FIRST}:1-100,{SECOND}:1-3", "u2")
    assert use_gtid
    assert location.gtid_set == f"{FIRST}:1,{SECOND}:1"
    assert [subdir.name for subdir in made.folder.subdirs()] == ["u1.000001", "u2.000002"]
    # After a crash before its first file the sub-folder still knows what it follows.
    again = client(tmp_path, enable_gtid=True)
    again.recover()
    assert begins_as(again, f"{FIRST}:1-100,{SECOND}:1-3", "u2") == (location, True)


@pytest.mark.parametrize("uuid", ["u1", "u2"])
def test_a_server_that_lacks_transactions_is_refused(tmp_path: Path, uuid: str) -> None:
    """It was reset, or failed over to from a server that was ahead."""
    made = filled(tmp_path, enable_gtid=True)
    with pytest.raises(DMError, match="lacks transactions") as caught:
        begins_as(made, f"{FIRST}:1-100", uuid)
    assert caught.value.kind is Code.RelayCheckIsDuplicateEvent
    assert not caught.value.retryable
    assert len(made.folder.subdirs()) == 1
    made.drop()


def test_a_new_server_without_gtids_is_refused(tmp_path: Path) -> None:
    made = filled(tmp_path)
    with pytest.raises(DMError) as caught:
        begins_as(made, "", "u2")
    assert caught.value.kind is Code.RelaySwitchMasterNeedGTID
    made.drop()


def test_a_folder_that_cannot_be_made_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DMError, match="No space left") as caught:
        client(tmp_path / "relay")._writer_for(HERE)
    assert caught.value.kind is Code.RelayMkdir
    assert is_disk_full(caught.value)


class _Blocks:
    """A stream of which each block comes after 30 ms, a writer that takes 60 ms for it, and their clock."""

    def __init__(self, made: RelayClient, blocks: int) -> None:
        self._made, self._left = made, blocks
        self.now = 0.0
        self.follower = self
        self.flowing = True

    def read(self, _: int, __: float, take: Any) -> list[Any]:
        if self._left:
            self.now += 0.03
            take()
        else:
            self._made.end()
        self._left -= 1
        return []

    def take(self) -> None:
        self.now += 0.06
        self._made.counts.transform.add(0.04)
        self._made.counts.write.add(0.02)

    def publish(self) -> None:
        pass


def test_reading_is_measured_per_block_and_without_what_is_done_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = client(tmp_path)
    blocks = _Blocks(made, 3)
    monkeypatch.setattr(relay_client, "time", SimpleNamespace(perf_counter=lambda: blocks.now))
    made._copy(cast(ServerStream, blocks), cast(RelayWriter, blocks))
    assert made.counts.read.count == 3, "a read that nothing came of does not count"
    assert made.counts.read.total == pytest.approx(0.09)
