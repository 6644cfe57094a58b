"""What is asked for is what runs, and a part that fails takes no other along."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from deploy.local.process import HarnessError
from tests.bench.__main__ import SETS, SIZES, Part, Sizes, arguments, chosen, parts, run
from tests.bench.figures import Figure, Report
from tests.bench.rig import Rig


def _chosen(*argv: str) -> dict[str, Sizes]:
    return chosen(arguments(argv), list(parts()))


def test_by_default_every_part_with_a_target_runs() -> None:
    assert list(_chosen()) == list(SETS["targets"])
    assert {"wide", "mixed"} <= set(parts()) - set(_chosen())


def test_parts_run_in_the_order_asked_for_or_all_of_them() -> None:
    assert list(_chosen("--only", "oltp,copy")) == ["oltp", "copy"]
    assert list(_chosen("--only", "all")) == list(parts())


def test_an_unknown_part_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no part oltpp; there are .*decode"):
        _chosen("--only", "oltpp,copy")


@pytest.mark.parametrize("name", SETS)
def test_a_set_names_parts_and_sizes_that_there_are(name: str) -> None:
    found = _chosen("--set", name)
    assert list(found) == list(SETS[name])
    assert all(sizes.keys() == SIZES.keys() for sizes in found.values())


def test_sizes_of_the_command_line_win_over_those_of_the_set_and_these_over_the_defaults() -> None:
    found = _chosen("--set", "goals", "--runs", "1")
    assert found["copy"]["copy_rows"] == SETS["goals"]["copy"]["copy_rows"] != SIZES["copy_rows"]
    assert {sizes["runs"] for sizes in found.values()} == {1}
    assert _chosen("--set", "goals", "--copy-rows", "7", "--only", "copy")["copy"]["copy_rows"] == 7


class _NoServers:
    """A rig that starts nothing, and remembers what is started and closed."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def started(self, report: Report) -> Rig:
        self.calls.append("start")
        rig = Rig(report)
        rig.close = lambda: self.calls.append("close")  # type: ignore[method-assign]
        return rig


def test_a_part_that_fails_is_named_and_the_others_run_on_servers_of_their_own() -> None:
    def good(rig: Rig, sizes: Sizes) -> None:
        rig.report.add(Figure("T1", f"{rig.rows} rows", "peer", sizes["runs"], "x"))

    def bad(rig: Rig, sizes: Sizes) -> None:
        raise KeyError("nobody expects this")

    def ugly(rig: Rig, sizes: Sizes) -> None:
        raise HarnessError("checksums differ")

    known: dict[str, Part] = {"good": good, "bad": bad, "ugly": ugly, "last": good}
    names = {name: {**SIZES, "rows": i} for i, name in enumerate(known)}
    report, servers, kept = Report(), _NoServers(), list[int]()
    with patch.object(Rig, "started", servers.started):
        failed = run(names, known, report, lambda: kept.append(len(report.figures)))
    assert failed == {"bad": "KeyError: 'nobody expects this'", "ugly": "HarnessError: checksums differ"}
    assert [figure.work for figure in report.figures] == ["0 rows", "3 rows"]
    assert kept == [1, 1, 1, 2]
    assert servers.calls == ["start", "close"] * 3
