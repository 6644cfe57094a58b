"""Hazard: the snapshot's position is lost or misread on its way through the metadata file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm_worker.dumper.metadata import DumpMetadata, parse_metadata, read_dump_metadata, render
from pkg.binlog.position import FileIdentity, Location, Position
from pkg.errors import DMError


def test_metadata_has_dumplings_form_and_comes_back() -> None:
    here = Location(Position("mysql-bin.000003", 2_000_000_000_000), "0-1-5,1-2-3")
    text = render(DumpMetadata(here, None, "2026-01-02 03:04:05", "2026-01-02 03:05:05"))
    assert "SHOW MASTER STATUS:\n\tLog: mysql-bin.000003\n\tPos: 2000000000000\n\tGTID: 0-1-5,1-2-3\n" in text
    assert parse_metadata(text, "m").location == here
    both = DumpMetadata(here, Location(Position("mysql-bin.000004", 4)), "a", "b")
    assert parse_metadata(render(both), "m") == both


def test_metadata_names_the_file_of_the_position_after_what_others_read() -> None:
    file = FileIdentity("mysql-bin.000003", 7, 1_700_000_000)
    text = render(DumpMetadata(Location(Position("mysql-bin.000003", 4), "0-1-5", file=file), None, "a", "b"))
    assert text.endswith("Finished dump at: b\nBinlog file: 7 1700000000 mysql-bin.000003\n")
    (found,) = [parse_metadata(text, "m").location]
    assert found is not None
    assert (found.file, found.gtid_set) == (file, "0-1-5")
    other = parse_metadata(text.replace("Log: mysql-bin.000003", "Log: mysql-bin.000004"), "m").location
    assert other is not None
    assert other.file is None


def test_gtid_sets_over_several_lines_and_replica_blocks_are_read() -> None:
    text = (
        "Started dump at: x\nSHOW MASTER STATUS:\n\tLog: b.000001\n\tPos: 4\n\tGTID:aa-1:1-5,\nbb-2:1\n\n"
        "SHOW SLAVE STATUS:\n\tHost: h\n\tLog: other.000009\n\tPos: 9\nFinished dump at: y\n"
    )
    assert parse_metadata(text, "m").location == Location(Position("b.000001", 4), "aa-1:1-5,bb-2:1")


@pytest.mark.parametrize("text", ["", "Started dump at: x\nSHOW MASTER STATUS:\n\tLog: b.1\n\tPos: four\n"])
def test_malformed_metadata_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "metadata").write_text(text)
    with pytest.raises(DMError) as caught:
        read_dump_metadata(tmp_path)
    assert caught.value.code == 11001
