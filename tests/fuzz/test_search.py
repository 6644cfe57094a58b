"""Hazards: a combination that was right becomes wrong. A bounded search with fixed seeds; ``make fuzz`` searches on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fuzz.__main__ import in_memory
from tests.fuzz.engine import LocalEngine
from tests.fuzz.features import PARAMETERS, Pair
from tests.fuzz.generator import TASK
from tests.fuzz.history import Column, History, Step, Table
from tests.fuzz.holes import SHOWN, open_holes
from tests.fuzz.known import OPEN
from tests.fuzz.runner import Runner
from tests.fuzz.search import Finding, Search
from tests.fuzz.servers import running_servers

_FOUND = {file.stem: History.read(file) for file in (Path(__file__).parent / "found").glob("*.json")}
#: Groups of histories, by seed: a few seconds each.
_SEEDS = {"mariadb:mariadb": 70_000, "mysql-8.0:mariadb": 50_000}
_HISTORIES = 32


@pytest.fixture(scope="module")
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    with in_memory(), running_servers(Pair.parse(request.param)) as servers:
        runner = Runner(servers, LocalEngine())
        yield runner
        runner.close()
        assert not runner.folder.exists()


@pytest.mark.parametrize("runner", _SEEDS, indirect=True)
def test_no_silent_difference_among_the_histories_of_fixed_seeds(runner: Runner) -> None:
    pair = runner.pair
    search = Search(runner, pair, _SEEDS[str(pair)])
    findings: list[Finding] = []
    tally = search.run(3600, findings.append, enough=lambda so_far: so_far.histories >= _HISTORIES)
    findings = [one for one in findings if one.hole not in OPEN and not one.inherent]
    assert not findings, "\n\n".join(f"{one.verdict.text}\n{one.history.script()}" for one in findings)
    # A search whose histories are all refused, upstream or by the task, would find nothing.
    assert tally.kinds["equal"] > tally.histories * 0.4, tally
    assert tally.failed < tally.statements * 0.3, tally


@pytest.mark.parametrize(
    ("runner", "history"),
    [pytest.param(one.pair, one, id=name) for name, one in sorted(_FOUND.items(), key=lambda found: found[1].pair)],
    indirect=["runner"],
)
def test_what_was_found_stays_mended(runner: Runner, history: History) -> None:
    (verdict,) = runner.run([history])
    assert not verdict.is_finding, f"{verdict.text}\n{history.script()}"


@pytest.mark.parametrize("runner", ["mariadb:mariadb"], indirect=True)
@pytest.mark.parametrize("hole", SHOWN)
def test_a_hole_that_is_put_back_shows_in_what_was_found(runner: Runner, hole: str) -> None:
    """Otherwise the proof searches for what is not there."""
    with open_holes([hole]):
        (verdict,) = runner.run([_FOUND[SHOWN[hole]]])
    assert verdict.is_finding, verdict


def _history(sessions: tuple[str, ...], before: str, *live: str) -> History:
    """A table ``t`` with an ``id``, and statements in one session."""
    steps = (Step(text=before, phase="before"), *(Step(text=text) for text in live))
    settings = {name: PARAMETERS[name].values[0] for name in TASK} | {"mode": "incremental"}
    return History(1, "mariadb", settings, (Table("t", (Column("id", "INT", ("PRIMARY KEY",)),)),), (sessions,), steps)


@pytest.mark.parametrize("runner", ["mariadb:mariadb"], indirect=True)
def test_what_a_native_replica_lacks_too_is_inherent(runner: Runner) -> None:
    unlogged = _history((), "SELECT 1", "SET sql_log_bin = 0", "INSERT INTO {s}.`t` VALUES (1)", "SET sql_log_bin = 1")
    (verdict,) = runner.run([unlogged])
    assert verdict.kind == "different"
    assert "same rows" in runner.inherent(unlogged)
    lost = _history(
        (),
        "SELECT 1",
        "SET sql_log_bin = 0",
        "CREATE TABLE {s}.`hidden` (`id` INT PRIMARY KEY)",
        "SET sql_log_bin = 1",
        "INSERT INTO {s}.`hidden` VALUES (1)",
    )
    (verdict,) = runner.run([lost])
    assert verdict.kind == "stopped"
    assert "stops too" in runner.inherent(lost)


@pytest.mark.parametrize("runner", ["mariadb:mariadb"], indirect=True)
def test_a_successor_that_is_not_like_its_upstream_is_inherent(runner: Runner) -> None:
    """A MariaDB reads the CREATE TABLE … SELECT of its upstream's binlog, UTF-8, in the session's charset."""
    made = ("CREATE TABLE {s}.`made` AS SELECT * FROM {s}.`e`", "INSERT INTO {s}.`t` VALUES (1)")
    plain = _history(("SET NAMES gbk",), "CREATE TABLE {s}.`e` AS SELECT ELT(1, 'a') AS `x`", *made)
    odd = _history(("SET NAMES gbk",), "CREATE TABLE {s}.`e` (`x` ENUM('é'))", "INSERT INTO {s}.`e` VALUES (1)", *made)
    for history in (plain, odd):
        steps = (*history.steps, Step("event", "failover"))
        settings = {**history.settings, "event": "failover", "gtid": "on", "mode": "all"}
        failed_over = replace(history, settings=settings, steps=steps)
        (verdict,) = runner.run([failed_over])
        assert verdict.kind == ("equal" if history is plain else "different"), verdict
        assert ("not like its upstream" in runner.inherent(failed_over)) == (history is odd)


@pytest.mark.parametrize("runner", ["mariadb:mariadb"], indirect=True)
def test_what_a_native_replica_does_right_is_not_inherent(runner: Runner) -> None:
    history = _history(
        ("SET SESSION binlog_format = STATEMENT",),
        "INSERT INTO {s}.`t` VALUES (1)",
        "CREATE TEMPORARY TABLE {s}.`t` (`id` INT, `n` INT)",
        "TRUNCATE TABLE {s}.`t`",
    )
    with open_holes(["temporary tables"]):
        (verdict,) = runner.run([history])
        assert verdict.kind == "different"
        assert runner.inherent(history) == ""


@pytest.mark.parametrize("runner", ["mariadb:mariadb"], indirect=True)
@pytest.mark.parametrize(
    "last", ["TRUNCATE TABLE {s}.`t`", "INSERT INTO {s}.`t` VALUES (2)"], ids=["gone at the end", "behind a refusal"]
)
def test_a_difference_before_the_end_is_a_finding(runner: Runner, last: str) -> None:
    history = _history(
        ("SET SESSION binlog_format = STATEMENT",),
        "INSERT INTO {s}.`t` VALUES (1)",
        "ANALYZE DELETE FROM {s}.`t`",
        last,
    )
    steps = [*history.steps[:-1], Step("event", "wait"), history.steps[-1]]
    with open_holes(["ANALYZE UPDATE"]):
        (verdict,) = runner.run([replace(history, steps=tuple(steps))])
    assert verdict.kind == "different"


@pytest.mark.parametrize("runner", ["mariadb:mariadb"], indirect=True)
def test_what_a_rule_keeps_is_not_inherent_though_a_native_replica_has_no_rules(runner: Runner) -> None:
    history = _history((), "INSERT INTO {s}.`t` VALUES (1)", "DROP DATABASE {s}")
    history = replace(history, settings={**history.settings, "rule": "drop database"})
    with open_holes(["filter *"]):
        (verdict,) = runner.run([history])
        assert verdict.kind == "different"
        assert runner.inherent(history) == ""
