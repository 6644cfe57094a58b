"""A relay log of several servers, written without a relay."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from dm_worker.relay.layout import RelayDir, RelayMeta, SubDir
from dm_worker.relay.readable_end import ReadableEnd
from pkg.binlog import constants as c
from pkg.binlog.gtid import MySQLGTIDSet
from tests.harness import binlog_bytes

UUIDS = ["11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"]


def binlog_file(before: str, gtids: list[str]) -> bytes:
    """A MySQL file whose transactions are one XID each."""
    content = c.MAGIC

    def add(kind: int, body: bytes) -> None:
        nonlocal content
        content += binlog_bytes.raw(kind, body, checksum=True, log_pos=len(content) + 19 + len(body) + 4)

    head = struct.pack("<H50sIB", 4, b"5.7.44-log", 0, 19) + bytes(40) + b"\x01"
    add(c.FORMAT_DESCRIPTION_EVENT, head)
    add(c.PREVIOUS_GTIDS_EVENT, MySQLGTIDSet(before).encode())
    for gtid in gtids:
        uuid, _, number = gtid.partition(":")
        add(c.GTID_EVENT, b"\x01" + bytes.fromhex(uuid.replace("-", "")) + struct.pack("<Q", int(number)))
        add(c.XID_EVENT, struct.pack("<Q", int(number)))
    return content


@dataclass
class Log:
    """What a relay wrote: ``gtids`` in their order."""

    relay: RelayDir
    readable_end: ReadableEnd
    gtids: list[str]
    subdirs: list[SubDir]


def write_log(root: Path, servers: list[list[int]]) -> Log:
    """One sub-folder per server, one file per number of transactions."""
    log = Log(RelayDir(root), ReadableEnd(), [], [])
    executed = MySQLGTIDSet()
    for server, files in enumerate(servers):
        subdir = log.relay.create_subdir(UUIDS[server % 2], RelayMeta("", 4, str(executed)))
        log.subdirs.append(subdir)
        for number, count in enumerate(files, 1):
            new = [f"{UUIDS[server % 2]}:{len(log.gtids) + 1 + i}" for i in range(count)]
            content = binlog_file(str(executed), new)
            (subdir.path / f"bin.{number:06d}").write_bytes(content)
            for gtid in new:
                executed.add(gtid)
            log.gtids += new
            subdir.save_meta(RelayMeta(f"bin.{number:06d}", len(content), str(executed)))
            log.readable_end.moved(subdir.name, f"bin.{number:06d}", len(content))
    return log
