"""Relays of real servers, and the comparison of their files with the server's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.local.mysql import SQLServer
from dm_worker.relay.layout import RelayDir, SubDir
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.relay import Relay
from pkg.binlog.position import Position
from pkg.config.model import SourceConfig
from pkg.pb import dmworker_pb2 as pb

#: The flag in FORMAT_DESCRIPTION that marks a file as being written: no server sends it.
IN_USE_AT = 21


def source_of(server: SQLServer, **options: Any) -> SourceConfig:
    options.setdefault("from_", server.db_config)
    return SourceConfig(source_id="relayed", flavor=server.flavor, **options)


class RunningRelay:
    """A relay of ``server`` into ``folder``, with operations for tests."""

    _server_id = 88000

    def __init__(self, server: SQLServer, folder: Path, **options: Any) -> None:
        RunningRelay._server_id += 1
        self.server = server
        self.folder = RelayDir(folder)
        self.readable_end = ReadableEnd()
        arguments = {key: options.pop(key) for key in ("start_at", "needed") if key in options}
        source = source_of(server, **options)
        self.relay = Relay(source, folder, self.readable_end, server_id=RunningRelay._server_id, **arguments)

    def __enter__(self) -> RunningRelay:
        self.relay.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.relay.stop()

    def subdir(self) -> SubDir:
        current = self.folder.current()
        assert current is not None
        return current

    def wait(self, fulfilled: Callable[[pb.RelayStatus], bool], seconds: float = 60) -> pb.RelayStatus:
        limit = time.monotonic() + seconds
        while True:
            status = self.relay.status()
            if fulfilled(status):
                return status
            assert time.monotonic() < limit, status
            time.sleep(0.05)

    def caught_up(self) -> pb.RelayStatus:
        """Waits for the end of the server's binlog, read each time: MariaDB adds checkpoint events on its own."""
        status = self.wait(
            lambda status: status.relayBinlog == str(binlog_end(self.server)) or status.stage != pb.Running
        )
        assert status.stage == pb.Running, status
        return status


def binlog_end(server: SQLServer) -> Position:
    name, pos = server.binlog_status()[:2]
    return Position(str(name), int(pos))


def same_files(server: SQLServer, subdir: SubDir, *, first: str = "") -> list[str]:
    """Asserts that every relay file equals the server's; returns the compared ones. It ignores the flag "in use": a
    server sets it in its newest file, and a killed server leaves it there."""
    names = subdir.files()
    end = binlog_end(server)
    for name in names:
        # Read the relay's files first: events that the server adds in between are only in its own files.
        ours = (subdir.path / name).read_bytes()
        theirs = bytearray((server.data / name).read_bytes())
        theirs[IN_USE_AT] &= ~1
        if name == end.name:
            # The server may have added an event of its own after the relay had caught up.
            theirs = theirs[: len(ours)]
        assert len(ours) == len(theirs), name
        assert ours == bytes(theirs), name
    assert names[-1] == end.name
    assert not first or names[0] == first
    return names
