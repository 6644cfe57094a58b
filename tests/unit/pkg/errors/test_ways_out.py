"""Hazard: a task stops, and its error names no way on, or a command that does not exist."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from dmctl.commands import COMMANDS, LazyCommands
from dmctl.options import parse_options
from pkg import errors
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice, StoppedUnit, rendered, unmarked, way_on, way_on_of_relay

ROOT = Path(__file__).parents[4]
#: What a subtask or relay stops with is made there.
UNITS = ("dm_worker/syncer", "dm_worker/loader", "dm_worker/dumper", "dm_worker/relay", "dm_worker/meta")
#: Errors that stop nothing: the caller catches them, with the reason.
CAUGHT = {
    "dm_worker/relay/recovery.py": "why a file is cut; `examine` returns the text",
    "dm_worker/syncer/ddl/trial.py": "why a trial does not count; it is logged",
}
#: What units use, and what they then stop with.
PARTS = (
    "dm_worker/engine", "pkg/binlog", "pkg/ddl", "pkg/mysql", "pkg/rules", "pkg/schema_tracker", "pkg/task_meta",
)  # fmt: skip
#: Raise sites without advice and without automatic retries: why nobody is left alone with them.
WITHOUT_ADVICE = {
    "dm_worker/relay/recovery.py": "caught: why a file is cut",
    "dm_worker/syncer/ddl/trial.py": "caught: why a trial does not count; it is logged",
    "pkg/binlog/events.py": "reading: the syncer adds how to go on after the event, the relay how to resume",
    "pkg/binlog/streams/framing.py": "reading: as pkg/binlog/events.py",
    "pkg/binlog/rows/row_decoder.py": "reading: as pkg/binlog/events.py",
    "pkg/binlog/streams/transaction_payload.py": "reading: as pkg/binlog/events.py",
    "pkg/binlog/position.py": "a request's or checkpoint's text; whoever asks adds the advice",
    "pkg/binlog/streams/stream.py": "a stream that its run has closed",
    "pkg/mysql/connection.py": "certificates that cannot be read: the message names the file",
}
_COMMAND = re.compile(r"`dmctl ([a-z][a-z-]+)")
SOURCES = [path for folder in ("dm_worker", "dm_master", "pkg") for path in sorted((ROOT / folder).rglob("*.py"))]


def called(call: ast.Call) -> str:
    """The name of a called function, as far as it is one or two words, like ``errors.new``."""
    match call.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
        case _:
            return ""


def trees(paths: list[Path]) -> Iterator[tuple[str, ast.AST]]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield str(path.relative_to(ROOT)), node


def test_every_command_that_a_text_names_is_one_that_dmctl_has() -> None:
    named = {
        (command, file)
        for file, node in trees([path for path in SOURCES if "dmctl" in path.read_text(encoding="utf-8")])
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
        and called(node) == "errors.new"
        and not {"workaround", "retryable"} & {keyword.arg for keyword in node.keywords}
        and file not in CAUGHT
    }
    assert silent == set()


# -- the catalogue: every error × unit --

#: What only a run knows of a text.
_OF_A_RUN = "…"
#: A command in prose, which an operator cannot copy.
_BARE = re.compile(r"(?<!dmctl )\bresume-relay\b|\b[Rr]esume the task\b|\bTASK|\bSOURCE\b|META-SCHEMA|<advice")
_BARE_IN_RELAY = re.compile(r"(?<!dmctl )\bresume-relay\b|\bTASK|\bSOURCE\b|META-SCHEMA|<advice")
STOPPED = StoppedUnit("s1", "t")
_COPIES = re.compile(r"\b(?:copy|dump|migrate)\b[^.;]*\bagain\b|--remove-meta", re.IGNORECASE)


@dataclass(frozen=True)
class RaiseSite:
    """An ``errors.new`` in the source. ``advice``: as far as it is known without the values of a run."""

    place: str
    code: str
    advice: str
    retried: bool

    def error(self) -> DMError:
        kind = getattr(Code, self.code.removeprefix("Code."), Code.SyncerUnitPanic)
        return errors.new(kind, "it failed", workaround=self.advice, retryable=self.retried)


def text_of(node: ast.AST | None, names: dict[str, Any]) -> str:
    """The text of an expression; what only a run knows is left out."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            found = names.get(name)
            return found if isinstance(found, str) else _OF_A_RUN
        case ast.Attribute(value=ast.Name(id="Advice"), attr=name):
            return Advice[name]
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="Advice"), attr=name), attr="about" | "for_table")
        ):
            return Advice[name].about("position")
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part, names) for part in parts)
        case ast.FormattedValue(value=value):
            return text_of(value, names)
        case ast.BinOp(left=left, right=right):
            return text_of(left, names) + text_of(right, names)
        case ast.IfExp(body=one, orelse=other):
            return text_of(one, names) or text_of(other, names)
        case ast.BoolOp(values=values):
            return next((text for text in (text_of(value, names) for value in values) if text), "")
        case _:
            return _OF_A_RUN if node is not None else ""


def sites(folders: tuple[str, ...]) -> Iterator[RaiseSite]:
    for folder in folders:
        yield from _sites(folder)


