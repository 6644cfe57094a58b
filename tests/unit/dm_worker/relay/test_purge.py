"""Hazard: a purge removes a file that is still needed, leaves a gap, or removes too much."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.process import wait_until
from dm_worker.relay.layout import RelayDir, RelayMeta, SubDir
from dm_worker.relay.purge import NeededFile, Purger, RelayFile, before, expired, in_excess, removable
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.relay import Relay
from pkg.config.model import PurgeConfig, SourceConfig
from pkg.errors import Code, DMError
from pkg.settings.connections import DBConfig

FILES = [
    RelayFile(f"s.{sub:06d}", f"bin.{file:06d}", 100, 1000.0 * sub + file) for sub in (1, 2) for file in (8, 9, 10)
]
numbers = st.integers(0, len(FILES) - 1)


@given(st.lists(numbers, min_size=1))
def test_everything_before_the_earliest_need_may_go_and_nothing_else(needed: list[int]) -> None:
    places = [NeededFile(FILES[number].subdir, FILES[number].file) for number in needed]
    assert removable(FILES, places) == FILES[: min(needed)]


def test_unknown_needs_keep_everything() -> None:
    assert removable(FILES, []) == []
    assert removable(FILES, [NeededFile("gone.000009", "bin.000001"), NeededFile(*FILES[-1][:2])]) == []


def test_a_need_that_is_not_written_yet_keeps_its_order() -> None:
    assert removable(FILES, [NeededFile("s.000002", "bin.000011")]) == FILES


@given(numbers, st.integers(0, 3000))
def test_age_takes_a_run_at_the_front(count: int, now: int) -> None:
    found = expired(FILES[:count], now, 1 / 3600)
    assert found == FILES[: len(found)]
    assert all(file.modified < now - 1 for file in found)
    assert len(found) == count or FILES[len(found)].modified >= now - 1
    assert expired(FILES, 1e12, 0) == []


@given(numbers, st.integers(0, 2000), st.integers(0, 2000))
def test_space_takes_no_more_than_it_must(count: int, available: int, remain: int) -> None:
    found = in_excess(FILES[:count], available, remain)
    assert found == FILES[: len(found)]
    assert len(found) == count or available + 100 * len(found) >= remain
    assert not found or available + 100 * (len(found) - 1) < remain


def test_a_file_is_found_with_and_without_its_sub_folder() -> None:
    assert before(FILES, "s.000001", "bin.000009") == (FILES[:1], True)
    assert before(FILES, "", "bin.000009") == (FILES[:4], True)


@pytest.mark.parametrize(
    ("subdir", "file", "count"),
    [
        ("", "bin.000077", 6),
        ("", "bin.000007", 3),
        ("s.000001", "bin.000077", 3),
        ("s.000001", "bin.000001", 0),
    ],
)
def test_the_number_shows_the_position_of_a_missing_file(subdir: str, file: str, count: int) -> None:
    assert before(FILES, subdir, file) == (FILES[:count], False)


def test_a_file_missing_between_others_keeps_its_position() -> None:
    assert before([*FILES[:4], FILES[5]], "s.000002", "bin.000009") == (FILES[:4], False)


@pytest.mark.parametrize(
    ("subdir", "file"), [("s.000003", "bin.000009"), ("", "log.000009"), ("", "bin.x"), ("", "bin"), ("", "../bin")]
)
def test_a_name_without_a_place_is_refused(subdir: str, file: str) -> None:
    for files in (FILES, []):
        with pytest.raises(DMError) as caught:
            before(files, subdir, file)
        assert caught.value.kind is Code.RelayPurgeArgsNotValid


class Disk:
    """A relay folder of two sub-folders with three files each, ten bytes and an hour apart."""

    def __init__(self, path: Path) -> None:
        self.folder = RelayDir(path)
        self.needed: list[NeededFile] = []
        self.space = 0
        self.purger = Purger(self.folder, lambda: self.needed, space=lambda: self.space, now=lambda: 36000.0)
        for sub in (0, 1):
            subdir = self.folder.create_subdir("s", RelayMeta("", 4, ""))
            for number in (8, 9, 10):
                file = subdir.path / f"bin.{number:06d}"
                file.write_bytes(bytes(10))
                written = 3600.0 * (3 * sub + number - 8)
                os.utime(file, (written, written))

    def left(self) -> list[str]:
        return [f"{subdir.suffix}/{name[-2:]}" for subdir in self.folder.subdirs() for name in subdir.files()]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_a_file_is_named_and_what_lies_before_it_goes(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    disk.needed = [NeededFile("s.000002", "bin.000009")]
    with caplog.at_level("INFO"):
        assert disk.purger.up_to("bin.000008", "s.000002") == 3
    assert "will try purge whole relay dir" in caplog.text, "scripts look for it"
    assert disk.left() == ["2/08", "2/09", "2/10"]
    # A folder without files goes too.
    assert [subdir.name for subdir in disk.folder.subdirs()] == ["s.000002"]
    assert not (disk.folder.path / "s.000001").exists()


def test_a_purge_beyond_what_is_needed_is_refused_whole(disk: Disk) -> None:
    disk.needed = [NeededFile("s.000002", "bin.000010"), NeededFile("s.000001", "bin.000009")]
    with pytest.raises(DMError, match=r"s\.000001/bin\.000009.*still needed") as caught:
        disk.purger.up_to("bin.000009", "s.000002")
    assert caught.value.kind is Code.RelayPurgeArgsNotValid
    assert len(disk.left()) == 6


def test_a_file_that_is_not_there_purges_what_nothing_needs(disk: Disk) -> None:
    """DM answers so, and scripts name the upstream's file, which the relay may not have fetched yet."""
    disk.needed = [NeededFile("s.000002", "bin.000009")]
    assert disk.purger.up_to("bin.000011") == 4
    assert disk.left() == ["2/09", "2/10"]
    disk.needed = []
    assert disk.purger.up_to("bin.000012") == 0, "what is needed is not known"


