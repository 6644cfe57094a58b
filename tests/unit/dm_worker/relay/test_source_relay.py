"""Hazard: the relay takes over or removes files of another source, or hides why it cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm_worker.relay.layout import RelayDir, RelayMeta
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.relay_client import RelayClient
from dm_worker.relay.relay_writer import BlockCounts
from dm_worker.relay.source_relay import SourceRelay, relay_folder
from pkg.config.model import SourceConfig
from pkg.errors import Code, DMError
from pkg.pb import dmworker_pb2 as pb
from pkg.settings.connections import DBConfig


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
        one.change_stage("Paused")
        assert (folder / "file").exists() is kept
        (folder / "file").touch()
        one.close()


def test_without_a_relay_there_is_nothing_to_report_or_purge(tmp_path: Path) -> None:
    one = relay(tmp_path / "relay")
    for _ in range(2):
        assert one.status() is None
        assert one.counts is None
        assert not one.goes_on()
        assert not one.caught_up()
        with pytest.raises(DMError) as caught:
            one.purge(filename="bin.000001", sub_dir="", before=0, inactive=False)
        assert caught.value.kind is Code.RelayNoActiveRelayLog
        one.change_stage("Paused")
        assert one.goes_on()
        one.change_stage("")
    assert (tmp_path / "relay").is_dir()


def test_a_folder_that_can_not_be_used_is_an_error_that_operators_see(tmp_path: Path) -> None:
    (tmp_path / "relay").touch()
    one = relay(tmp_path / "relay")
    one.change_stage("Running")
    status = one.status()
    assert status is not None
    assert status.stage == pb.Paused
    assert status.result.errors[0].ErrCode == 30033
    assert "relay-dir" in status.result.errors[0].Workaround
    assert not one.goes_on()
    (tmp_path / "relay").unlink()
    one.change_stage("Paused")
    status = one.status()
    assert status is not None
    assert not status.HasField("result")
    one.close()


def test_files_that_nobody_says_are_a_relay_log_stay(tmp_path: Path) -> None:
    """A relay-dir that leads to somebody's data, or a note that was lost."""
    folder = tmp_path / "relay"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "theirs").touch()
    one = relay(folder)
    one.change_stage("Running")
    status = one.status()
    assert status is not None
    assert status.stage == pb.Paused
    (error,) = status.result.errors
    assert error.ErrCode == 30033
    assert "nothing was removed" in error.Message
    assert "source-id" in error.Workaround
    assert (folder / "data" / "theirs").exists()
    assert not (folder / "source-id").exists()
    # The way out that the error names.
    (folder / "source-id").write_text("s1\n")
    one.change_stage("Paused")
    status = one.status()
    assert status is not None
    assert not status.HasField("result")
    assert (folder / "data" / "theirs").exists()
    one.close()


def test_what_is_removed_of_another_source_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = relay(tmp_path / "relay", "s1")
    one.change_stage("Paused")
    one.close()
    (tmp_path / "relay" / "u.000001").mkdir()
    two = relay(tmp_path / "relay", "s2")
    two.change_stage("Paused")
    two.close()
    (told,) = [record for record in caplog.records if "another source" in record.getMessage()]
    assert all(part in str(vars(told)["fields"]) for part in ("s1", "s2", "u.000001", str(tmp_path / "relay")))


def test_a_clearing_that_breaks_off_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in between, the folder must not be left without its note: then nothing of it would be removed again."""
    folder = tmp_path / "relay"
    one = relay(folder, "s1")
    one.change_stage("Paused")
    one.close()
    for name in ("a.000001", "u.000002"):
        (folder / name).mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", _broken_off)
        two = relay(folder, "s2")
        two.change_stage("Paused")
        assert two.status() is not None
        two.close()
    assert (folder / "source-id").read_text() == "s1"
    two.change_stage("Paused")
    assert [path.name for path in folder.iterdir()] == ["source-id"]
    assert (folder / "source-id").read_text() == "s2"
    two.close()


def _broken_off(path: Path) -> None:
    raise OSError(5, "Input/output error", str(path))


def test_a_folder_that_was_removed_by_hand_is_this_sources_again(tmp_path: Path) -> None:
    """It is what errors of the relay log advise; the relay itself goes on."""
    folder = RelayDir(tmp_path / "relay")
    client = RelayClient(
        SourceConfig("s1", DBConfig(host="127.0.0.1", port=1, user="root"), flavor="mariadb"),
        *(folder, ReadableEnd(), 1, lambda: None, BlockCounts()),
    )
    client._add("0-1", RelayMeta("", 4, ""))
    assert folder.owner() == "s1"
    one = relay(folder.path)
    one.change_stage("Paused")
    assert one.goes_on()
    assert len(folder.subdirs()) == 1
    one.close()