@cache
def _sites(folder: str) -> tuple[RaiseSite, ...]:
    return tuple(site for path in sorted((ROOT / folder).rglob("*.py")) for site in _sites_of_module(path))


def _sites_of_module(path: Path) -> Iterator[RaiseSite]:
    file = str(path.relative_to(ROOT))
    names = vars(importlib.import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and called(node) in ("errors.new", "new"):
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            yield RaiseSite(
                f"{file}:{node.lineno}",
                ast.unparse(node.args[0]),
                text_of(given.get("workaround"), names),
                ast.unparse(given.get("retryable", ast.Constant(False))) == "True",
            )


def test_only_listed_errors_have_no_advice_of_their_own() -> None:
    silent = {site.place.partition(":")[0] for site in sites(UNITS + PARTS) if not site.advice and not site.retried}
    assert silent == set(WITHOUT_ADVICE)


@pytest.mark.parametrize("unit", UNITS)
def test_every_error_of_a_unit_names_a_whole_command_that_goes_on(unit: str) -> None:
    """The units' own errors, and those of what all units use; as the status shows them."""
    found = list(sites((unit, *PARTS)))
    assert len(found) > 60
    for site in found:
        if unit == "dm_worker/relay":
            shown = way_on_of_relay(site.error(), "mysql-01")
            assert site.retried or "`dmctl " in shown, site
            assert not _BARE_IN_RELAY.search(shown), (site, shown)
            continue
        shown = way_on(site.error(), "orders", "mysql-01")
        assert site.retried or "`dmctl " in shown, site
        assert not _BARE.search(shown), (site, shown)
        if _COPIES.search(shown):
            assert "`dmctl start-task --remove-meta`" in shown, (site, shown)


def test_words_of_an_advice_become_commands_with_names() -> None:
    def shown(advice: str, **changes: Any) -> str:
        return way_on(errors.new(Code.DBExecuteFailed, "refused", workaround=advice, **changes), "t", "s1")

    assert shown("Free space, then resume the task.") == "Free space, then `dmctl resume-task t -s s1`."
    on = "To continue: `dmctl resume-task t -s s1`; after a change of the task file: `dmctl stop-task t`, then"
    assert shown("Drop the key.") == f"Drop the key. {on} `dmctl start-task` with the file."
    assert shown("").startswith(on)
    assert shown("", retryable=True) == ""
    assert shown("Check the file, or dump again.").endswith(
        f"To copy the tables again: {rendered(Advice.COPY_AGAIN, STOPPED)}."
    )
    whole = f"Copy them again: {Advice.COPY_AGAIN}."
    assert shown(whole) == rendered(whole, STOPPED)
    relay = errors.new(Code.RelayMkdir, "refused", workaround="Check its disk; then resume-relay.")
    assert way_on_of_relay(relay, "s1") == "Check its disk; then `dmctl resume-relay -s s1`."


def _commands(text: str) -> Iterator[list[str]]:
    """The words of each command in ``text``; start-task gets the file, which the text names beside it."""
    for found in re.findall(r"`dmctl ([^`]+)`", text):
        yield [*shlex.split(found), *(["task.yaml"] if found.startswith("start-task") else [])]


def _parse(command_line: list[str]) -> Sequence[str]:
    """The sources that the command is for. Raises for what dmctl does not take, as dmctl does."""
    options, rest = parse_options(command_line)
    name, *words = rest
    group = LazyCommands()
    command = group.get_command(click.Context(group), name)
    assert command is not None, name
    if isinstance(command, click.Group):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)
    return options.sources


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("advice", Advice)
def test_each_advice_has_commands_that_dmctl_parses(advice: Advice, known: bool) -> None:
    about_tables = (Advice.CORRECT_STRUCTURE, Advice.SUPPLY_STRUCTURE, Advice.STRUCTURE_OF_TARGET)
    what = "shop orders" if advice in about_tables else "bin.000001:4"
    needs_position = advice is Advice.SKIP_OR_REPLACE_RESOLVED
    text = rendered(
        f"Do: {advice.about(what) if known or needs_position else advice}", StoppedUnit("mysql-01", "orders")
    )
    found = list(_commands(text))
    assert found
    assert {source for words in found for source in _parse(words)} <= {"mysql-01"}
    assert not re.search(r"\bTASK|\bSOURCE\b|META-SCHEMA|<advice", text), text


@pytest.mark.parametrize("advice", [Advice.COPY_AGAIN, Advice.DEFECT, Advice.FETCH_RELAY_AGAIN, Advice.RESUME])
def test_an_advice_for_a_relay_names_no_task(advice: Advice) -> None:
    text = rendered(advice, StoppedUnit("mysql-01"))
    for words in _commands(text):
        assert list(_parse(words)) == ([] if words[0] == "start-task" else ["mysql-01"])
    assert "TASK" not in text
    assert "  " not in text


def test_an_error_that_is_shown_early_has_no_mark() -> None:
    error = errors.new(Code.SyncerUnitPanic, "it failed", workaround=f"Look. {Advice.DEFECT}")
    assert unmarked(error.workaround) == "Look."
    assert str(error).endswith("Message: it failed, Workaround: Look.")
    assert error.to_dict()["Workaround"] == "Look."
