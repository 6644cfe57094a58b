"""Comparisons that `dmctl diff` has started: their answer at the end, and the differences in the workers' files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.local.cluster import Cluster
from deploy.local.process import HarnessError, wait_until

#: Seconds in which a comparison of a test's tables ends on a busy machine.
LONGEST = 240.0


def ended(cluster: Cluster, *which: str, seconds: float = LONGEST) -> dict[str, Any]:
    """The answer of ``dmctl diff status`` once the comparison has ended on all sources. ``which``: its arguments."""
    answer: dict[str, Any] = {}
    failure = ""

    def done() -> bool:
        nonlocal failure
        answer.clear()
        try:
            answer.update(cluster.dmctl("diff", "status", *which))
        except HarnessError as exc:  # dmctl exits with 1 while a worker is restarted
            failure = str(exc)
            return False
        return answer["verdict"] != "running" and all(one["stage"] == "Finished" for one in answer["sources"])

    try:
        wait_until(done, "the comparison has ended", seconds, step=0.3)
    except HarnessError as exc:
        shown = json.dumps(answer, indent=1) if answer else failure
        raise HarnessError(f"{exc}\n{shown}\n{cluster.logs()}") from None
    return answer


def tables(answer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The compared tables, by the target's names."""
    return {table["target"]: table for source in answer["sources"] for table in source["tables"]}


def lines(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All differences, from the files of the workers."""
    paths = [source["differences"] for source in answer["sources"] if source["differences"]]
    return [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
