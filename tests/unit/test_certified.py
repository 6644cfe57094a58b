"""Hazard: a test of whole tasks compares tables by itself alone, so that nothing shows what diff and validation say."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, cast

import pytest

from deploy.local.cluster import Cluster
from deploy.local.process import HarnessError
from tests.harness import certified

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("e2e", "faults")
    for path in (ROOT / "tests" / folder).glob("test_*.py")
)
#: What ends in :func:`tests.harness.certified.certify`.
CERTIFYING = {"certify", "compare", "finish"}
#: The modules that do not ask the product, and why.
WITHOUT = {
    "tests/e2e/test_console.py": "the browser starts the comparison and reads its result",
    "tests/e2e/test_diff_on_spark.py": "compares servers that no task connects, by the product itself",
    "tests/e2e/test_cutover.py": "its check needs a comparison, which it starts by itself",
    "tests/e2e/test_cutover_run.py": "a cutover compares the tables by itself; the task has ended after it",
    "tests/e2e/test_cutover_verify.py": "a cutover compares the tables by itself; the task has ended after it",
    "tests/e2e/test_cutover_remedies.py": "each check of a cutover is made to say no, and yes again",
    "tests/e2e/test_late_writes.py": "a cutover compares the tables by itself; the task has ended after it",
    "tests/e2e/test_lag_reasons.py": "compares no tables",
    "tests/e2e/test_stream_lag.py": "compares no tables",
    "tests/e2e/test_metrics.py": "compares no tables",
    "tests/e2e/test_fixed_strings.py": "compares no tables: its tasks stop with errors",
    "tests/e2e/test_servers_diff.py": "compares servers that no task connects, by the product itself",
    "tests/e2e/test_until.py": "its task ends by itself, and diff needs one that replicates",
    "tests/e2e/test_openapi_clients.py": "compares the few rows that the clients' tasks replicate, and stops them",
    "tests/e2e/test_console_watchers.py": "compares no tables: it waits for each row",
    "tests/e2e/test_openapi_accepted.py": "compares no tables: it asks the API",
    "tests/e2e/test_openapi_contract.py": "compares no tables: it asks the API",
    "tests/e2e/test_openapi.py": "compares rows that the API's answers are about, with tasks that it stops and removes",
    "tests/faults/test_frozen_tasks.py": "runs the sync unit without a cluster, so without dmctl",
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_asks_the_product_or_says_why_not(name: str) -> None:
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    }
    assert (name in WITHOUT) is not bool(CERTIFYING & called)


def test_only_modules_that_exist_are_excepted() -> None:
    assert set(WITHOUT) <= set(MODULES)


class AnsweringCluster:
    """In place of a cluster: dmctl's answers about one synced task, which a test changes."""

    def __init__(self) -> None:
        self.state = "equal"
        self.tables = ["`d`.`t`"]
        self.validated_to = "(mysql-bin.000001, 9)"
        self.errors: list[dict[str, Any]] = []

    def ok(self, *_: str) -> None:
        """Starts the comparison."""

    def subtasks(self, _: str) -> dict[str, dict[str, Any]]:
        return {"s1": {"sync": {"syncerBinlog": "(mysql-bin.000001, 9)"}}}

    def logs(self) -> str:
        return "no logs"

    def dmctl(self, *args: str) -> dict[str, Any]:
        if args[:2] == ("diff", "status"):
            tables = [{"target": name, "state": self.state} for name in self.tables]
            source = {"stage": "Finished", "differences": "", "tables": tables}
            return {"verdict": self.state, "sources": [source]}
        if args[1] == "show-error":
            return {"error": self.errors}
        validator = {"source": "s1", "validatorBinlog": self.validated_to, "result": None}
        return {"validators": [validator | {"pendingRowsStatus": "insert/update/delete: 0/0/0"}]}


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> AnsweringCluster:
    monkeypatch.setattr(certified, "LONGEST", 0.5)
    return AnsweringCluster()


def test_equal_tables_without_errors_are_certified(answering: AnsweringCluster) -> None:
    certified.certify(cast(Cluster, answering), "task")


@pytest.mark.parametrize("state", ["different", "not compared"])
def test_a_table_that_is_not_equal_fails_the_test(answering: AnsweringCluster, state: str) -> None:
    answering.state = state
    with pytest.raises(AssertionError, match=state):
        certified.certify(cast(Cluster, answering), "task")


def test_a_table_that_should_not_be_comparable_and_is_fails_the_test(answering: AnsweringCluster) -> None:
    with pytest.raises(AssertionError):
        certified.certify(cast(Cluster, answering), "task", not_compared={"`d`.`t`": certified.NotAsked.PAST_VALUES})


def test_a_comparison_of_no_table_fails_the_test(answering: AnsweringCluster) -> None:
    answering.tables = []
    with pytest.raises(AssertionError, match="no table was compared"):
        certified.certify(cast(Cluster, answering), "task")


def test_a_row_that_the_validation_reports_fails_the_test(answering: AnsweringCluster) -> None:
    answering.errors = [{"id": "1", "errorType": "Expected rows not exist"}]
    with pytest.raises(AssertionError, match="Expected rows not exist"):
        certified.certify(cast(Cluster, answering), "task")


def test_changes_that_are_never_validated_fail_the_test(answering: AnsweringCluster) -> None:
    answering.validated_to = "(mysql-bin.000001, 8)"
    with pytest.raises(HarnessError, match="are validated"):
        certified.certify(cast(Cluster, answering), "task")
