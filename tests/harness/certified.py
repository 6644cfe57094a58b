"""What the product says of a task's rows, beside a test's own comparison: ``dmctl diff`` and the continuous validation.

A test starts its task with the file that :func:`validated` returns. :func:`certify` belongs at the end of a test, where
its own comparison finds the rows equal: both must agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from deploy.local.cluster import Cluster
from deploy.local.process import HarnessError, wait_until
from tests.harness.comparisons import ended, lines, tables

#: Seconds in which a comparison of a test's tables ends, and the validation of what is written, on a busy machine.
LONGEST = 240.0
_VALIDATORS = "validators: {beside: {mode: full, validate-interval: 1s, check-interval: 1s, meta-flush-interval: 2s}}\n"
_NONE_WAITS = "insert/update/delete: 0/0/0"


class NotAsked(StrEnum):
    """Why the end of a test does without a comparison or a validation: all reasons there are."""

    COPY_ONLY = "the task has ended with its full copy; a comparison needs replication"
    SEEDED_FAULTS = "the test makes faults in the target, which a validation reports"
    PAST_VALUES = "an expression filter leaves out changes, so that the target's rows depend on values of the past"
    VERSION_BEFORE = "the version before, which has neither, starts the task or runs it at the end"


def validated(task: str) -> str:
    """A task file whose instances are validated from the first change on. An instance begins with its ``source-id``."""
    inline = task.replace("{source-id: ", "{validator-config-name: beside, source-id: ")
    text = re.sub(r"(?m)^( *)- source-id: ", r"\1- validator-config-name: beside\n\1  source-id: ", inline)
    assert text != task, "no instance begins with its source-id"
    return f"{text.rstrip()}\n{_VALIDATORS}"


def certify(
    cluster: Cluster,
    task: str,
    *,
    not_validated: NotAsked | None = None,
    not_compared: Mapping[str, NotAsked] = MappingProxyType({}),
) -> None:
    """Asserts that ``dmctl diff`` finds all tables of a synced task equal, and that its validation reports no row.

    Of the target tables in ``not_compared``, diff must say that they are not.
    """
    if not_validated is None:
        _assert_nothing_reported(cluster, task)
    cluster.ok("diff", "start", task)
    answer = ended(cluster, task, seconds=LONGEST)
    states = {name: table["state"] for name, table in tables(answer).items()}
    expected = {table: "not compared" if table in not_compared else "equal" for table in (*states, *not_compared)}
    assert expected, "no table was compared"
    assert states == expected, json.dumps([answer, *lines(answer)], indent=1)


def _assert_nothing_reported(cluster: Cluster, task: str) -> None:
    """Waits until all that was applied is validated. A table that cannot be validated must be one without a key."""
    status: dict[str, Any] = {}

    def done() -> bool:
        ends = {source: one["sync"]["syncerBinlog"] for source, one in cluster.subtasks(task).items()}
        status.clear()
        status.update(cluster.dmctl("validation", "status", task))
        reached = {
            one["source"]: one["validatorBinlog"]
            for one in status["validators"]
            if one["pendingRowsStatus"] == _NONE_WAITS
        }
        return bool(ends) and reached == ends

    _wait(cluster, done, f"the changes of {task} are validated", status)
    errors = cluster.dmctl("validation", "show-error", task, "--error", "all")["error"]
    assert not errors, json.dumps([errors, status], indent=1)
    assert not any((one["result"] or {}).get("errors") for one in status["validators"]), json.dumps(status, indent=1)


def _wait(cluster: Cluster, done: Callable[[], bool], what: str, shown: dict[str, Any]) -> None:
    try:
        wait_until(done, what, LONGEST, step=0.3)
    except HarnessError as exc:
        raise HarnessError(f"{exc}\n{json.dumps(shown, indent=1)}\n{cluster.logs()}") from None
