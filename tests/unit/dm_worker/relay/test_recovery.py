"""Hazard: after a crash the relay keeps less than it could, or more than is complete."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.relay.layout import META, RelayDir, RelayMeta, SubDir
from dm_worker.relay.recovery import examine, recover
from pkg.binlog.gtid import parse_gtid_set
from tests.sweeps import examples
from tests.unit.dm_worker.relay.server_files import Built, Upstream, Work, files_of_works

FORMS = pytest.mark.parametrize(("flavor", "placeless"), [("mysql", False), ("mariadb", False), ("mariadb", True)])
LAST = [Work("dml", 0, (10,)), Work("xa", 0, (5,)), Work("ddl", 1, (1,)), Work("plain", 0, (20, 3))]


def kept(file: Built, size: int) -> tuple[int, str]:
    """The last boundary within ``size`` bytes, and what was executed there; FORMAT_DESCRIPTION alone is none."""
    return max((boundary for boundary in file.boundaries[1:] if boundary[0] <= size), default=(0, ""))


@pytest.fixture
def subdir(tmp_path: Path) -> SubDir:
    return RelayDir(tmp_path).create_subdir("uuid", RelayMeta("", 4, ""))


def store(subdir: SubDir, files: list[Built]) -> None:
    for file in files:
        (subdir.path / file.name).write_bytes(file.data)


@FORMS
@pytest.mark.parametrize("checksum", [True, False])
def test_a_file_torn_at_any_byte_ends_with_its_last_whole_transaction(
    subdir: SubDir, flavor: str, placeless: bool, checksum: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thousand times would take long on a slow disk.
    monkeypatch.setattr("os.fsync", lambda _: None)
    (file,) = Upstream(flavor, checksum, [LAST], placeless=placeless).files
    path = subdir.path / file.name
    for size in range(len(file.data) + 1):
        path.write_bytes(file.data[:size])
        follower = recover(subdir, flavor=flavor)
        boundary, executed = kept(file, size)
        assert (follower.boundary, str(follower.gtids)) == (boundary, executed)
        if boundary:
            assert path.read_bytes() == file.data[:boundary]
        else:
            assert not path.exists()


@FORMS
def test_a_flipped_bit_anywhere_cuts_in_front_of_it(tmp_path: Path, flavor: str, placeless: bool) -> None:
    (file,) = Upstream(flavor, True, [LAST], placeless=placeless).files
    path = tmp_path / file.name
    for at in range(len(file.data)):
        damaged = bytearray(file.data)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        follower, why = examine(path, flavor)
        expected = kept(file, at)
        assert ((follower.boundary, str(follower.gtids)) if follower.begun else (0, "")) == expected
        assert why


@FORMS
def test_without_checksums_damaged_headers_are_still_seen(tmp_path: Path, flavor: str, placeless: bool) -> None:
    (file,) = Upstream(flavor, False, [LAST], placeless=placeless).files
    path = tmp_path / file.name
    for start in file.starts()[1:]:
        # Size and end of the event.
        for at in range(start + 9, start + 17):
            damaged = bytearray(file.data)
            damaged[at] ^= 1 << at % 8
            path.write_bytes(damaged)
            follower, why = examine(path, flavor)
            assert (follower.boundary if follower.begun else 0) == kept(file, start)[0]
            assert why


@settings(max_examples=examples(40))
@given(
    *(st.sampled_from(["mysql", "mariadb"]), st.booleans(), st.booleans()),
    *(files_of_works, st.floats(0, 1), st.integers(0, 2)),
)
def test_any_relay_meta_leads_to_the_same_place(
    tmp_path_factory: pytest.TempPathFactory,
    flavor: str,
    checksum: bool,
    placeless: bool,
    contents: list[list[Work]],
    cut: float,
    meta: int,
) -> None:
    """Missing, as old as the first file, or ahead of files that lost their end."""
    upstream = Upstream(flavor, checksum, contents, placeless=placeless)
    subdir = RelayDir(tmp_path_factory.mktemp("relay")).create_subdir("uuid", RelayMeta("", 4, ""))
    store(subdir, upstream.files)
    last = upstream.files[-1]
    size = len(last.data) - round(cut * 100)
    with (subdir.path / last.name).open("r+b") as file:
        file.truncate(max(size, 130))
    if meta == 0:
        (subdir.path / META).unlink()
    elif meta == 1:
        first = upstream.files[0]
        subdir.save_meta(RelayMeta(first.name, *first.boundaries[0]))
    else:
        subdir.save_meta(RelayMeta(last.name, *last.boundaries[-1]))
    follower = recover(subdir, flavor=flavor)
    found = (follower.file, follower.boundary, str(follower.gtids))
    whole = kept(last, max(size, 130))
    if whole[0]:
        assert found == (last.name, *whole)
    elif len(upstream.files) > 1:
        assert found == (upstream.files[-2].name, *upstream.files[-2].boundaries[-1])
    else:
        assert found == ("", 0, "")


def test_damaged_meta_does_not_matter(subdir: SubDir) -> None:
    (file,) = Upstream("mysql", True, [LAST]).files
    store(subdir, [file])
    (subdir.path / META).write_bytes(b"\xff\0 rubbish")
    assert recover(subdir, flavor="mysql").boundary == len(file.data)


def test_what_the_sub_folder_began_with_is_counted(subdir: SubDir) -> None:
    """A switch by GTID leaves holes in the first file: what lies there is in the folder before."""
    (file,) = Upstream("mysql", True, [LAST]).files
    store(subdir, [file])
    elsewhere = "00000000-0000-0000-0000-0000000000ff:1-9"
    follower = recover(subdir, flavor="mysql", base=elsewhere)
    executed = parse_gtid_set(file.boundaries[-1][1], "mysql")
    executed.add(elsewhere)
    assert follower.gtids == executed


def test_an_upstreams_last_file_without_rotate_is_complete_all_the_same(subdir: SubDir) -> None:
    """Its server was killed inside a transaction, and went on in a new file: the relay's copy keeps that."""
    upstream = Upstream("mysql", True, [LAST, LAST])
    old, new = upstream.files
    (subdir.path / old.name).write_bytes(old.data[: old.boundaries[-3][0] + 30])
    (subdir.path / new.name).write_bytes(new.data)
    follower = recover(subdir, flavor="mysql")
    assert (follower.file, follower.boundary) == (new.name, len(new.data))
    assert (subdir.path / old.name).stat().st_size == old.boundaries[-3][0] + 30


def test_a_last_file_with_nothing_whole_goes(subdir: SubDir) -> None:
    first, second = Upstream("mysql", True, [LAST, LAST]).files
    store(subdir, [first])
    (subdir.path / second.name).write_bytes(second.data[:50])
    follower = recover(subdir, flavor="mysql")
    assert (follower.file, follower.boundary) == (first.name, len(first.data))
    assert subdir.files() == [first.name]
