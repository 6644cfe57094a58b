"""Hazards: a task with rules that is compared with nothing; an event that does not happen. A small history of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from tests.fuzz.__main__ import in_memory
from tests.fuzz.engine import LocalEngine
from tests.fuzz.features import Pair, feature
from tests.fuzz.generator import settings_of
from tests.fuzz.history import Column, History, Phase, Step, Table
from tests.fuzz.holes import open_holes
from tests.fuzz.runner import Runner
from tests.fuzz.servers import running_servers
from tests.fuzz.tasks.rules import Rules

PAIR = Pair.parse("mariadb")
_T, _U = "{s}.`t`", "{s}.`u`"
_TABLES = tuple(
    Table(name, (Column("id", "BIGINT", ("NOT NULL",)), Column("n", "INT", ("NULL",)), Column("c", "VARCHAR(20)")), key)
    for name, key in (("t", ("PRIMARY KEY (`id`)",)), ("u", ()))
)
_PLAIN = {**settings_of(0, PAIR), "gtid": "on", "safe": "off", "workers": "16", "route": "none", "rule": "none",
          "event": "none", "mode": "incremental", "compact": "default", "multiple": "default", "merge": "none",
          "mapping": "none", "extract": "none", "row filter": "none", "relay": "off"}  # fmt: skip


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with in_memory(), running_servers(PAIR) as servers:
        runner = Runner(servers, LocalEngine(every=4))
        yield runner
        runner.close()


def _history(settings: Mapping[str, str], *, ddl: bool = False, shift: int = 0) -> History:
    """Rows in each shard, a DDL in one after the other if there is to be one, an event in the middle."""
    merged = settings.get("merge", "none") != "none"

    def rows(shard: int) -> list[Step]:
        one, two = 1 + shift * shard, 2 + shift * shard
        texts = (
            f"INSERT INTO {_T} VALUES ({one}, 1, 'a'), ({two}, NULL, NULL), ({two + 2}, 0, 'b')",
            f"INSERT INTO {_U} VALUES ({one}, {shard}, 'x')",
            f"UPDATE {_T} SET `n` = 1, `c` = 'é' WHERE `id` = {two}",
            f"DELETE FROM {_T} WHERE `id` = {two + 2}",
        )
        return [Step(text=text, shard=shard) for text in texts]

    def altered(shard: int) -> list[Step]:
        texts = (f"ALTER TABLE {_T} ADD COLUMN `y` INT NULL", f"UPDATE {_T} SET `y` = `id`")
        return [Step(text=text, shard=shard) for text in texts] if ddl else []

    shards = (0, 1) if merged else (0,)
    steps = [step for shard in shards for step in rows(shard)]
    event = settings.get("event", "none")
    steps += [Step("event", event)] if event != "none" else []
    steps += altered(0)
    steps += [Step(text=f"UPDATE {_T} SET `n` = 5 WHERE `n` = 1", shard=shard) for shard in shards]
    steps += altered(1) if merged else []
    features = tuple(feature(name, value) for name, value in settings.items())
    return History(0, str(PAIR), {**_PLAIN, **settings}, _TABLES, ((),), tuple(steps), features=features)


def _verdict(runner: Runner, history: History) -> tuple[str, str]:
    (found,) = runner.run([history])
    return found.kind, found.text


_TASKS: Mapping[str, History] = {
    "schemas": _history({"merge": "schemas"}, shift=1000),
    "tables": _history({"merge": "tables", "mode": "all"}, shift=1000),
    "pessimistic schemas": _history({"merge": "pessimistic schemas", "mapping": "partition id"}, ddl=True),
    "pessimistic tables": _history({"merge": "pessimistic tables", "extract": "table"}, ddl=True),
    "sources": _history({"merge": "sources", "extract": "source", "mode": "all"}),
    "pessimistic sources": _history({"merge": "pessimistic sources", "mapping": "partition id"}, ddl=True),
    "pause of one source": _history({"merge": "pessimistic sources", "event": "pause"}, ddl=True, shift=1000),
    "failover of two sources": _history({"merge": "sources", "event": "failover", "relay": "on"}, shift=1000),
    "load&sync": _history({"mode": "load&sync"}, ddl=True),
    "load&sync of two sources": _history({"mode": "load&sync", "merge": "sources"}, shift=1000),
    "prefix": _history({"mapping": "prefix"}),
    "extract": _history({"extract": "schema"}, ddl=True),
    "relay": _history({"relay": "on", "event": "relay purge"}),
    "relay killed": _history({"relay": "on", "event": "relay killed", "gtid": "off"}),
    "restart target": _history({"event": "restart target"}),
    "failover": _history({"event": "failover"}),
    "failover of a relay": _history({"event": "failover", "relay": "on"}, ddl=True),
    "row metadata": _history({"row metadata": "FULL"}, ddl=True),
    "transfer": _history({"event": "transfer"}),
}


@pytest.mark.parametrize("history", _TASKS.values(), ids=_TASKS)
def test_a_task_is_right(runner: Runner, history: History) -> None:
    (found,) = runner.run([history])
    assert found.kind == "equal", found.text
    assert found.failed == 0
    assert history.settings["relay"] == "off" or "relay=on" in found.executed


@pytest.mark.parametrize("way", ["insert", "update old", "update new", "delete"])
def test_a_filter_leaves_out_what_its_expression_says(runner: Runner, way: str) -> None:
    """The expression is ``n = 1``, which is true of rows that are written, changed and deleted."""
    history = _history({"row filter": way})
    more = (Step(text=f"UPDATE {_T} SET `n` = 1 WHERE `id` = 1"), Step(text=f"DELETE FROM {_T} WHERE `id` = 1"))
    history = replace(history, steps=(*history.steps, *more))
    assert _verdict(runner, history)[0] == "equal"


def test_a_target_that_a_rule_has_not_changed_is_a_finding(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rules, "mappings", lambda _: [])
    kind, text = _verdict(runner, _history({"mapping": "partition id"}))
    assert (kind, "only at the target" in text) == ("different", True)


def test_a_filter_that_filters_nothing_is_a_finding(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dm_worker.syncer.rows.row_filter._matches", lambda *_: False)
    assert _verdict(runner, _history({"row filter": "update old"}))[0] == "different"


def _copied(phase: Phase, *statements: str) -> History:
    """A full copy without replication, with statements at a moment of its dump."""
    history = _history({"mode": "full"})
    before = tuple(replace(step, phase="before") for step in history.steps)
    return replace(history, steps=(*before, *(Step(text=text, phase=phase) for text in statements)))


@pytest.mark.parametrize("phase", ["snapshot", "chunk", "dumped"])
def test_a_full_copy_is_that_of_its_snapshot(runner: Runner, phase: Phase) -> None:
    assert _verdict(runner, _copied(phase, f"DELETE FROM {_T}", f"INSERT INTO {_U} VALUES (77, 1, 'z')"))[0] == "equal"


def test_a_full_copy_that_begins_again_is_that_of_its_last_snapshot(runner: Runner) -> None:
    changed = (f"ALTER TABLE {_T} ADD COLUMN `y` INT NULL", f"UPDATE {_T} SET `y` = 5")
    assert _verdict(runner, _copied("snapshot", *changed)) == ("equal", "")


def test_a_full_copy_with_a_later_row_is_a_finding(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dm_worker.table_reads.snapshot._SNAPSHOT", "START TRANSACTION")
    kind, text = _verdict(runner, _copied("snapshot", f"DELETE FROM {_T}"))
    assert kind == "different", text
    assert "only upstream" in text


@pytest.mark.parametrize("event", ["crash before", "crash after"])
def test_each_history_of_a_group_has_its_own_crash(runner: Runner, monkeypatch: pytest.MonkeyPatch, event: str) -> None:
    crashes: list[str] = []
    original = LocalEngine.crash

    def crash(engine: LocalEngine, moment: str) -> None:
        crashes.append(moment)
        original(engine, moment)

    monkeypatch.setattr(LocalEngine, "crash", crash)
    history = _history({"event": event})
    assert [found.kind for found in runner.run([history, history])] == ["equal", "equal"]
    assert crashes == [event.split()[1]] * 2


def test_a_worker_that_is_killed_in_a_job_leaves_what_the_next_one_has_to_do(runner: Runner) -> None:
    history = _history({"event": "kill"})
    assert [found.kind for found in runner.run([history, history])] == ["equal", "equal"]
    # The first worker's last job is the one of these rows, or the next one.
    later = (Step("event", "wait"), Step(text=f"UPDATE {_T} SET `c` = 'y'"))
    history = replace(history, steps=(*history.steps, *later))
    assert _verdict(runner, history) == ("equal", "")
    with open_holes(["a begun batch is taken for done"]):
        assert _verdict(runner, history)[0] == "different"
