"""Peers run at their best settings."""

from __future__ import annotations

from tests.bench.figures import Cost
from tests.bench.peers import BestOf, split_keys

_CREATED = """CREATE TABLE `t` (
  `id` int(11) NOT NULL,
  `k` int(11) NOT NULL DEFAULT 0,
  `note` varchar(40) DEFAULT 'a KEY, in a text',
  PRIMARY KEY (`id`),
  UNIQUE KEY `u` (`note`),
  KEY `k_1` (`k`),
  KEY `k_note` (`k`,`note`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
"""


def test_secondary_keys_leave_a_definition_and_unique_ones_stay() -> None:
    bare, keys = split_keys(_CREATED)
    assert keys == ["KEY `k_1` (`k`)", "KEY `k_note` (`k`,`note`)"]
    assert bare == _CREATED.replace(",\n  KEY `k_1` (`k`),\n  KEY `k_note` (`k`,`note`)", "")


def test_a_definition_without_secondary_keys_stays_the_same() -> None:
    bare = split_keys(_CREATED)[0]
    assert split_keys(bare) == (bare, [])


def test_every_setting_runs_once_and_the_fastest_in_all_turns() -> None:
    seconds = iter([3.0, 1.0, 2.0, 9.0, 4.0])
    ran: list[str] = []

    def way(name: str) -> Cost:
        ran.append(name)
        return Cost(next(seconds))

    peer = BestOf({name: lambda name=name: way(name) for name in "abc"})  # type: ignore[misc]
    for _ in range(3):
        peer.run()
    assert ran == ["a", "b", "c", "b", "b"]
    assert peer.best == "b"
    assert [cost.seconds for cost in peer.costs] == [1.0, 9.0, 4.0]
