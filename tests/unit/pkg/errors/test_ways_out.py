"""Hazard: a task stops, and its error names no way on, or a command that does not exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dmctl.commands import COMMANDS

ROOT = Path(__file__).parents[4]
#: What a subtask or relay stops with is made there.
UNITS = ("dm_worker/syncer", "dm_worker/loader", "dm_worker/dumper", "dm_worker/relay", "dm_worker/meta")
#: Errors that stop nothing: the caller catches them, with the reason.
CAUGHT = {
    "dm_worker/relay/recovery.py": "why a file is cut; `examine` returns the text",
    "dm_worker/syncer/ddl/trial.py": "why a trial does not count; it is logged",
}
_COMMAND = re.compile(r"`dmctl ([a-z][a-z-]+)")
SOURCES = [path for folder in ("dm_worker", "dm_master", "pkg") for path in sorted((ROOT / folder).rglob("*.py"))]


def trees(paths: list[Path]) -> Iterator[tuple[str, ast.AST]]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield str(path.relative_to(ROOT)), node


def test_every_command_that_a_text_names_is_one_that_dmctl_has() -> None:
    named = {
        (command, file)
        for file, node in trees(SOURCES)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for command in _COMMAND.findall(node.value)
    }
    assert {"resume-task", "stop-task", "start-task", "binlog"} <= {command for command, _ in named}
    assert {(command, file) for command, file in named if command not in COMMANDS} == set()


@pytest.mark.parametrize("unit", UNITS)
def test_every_error_of_a_unit_says_what_to_do_or_is_tried_again(unit: str) -> None:
    silent = {
        f"{file}:{node.lineno}"
        for file, node in trees([path for path in SOURCES if str(path.relative_to(ROOT)).startswith(unit + "/")])
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "errors.new"
        and not {"workaround", "retryable"} & {keyword.arg for keyword in node.keywords}
        and file not in CAUGHT
    }
    assert silent == set()
