"""A cluster that a test drives by dmctl and SQL, wherever its programs run."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pymysql

from deploy.local.cluster import escape_check_text
from deploy.local.process import HarnessError, wait_until

#: Quotes, blanks and dollars: what shells, Compose and SQL read in ways of their own.
UPSTREAM_PASSWORD, TARGET_PASSWORD = "up $1 'x", 'to$(y) "z'
#: Seconds that something in containers may take on a busy machine.
LIMIT = 150.0
_DONE_BEFORE = "code=46014"


class DrivenCluster(ABC):
    """Masters and workers, upstreams and a target; subclasses say how they are reached."""

    #: The masters in which dmctl can be started.
    masters: Sequence[str]

    @abstractmethod
    def run_dmctl(self, master: str, arguments: Sequence[str], text: str) -> str:
        """What dmctl prints that is started beside ``master``. The argument ``-`` is a file of ``text``. Raises
        ``HarnessError`` if it cannot be started there, or fails."""

    def dmctl(self, *arguments: str, text: str = "") -> dict[str, Any]:
        """The answer of dmctl beside the first master where it works. Raises ``HarnessError`` if there is none."""
        found = ""
        for master in self.masters:
            try:
                found = self.run_dmctl(master, arguments, text)
                break
            except HarnessError as exc:
                found = str(exc)
        try:
            answer = json.loads(escape_check_text(found))
        except ValueError as exc:
            raise HarnessError(f"dmctl {' '.join(arguments)}: {found[:3000]}") from exc
        assert isinstance(answer, dict)
        return answer

    @abstractmethod
    def connect(self, server: str) -> pymysql.Connection[Any]:
        """A connection from this machine to an upstream (by its name) or to ``target``."""

    def ok(self, *arguments: str, text: str = "") -> dict[str, Any]:
        """A command that must succeed, at the latest when the cluster is complete again."""
        answers: list[object] = []

        def done() -> bool:
            try:
                answers.append(self.dmctl(*arguments, text=text))
            except HarnessError as exc:
                answers.append(exc)
                return False
            answer = answers[-1]
            # An earlier try may have done its work although its answer was lost.
            return isinstance(answer, dict) and (answer["result"] or _DONE_BEFORE in str(answer["msg"]))

        wait_until(done, lambda: f"dmctl {' '.join(arguments)} succeeds: {str(answers[-1])[:3000]}", LIMIT, step=2)
        assert isinstance(answers[-1], dict)
        return answers[-1]

    def members(self) -> tuple[str, dict[str, str]]:
        """The leader's name, and of each worker the source that it serves (empty: none, or it is offline)."""
        leader, workers = "", {}
        for part in self.ok("list-member")["members"]:
            leader = part.get("leader", {}).get("name", leader)
            for worker in part.get("worker", {}).get("workers") or []:
                workers[worker["name"]] = worker["source"] if worker["stage"] == "bound" else ""
        return leader, workers

    def server_of(self, source: str, *, other_than: str = "") -> str:
        """The worker that serves ``source``, once one does."""
        found: list[str] = []

        def served() -> bool:
            found[:] = [name for name, bound in self.members()[1].items() if bound == source and name != other_than]
            return bool(found)

        wait_until(served, f"a worker serves {source}", LIMIT, step=1)
        return found[0]

    def wait_sync(self, task: str) -> None:
        """Waits until every subtask replicates."""
        last: list[object] = []

        def running() -> bool:
            last.append(self.dmctl("query-status", task))
            answer = last[-1]
            parts = [sub for source in answer.get("sources", []) for sub in source.get("subTaskStatus") or []]  # type: ignore[attr-defined]
            return bool(parts) and all((sub["stage"], sub["unit"]) == ("Running", "Sync") for sub in parts)

        wait_until(running, lambda: f"{task} replicates: {last[-1]}", LIMIT, step=1)
