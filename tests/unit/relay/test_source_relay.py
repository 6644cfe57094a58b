"""A source's relay in its folder: what it takes over, what it removes, and what keeps it from working."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm_worker.relay.source_relay import SourceRelay, relay_folder
from pkg.config.model import DBConfig, SourceConfig
from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as pb


def relay(folder: Path, source: str = "s1") -> SourceRelay:
    # Nobody listens there.
    config = SourceConfig(source, DBConfig(host="127.0.0.1", port=1, user="root"), flavor="mariadb")
    return SourceRelay(config, folder, start_at=lambda: None, needed=lambda *_: [])


@pytest.mark.parametrize(
    ("worker_dir", "source_dir", "expected"),
    [("/w", "/s", "/w/worker1"), ("", "/s", "/s/worker1"), ("", "", "relay-dir/worker1")],
)
def test_the_workers_folder_wins(worker_dir: str, source_dir: str, expected: str) -> None:
    assert relay_folder(worker_dir, source_dir, "worker1") == Path(expected)


def test_another_sources_relay_log_is_not_taken_for_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "relay"
    for source, kept in (("s1", False), ("s1", True), ("s2", False), ("s1", False)):
        one = relay(folder, source)
        one.follow("Paused")
        assert (folder / "file").exists() is kept
        (folder / "file").touch()
        one.close()


def test_without_a_relay_there_is_nothing_to_tell_or_purge(tmp_path: Path) -> None:
    one = relay(tmp_path / "relay")
    for _ in range(2):
        assert one.status() is None
        assert one.counts is None
        assert not one.goes_on()
        assert not one.caught_up()
        with pytest.raises(DMError) as caught:
            one.purge(filename="bin.000001", sub_dir="", before=0, inactive=False)
        assert caught.value.code == 30038
        one.follow("Paused")
        assert one.goes_on()
        one.follow("")
    assert (tmp_path / "relay").is_dir()


def test_a_folder_that_can_not_be_used_is_an_error_that_operators_see(tmp_path: Path) -> None:
    (tmp_path / "relay").touch()
    one = relay(tmp_path / "relay")
    one.follow("Running")
    status = one.status()
    assert status is not None
    assert status.stage == pb.Paused
    assert status.result.errors[0].ErrCode == 30033
    assert "relay-dir" in status.result.errors[0].Workaround
    assert not one.goes_on()
    (tmp_path / "relay").unlink()
    one.follow("Paused")
    status = one.status()
    assert status is not None
    assert not status.HasField("result")
    one.close()
