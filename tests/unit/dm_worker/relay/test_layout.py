"""Hazard: a crash leaves an index or a ``relay.meta`` that is incomplete or in the wrong order."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm_worker.relay import atomic_files
from dm_worker.relay.layout import INDEX, META, RelayDir, RelayMeta
from pkg.errors import Code, DMError

UUID = "7e427cc0-091c-11e9-9e45-72b7c59d52d7"


def test_sub_folders_follow_the_index_and_files_their_numbers(tmp_path: Path) -> None:
    relay = RelayDir(tmp_path / "relay")
    assert relay.current() is None
    first = relay.create_subdir(UUID, RelayMeta("", 4, ""))
    second = relay.create_subdir("0-101", RelayMeta("mysql-bin.000002", 4, "0-101-7"))
    assert [(s.name, s.suffix, s.uuid) for s in relay.subdirs()] == [
        (f"{UUID}.000001", 1, UUID),
        ("0-101.000002", 2, "0-101"),
    ]
    assert relay.current() == second
    for name in ("mysql-bin.1000000", "mysql-bin.999999", "mysql-bin.index", "my-bin.x.000003"):
        (first.path / name).touch()
    assert first.files() == ["my-bin.x.000003", "mysql-bin.999999", "mysql-bin.1000000"]
    relay.forget(first)
    assert relay.subdirs() == [second]
    assert not first.path.exists()
    # A number is never given twice.
    assert relay.create_subdir(UUID, RelayMeta("", 4, "")).suffix == 3


def test_meta_reads_what_it_wrote_and_what_dm_wrote(tmp_path: Path) -> None:
    subdir = RelayDir(tmp_path).create_subdir(UUID, RelayMeta("", 4, ""))
    meta = RelayMeta("mysql-bin.000007", 5 << 32, f"{UUID}:1-9")
    subdir.save_meta(meta)
    assert subdir.meta() == meta
    (subdir.path / META).write_text('binlog-name = "a.000001"\nbinlog-pos = 4\nbinlog-gtid = ""\nelse = 1\n')
    assert subdir.meta() == RelayMeta("a.000001", 4, "")
    (subdir.path / META).unlink()
    assert subdir.meta() is None


@pytest.mark.parametrize("text", ["", "binlog-name = ", 'binlog-name = "a"\nbinlog-pos = "x"\nbinlog-gtid = ""\n'])
def test_a_damaged_meta_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    subdir = RelayDir(tmp_path).create_subdir(UUID, RelayMeta("", 4, ""))
    (subdir.path / META).write_text(text)
    with pytest.raises(DMError, match=META) as caught:
        subdir.meta()
    assert caught.value.kind is Code.RelayLoadMetaData


@pytest.mark.parametrize(
    ("text", "code"),
    [("nodot\n", 28002), ("a.1\n", 28002), ("../a.000001\n", 28002), ("a.000002\nb.000001\n", 30002)],
)
def test_a_damaged_index_is_an_error(tmp_path: Path, text: str, code: int) -> None:
    (tmp_path / INDEX).write_text(text)
    with pytest.raises(DMError) as caught:
        RelayDir(tmp_path).subdirs()
    assert caught.value.code == code


def test_a_folder_that_no_index_names_is_recreated(tmp_path: Path) -> None:
    left = tmp_path / f"{UUID}.000001"
    left.mkdir()
    (left / "mysql-bin.000001").write_bytes(b"rest of a process that was killed")
    assert RelayDir(tmp_path).create_subdir(UUID, RelayMeta("", 4, "")).files() == []


def test_a_failed_write_leaves_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    atomic_files.replace_file(path, "old")

    def fail(_: int) -> None:
        raise OSError("disk gone")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk gone"):
        atomic_files.replace_file(path, "new")
    assert path.read_text() == "old"
