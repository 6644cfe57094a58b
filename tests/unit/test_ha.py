"""Keys and records of the shared state: what one process writes another must read back, whatever the names hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.errors import DMError
from pkg.ha import keys
from pkg.ha.records import LeaderInfo, RelayStage, SourceBound, SubTaskStage, WorkerAlive, WorkerInfo

names = st.text(st.characters(codec="utf-8"), min_size=1)
FAMILIES = [value for value in vars(keys).values() if isinstance(value, keys.KeyFamily)]


@given(st.sampled_from(FAMILIES), st.data())
def test_names_with_any_characters_survive_a_key(family: keys.KeyFamily, data: st.DataObject) -> None:
    chosen = tuple(data.draw(names) for _ in family.segments)
    key = family.key(*chosen)
    assert family.names(key) == chosen
    assert key.startswith(family.prefix(*chosen[:-1]))
    assert [other for other in FAMILIES if key.startswith(other.prefix())] == [family]


def test_keys_are_those_of_dm() -> None:
    assert keys.WORKER.key("worker-1") == "/dm-worker/r/776f726b65722d31"
    assert keys.SUBTASK_STAGE.key("s", "t") == "/dm-master/stage/subtask/73/74"
    assert keys.SOURCE_CONFIG.prefix() == "/dm-master/v2/upstream/config/"
    assert keys.leader_key(0x694D8F) == "/dm-master/leader/694d8f"


def test_one_source_is_no_prefix_of_another() -> None:
    assert not keys.SUBTASK.key("ab", "t").startswith(keys.SUBTASK.prefix("a"))


@pytest.mark.parametrize("key", ["/dm-worker/r/zz", "/dm-worker/r/ff", "/dm-worker/r/61/62", "/dm-worker/a/61", ""])
def test_a_foreign_key_is_refused(key: str) -> None:
    with pytest.raises(DMError) as caught:
        keys.WORKER.names(key)
    assert caught.value.code == 42502


@pytest.mark.parametrize("given_names", [(), ("a", "b", "c"), ("a", "")])
def test_a_key_with_missing_names_would_touch_others(given_names: tuple[str, ...]) -> None:
    with pytest.raises(DMError) as caught:
        keys.SUBTASK.key(*given_names)
    assert caught.value.code == 42502


@given(names, names, st.sampled_from(["New", "Running", "Paused", "Stopped", "Finished"]))
def test_records_survive_json(first: str, second: str, stage: str) -> None:
    for record in (
        WorkerInfo(first, second),
        WorkerAlive(first, second),
        SourceBound(first, second),
        SubTaskStage(stage, first, second),
        RelayStage(stage, first),
        LeaderInfo(first, second),
    ):
        assert type(record).from_json(record.to_json()) == record


def test_records_have_dms_json() -> None:
    assert json.loads(SubTaskStage("Running", "s1", "t").to_json()) == {"expect": 2, "source": "s1", "task": "t"}
    assert json.loads(WorkerAlive("w", "now").to_json()) == {"worker-name": "w", "join-time": "now"}


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"expect":99,"source":"s","task":"t"}', '{"expect":"Running"}'])
def test_a_damaged_record_names_itself(text: str) -> None:
    with pytest.raises(DMError) as caught:
        SubTaskStage.from_json(text)
    assert caught.value.code == 42502


def test_an_unknown_stage_cannot_be_written() -> None:
    with pytest.raises(DMError) as caught:
        SubTaskStage("running", "s", "t").to_json()
    assert caught.value.code == 42502
