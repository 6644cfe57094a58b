"""The cost of images that hold some columns: OLTP catch-up with MariaDB's ``FULL_NODUP`` beside full images, in turns.

``MINIMAL`` and ``NOBLOB`` leave out what a row needs to be written as a whole; a task refuses them, as DM does.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from deploy.local.mysql import MariaDBServer
from tests.bench.figures import Cost, Figure
from tests.bench.rig import Copies, Rig, copy_tables
from tests.bench.workloads import all_workloads

#: The first version that can write such images is 11.4.
_VERSION = "11.8"
_IMAGES = ("FULL", "FULL_NODUP")
#: CPU of a row change, by that with full images, that is allowed.
MOST_CPU = 1.3


def run(rig: Rig) -> None:
    rig.warm_up()
    rig.durability(True)
    workload = all_workloads()["oltp"]
    with _upstream(rig) as full, _upstream(rig) as partial:
        rigs = dict(zip(_IMAGES, (full, partial), strict=True))
        starts = {}
        for images, one in rigs.items():
            starts[images] = one.fresh_source(workload, one.rows)
        copy_tables(full.source, rig.target)
        kept = Copies(rig.target, workload.tables)
        for images, one in rigs.items():
            one.source.execute(f"SET GLOBAL binlog_row_image = {images}")
            changes = workload.write(one.source, one.rows, one.changes)
        title = "OLTP, partial images"
        print(f"\n{title}: {changes:,} row changes", flush=True)
        turns: dict[str, list[Cost]] = {images: [] for images in _IMAGES}
        for _ in range(rig.runs):
            for images, one in rigs.items():
                kept.restore()
                turns[images].append(one.sync(starts[images]))
                one.check(workload.tables, f"{title}, {images}")
    for images, found in turns.items():
        rig.report.turns(title, images, found, changes)
    full_cpu, partial_cpu = (statistics.median(one.total for one in turns[images]) for images in _IMAGES)
    rig.report.add(Figure("T21", f"{title}: all CPU", "full images", partial_cpu / full_cpu, "x", MOST_CPU, True))


@contextmanager
def _upstream(rig: Rig) -> Iterator[Rig]:
    """The same rig with an upstream of its own."""
    source = MariaDBServer(version=_VERSION, gtid=True)
    source.start()
    try:
        yield replace(rig, source=source)
    finally:
        source.cleanup()
