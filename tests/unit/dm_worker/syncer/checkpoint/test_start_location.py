"""Hazards: a shard that was dropped during the copy is not known; a moved checkpoint is taken for ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dm_worker.syncer.checkpoint.protocol import IDLE, BatchProgress, Recovery, recover
from dm_worker.syncer.checkpoint.start_location import dumped_tables
from pkg.binlog.position import Location, Position
from pkg.config.model import LoaderConfig, SubTaskConfig
from pkg.settings.connections import DBConfig

SERVER = DBConfig("h", 1)


def test_tables_of_a_dump(tmp_path: Path) -> None:
    cfg = SubTaskConfig("t", "s", "all", SERVER, SERVER, loader=LoaderConfig(dir=str(tmp_path / "dump")))
    assert dumped_tables(cfg) == set()
    folder = tmp_path / "dump.t"
    folder.mkdir()
    for name in ("d-schema-create.sql", "d.a%2Eb-schema.sql", "d.v-schema-view.sql", "d.u.000000001.sql", "metadata"):
        (folder / name).touch()
    assert dumped_tables(cfg) == {("d", "a.b")}
    assert dumped_tables(replace(cfg, task_mode="incremental")) == set()


def at(pos: int) -> Location:
    return Location(Position("bin.000001", pos))


def test_the_checkpoint_stays_while_rows_are_read_again() -> None:
    """The batch row is where the re-read is, far behind the checkpoint."""
    progress = BatchProgress(3, 1, IDLE, at(20), at(20))
    assert recover(progress, at(90), None, main=at(90)) == Recovery(at(20))
    assert recover(progress, at(91), None, main=at(90)) == Recovery(at(91), safe=True)
    assert recover(progress, at(90), None) == Recovery(at(90), safe=True)
