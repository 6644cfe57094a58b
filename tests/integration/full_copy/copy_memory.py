"""Dumps and loads a table by the tasks' own code, without Spark: ``copy_memory.py <port> <folder>``.

Prints how far the peak of resident memory rose, in MiB, for the dump and for dump and load together.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dm_worker.dumper.dump_task import DumpSpec, DumpTask
from dm_worker.dumper.file_names import parse
from dm_worker.dumper.options import parse_options
from dm_worker.loader.bulk_rows import TargetTables
from dm_worker.loader.load_task import FileLoader, FileSpec, LoadSpec
from dm_worker.meta.load_progress import begin_load, progress_table
from dm_worker.table_reads.chunks import list_tables, plan_chunks
from dm_worker.table_reads.session import open_session
from dm_worker.table_reads.snapshot import SnapshotRendezvous
from pkg.config.model import SubTaskConfig
from pkg.mysql.connection import connect
from pkg.rules.model import BlockAllowList
from pkg.settings.connections import DBConfig


def main() -> None:
    server, folder = DBConfig("127.0.0.1", int(sys.argv[1]), "root"), Path(sys.argv[2])
    cfg = SubTaskConfig("memory", "source", "full", server, server, block_allow_list=BlockAllowList(do_dbs=("big",)))
    conn = open_session(server)
    options = parse_options(cfg)
    stats = list_tables(conn, options.filter.allows)
    tables = tuple((stat.schema, stat.table) for stat in stats)
    meeting = SnapshotRendezvous("memory", 1, "flush", "mariadb", tables)
    chunks = plan_chunks(conn, stats, tasks=options.threads, most_bytes=options.chunk_filesize, rows=options.rows)
    spec = DumpSpec(server, options, meeting, tuple(chunks), str(folder))
    before = _peak()
    report = DumpTask(spec, 0).run()
    assert report.error is None, report.error
    dumped = _peak()
    files = {name: size for name, size in report.sizes.items() if (parsed := parse(name)) and parsed.kind == "data"}
    target = connect(server, scope="downstream")
    epoch = begin_load(target, cfg, "dump", files, None, None)
    load = LoadSpec(
        server, {"foreign_key_checks": "0"}, progress_table(cfg), "source", epoch, "", str(folder), 8 << 20, 9
    )
    for name, size in files.items():
        FileLoader(load, FileSpec(name, size, "big", "b", "copy", "b"), TargetTables()).run()
    print(dumped - before, _peak() - before)


def _peak() -> int:
    # Not getrusage: its figure may be that of the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


if __name__ == "__main__":
    main()
