"""Hazard: a record that one process writes to etcd is read as another by the next, because of what a name contains."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.errors import Code, DMError
from pkg.ha import keys
from pkg.ha.records import LeaderInfo, Record, RelayStage, SourceBound, SubTaskStage, WorkerAlive, WorkerInfo
from pkg.ha.shard_ddl import ShardInfo, ShardOperation, ShardTables, ShardUnlock

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
    assert caught.value.kind is Code.HAInvalidItem


@pytest.mark.parametrize("given_names", [(), ("a", "b", "c"), ("a", "")])
def test_a_key_with_missing_names_would_touch_others(given_names: tuple[str, ...]) -> None:
    with pytest.raises(DMError) as caught:
        keys.SUBTASK.key(*given_names)
    assert caught.value.kind is Code.HAInvalidItem


@given(names, names, st.sampled_from(["New", "Running", "Paused", "Stopped", "Finished"]))
def test_records_survive_json(first: str, second: str, stage: str) -> None:
    for record in (
        WorkerInfo(first, second),
        WorkerAlive(first, second),
        SourceBound(first, second),
        SubTaskStage(stage, first, second),
        SubTaskStage(stage, first, second, safe_mode=True),
        RelayStage(stage, first),
        LeaderInfo(first, second),
    ):
        assert type(record).from_json(record.to_json()) == record


texts = st.lists(st.text(), max_size=3).map(tuple)
tables_of = st.dictionaries(names, st.lists(names, max_size=2).map(sorted).map(tuple), max_size=2)
tables = st.dictionaries(names, st.dictionaries(names, tables_of, max_size=2), max_size=2)


@given(names, texts, st.lists(texts, max_size=3).map(tuple), st.dictionaries(names, texts), st.booleans())
def test_records_of_shard_ddl_survive_json(
    name: str,
    ddls: tuple[str, ...],
    sequences: tuple[tuple[str, ...], ...],
    waiting: dict[str, tuple[str, ...]],
    flag: bool,
) -> None:
    for record in (
        ShardInfo(name, name, name, name, ddls, "" if flag else "2026-01-02T03:04:05Z"),
        ShardOperation(name, name, name, ddls, flag, not flag),
        ShardOperation(name, name, name, ddls, True, error=name),
        ShardUnlock(name, name, name, sequences, waiting),
    ):
        assert type(record).from_json(record.to_json()) == record


@given(tables)
def test_shards_tables_survive_json(by_target: dict[str, dict[str, dict[str, tuple[str, ...]]]]) -> None:
    record = ShardTables("t", "s", by_target)
    back = ShardTables.from_json(record.to_json())
    assert back.to_json() == record.to_json()
    for schema, targets in by_target.items():
        for table, ups in targets.items():
            assert back.has(schema, table) == any(ups.values())
    assert not back.has("", "")


def test_records_of_shard_ddl_have_dms_json() -> None:
    info = ShardInfo("t", "s1", "db", "tb", ("ALTER TABLE `db`.`tb` ADD a INT",))
    assert json.loads(info.to_json()) == {
        "task": "t", "source": "s1", "schema": "db", "table": "tb", "ddls": ["ALTER TABLE `db`.`tb` ADD a INT"],
    }  # fmt: skip
    operation = ShardOperation("t-`db`.`tb`", "t", "s1", ("x",), True)
    assert json.loads(operation.to_json()) == {
        "id": "t-`db`.`tb`", "task": "t", "source": "s1", "ddls": ["x"], "exec": True, "done": False,
    }  # fmt: skip
    told = ShardTables("t", "s1", {"db": {"tb": {"up1": ("a", "b")}}})
    assert json.loads(told.to_json())["tables"] == {"db": {"tb": {"up1": {"a": {}, "b": {}}}}}
    assert keys.SHARD_DDL_INFO.prefix("t", "s1") == "/dm-master/shardddl-pessimism/info/74/7331/"
    assert keys.SHARD_DDL_OPERATION.prefix("t", "s1") == "/dm-master/shardddl-pessimism/operation/74/7331/"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ShardInfo, '{"task":"t","source":"s","schema":"d","table":"t","ddls":"x"}'),
        (ShardInfo, '{"task":"t","source":"s","schema":"d","table":"t","ddls":[1]}'),
        (ShardInfo, '{"task":"t","source":"s","schema":"d","table":"t"}'),
        (ShardOperation, '{"id":"i","task":"t","source":"s","ddls":[],"exec":1,"done":false}'),
        (ShardUnlock, '{"id":"i","task":"t","owner":"s","sequences":{},"waiting":{}}'),
        (ShardUnlock, '{"id":"i","task":"t","owner":"s","sequences":[],"waiting":[]}'),
        (ShardTables, '{"task":"t","source":"s","tables":{"d":{"t":["x"]}}}'),
    ],
)
def test_a_damaged_record_of_shard_ddl_names_itself(kind: type[Record], text: str) -> None:
    with pytest.raises(DMError) as caught:
        kind.from_json(text)
    assert caught.value.kind is Code.HAInvalidItem
    assert kind.__name__ in str(caught.value)


def test_records_have_dms_json() -> None:
    assert json.loads(SubTaskStage("Running", "s1", "t").to_json()) == {"expect": 2, "source": "s1", "task": "t"}
    with_safe_mode = SubTaskStage("Running", "s1", "t", safe_mode=True).to_json()
    assert json.loads(with_safe_mode) == {"expect": 2, "source": "s1", "task": "t", "safe-mode": True}
    assert json.loads(WorkerAlive("w", "now").to_json()) == {"worker-name": "w", "join-time": "now"}


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"expect":99,"source":"s","task":"t"}', '{"expect":"Running"}'])
def test_a_damaged_record_names_itself(text: str) -> None:
    with pytest.raises(DMError) as caught:
        SubTaskStage.from_json(text)
    assert caught.value.kind is Code.HAInvalidItem


def test_an_unknown_stage_cannot_be_written() -> None:
    with pytest.raises(DMError) as caught:
        SubTaskStage("running", "s", "t").to_json()
    assert caught.value.kind is Code.HAInvalidItem