def test_space_first_then_age(disk: Disk) -> None:
    disk.needed = [NeededFile("s.000002", "bin.000010")]
    disk.space = (1 << 30) - 15
    # Two files for the space; of the others those older than 7 of the 10 hours.
    assert disk.purger.regularly(expires=7, remain_space=1) == 3
    assert disk.left() == ["2/08", "2/09", "2/10"]
    disk.space = 0
    assert disk.purger.regularly(expires=0, remain_space=1) == 2
    assert disk.left() == ["2/10"]


def test_older_than_a_moment_and_everything_unneeded(disk: Disk) -> None:
    disk.needed = [NeededFile("s.000002", "bin.000009")]
    assert disk.purger.older_than(3601.0) == 2
    assert disk.left() == ["1/10", "2/08", "2/09", "2/10"]
    assert disk.purger.unneeded() == 2
    assert disk.left() == ["2/09", "2/10"]


def _no_disk() -> int:
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize(
    "purge",
    [
        lambda purger: purger.regularly(expires=1, remain_space=1),
        lambda purger: purger.up_to("bin.000010", "s.000002"),
        lambda purger: purger.older_than(9e9),
        lambda purger: purger.unneeded(),
    ],
)
def test_a_disk_that_fails_is_an_error_that_operators_see(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, purge: Callable[[Purger], int]
) -> None:
    """Of whatever a purge asks the disk, not of removing alone."""
    disk.needed = [NeededFile("s.000002", "bin.000010")]
    monkeypatch.setattr(SubDir, "files", lambda _: _no_disk())
    with pytest.raises(DMError, match="Input/output error") as caught:
        purge(disk.purger)
    assert caught.value.kind is Code.RelayRemoveFileFail
    assert str(disk.folder.path) in caught.value.message


@pytest.mark.parametrize("failure", [OSError(5, "Input/output error"), ZeroDivisionError("a bug")])
def test_the_regular_purge_goes_on_after_any_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    """Its thread ended at a failure of the disk, and the relay log grew until the disk was full."""
    turns: list[int] = []

    def regularly(*_: object, **__: object) -> int:
        turns.append(1)
        if len(turns) == 1:
            raise failure
        return 0

    monkeypatch.setattr(Purger, "regularly", regularly)
    config = DBConfig(host="127.0.0.1", port=1, user="root")
    source = SourceConfig("s1", config, flavor="mariadb", purge=PurgeConfig(interval=0.01))  # type: ignore[arg-type]
    relay = Relay(source, tmp_path, ReadableEnd(), server_id=1)
    relay.start()
    try:
        wait_until(lambda: len(turns) > 2, "the purge goes on")
    finally:
        relay.stop()
