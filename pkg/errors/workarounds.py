"""Workarounds that several parts of replication share. docs/operations.md has the details.

The code that creates an error does not know which task it will stop. Its workaround therefore has an :class:`Advice`, a
mark that f-strings accept like text. :func:`rendered` expands it once, where the error leaves a subtask or a relay.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from pkg.errors import DMError


class Advice(StrEnum):
    """An advice whose commands contain names that are known later."""

    #: For a statement that can't be replicated; it names the position where its event begins, once that is known.
    SKIP_OR_REPLACE = "<advice skip-or-replace>"
    #: For a DDL that all shards have executed and the target refuses; it names the position before the first one.
    SKIP_OR_REPLACE_RESOLVED = "<advice skip-or-replace-resolved>"
    #: For an event other than a statement that can't be replicated.
    CONTINUE_AFTER_EVENT = "<advice continue-after-event>"
    #: For a batch that the target refuses although its tables are correct.
    BATCH_IN_SAFE_MODE = "<advice batch-in-safe-mode>"
    #: The command that continues.
    RESUME = "<advice resume>"
    #: The commands that apply a changed task file.
    RESTART_WITH_FILE = "<advice restart-with-file>"
    #: For an exception that this program does not handle.
    DEFECT = "<advice defect>"
    #: How to copy the tables of a task again.
    COPY_AGAIN = "<advice copy-again>"
    #: For a binlog other than the one that was read before.
    BINLOG_REPLACED = "<advice binlog-replaced>"
    #: For an upstream with another binlog than the one that was read before.
    OTHER_BINLOG = "<advice other-binlog>"
    #: For relay files that cannot be continued.
    FETCH_RELAY_AGAIN = "<advice fetch-relay-again>"
    #: For a table whose known structure differs from that of its rows; it names the table.
    CORRECT_STRUCTURE = "<advice correct-structure>"
    #: For a table whose rows have no proven structure; it names the table.
    SUPPLY_STRUCTURE = "<advice supply-structure>"
    #: The command that takes the target's structure as the one that the rows have; about the table.
    STRUCTURE_OF_TARGET = "<advice structure-of-target>"

    def about(self, what: str) -> str:
        """The advice for one position."""
        return f"{self[:-1]} {quote(what, safe='')}>"

    def for_table(self, schema: str, table: str) -> str:
        """The advice for one table."""
        return self.about(shlex.join((schema, table)))


@dataclass(frozen=True, slots=True)
class StoppedUnit:
    """What an error stops: a task on a source or, without ``task``, the source's relay."""

    source: str
    task: str = ""

    @property
    def resume(self) -> str:
        """The command to continue."""
        if self.task:
            return f"`dmctl resume-task {self.task} -s {self.source}`"
        return f"`dmctl resume-relay -s {self.source}`"

    @property
    def stop_task(self) -> str:
        """The command that stops the task, or all tasks of the source."""
        return f"`dmctl stop-task {self.task}`" if self.task else f"`dmctl stop-task -s {self.source}`"


_MARK = re.compile(r"<advice ([a-z-]+)(?: ([^> ]+))?>")
_START_ANEW = "`dmctl start-task --remove-meta`"
_SEE = "docs/operations.md, 'Getting past a statement', shows the steps"
#: A table in a command when the error names it.
_SOME_TABLE = "SCHEMA TABLE"


def _skip_or_replace(stopped: StoppedUnit, position: str) -> str:
    where = f"{stopped.task} -s {stopped.source}" + (f" -b {position}" if position else "")
    return (
        f"To skip the statement: `dmctl binlog skip {where}`. To execute other DDL in place of it, or before it: "
        f'`dmctl binlog replace {where} "STATEMENT; …"`, or `binlog inject`. {_SEE}.'
    )


def _skip_or_replace_resolved(stopped: StoppedUnit, position: str) -> str:
    where = f"{stopped.task} -s {stopped.source} -b {position}"
    return (
        "All shards have run it: the target table needs the structure that the following rows have. To execute other "
        f'DDL in place of it: `dmctl binlog replace {where} "STATEMENT; …"`, with the name of '
        "an upstream table. To continue without it: give the target table that structure by hand, then "
        f"`dmctl binlog skip {where}`."
    )


def _continue_after_event(stopped: StoppedUnit, _: str) -> str:
    return (
        f"To continue after it: 1. {stopped.stop_task}. 2. On the target, make its changes to migrated tables by hand. "
        f"3. On the target, in the table {stopped.task}_syncer_checkpoint of the meta-schema, set binlog_name, "
        f"binlog_pos and binlog_gtid of the row with id = '{stopped.source}' and is_global = 1 to the endLocation of "
        "this error. 4. `dmctl start-task` with the file, without --remove-meta; it continues in safe mode. "
        "docs/operations.md, 'Getting past an event by hand', shows the steps."
    )


def _batch_in_safe_mode(stopped: StoppedUnit, _: str) -> str:
    return (
        "To apply the stopped batch again in safe mode, in which rows replace others that have their keys: "
        f"`dmctl resume-task {stopped.task} -s {stopped.source} --safe-mode`. Safe mode ends at the end of this batch."
    )


def _restart_with_file(stopped: StoppedUnit, _: str) -> str:
    return f"{stopped.stop_task} and `dmctl start-task` with the file"


def _defect(stopped: StoppedUnit, _: str) -> str:
    return (
        f"This is a defect of dm-worker. {stopped.resume} tries again; nothing is lost. Keep the worker's log of this "
        "minute and report it."
    )


def _copy_again(stopped: StoppedUnit, _: str) -> str:
    return f"{stopped.stop_task}, empty the target tables, {_START_ANEW} with the task file"


def _binlog_replaced(stopped: StoppedUnit, _: str) -> str:
    return (
        "Check whether the upstream was reset, or its binlog files were replaced. If so, the tables must be copied "
        f"again: {_copy_again(stopped, '')}. Otherwise {stopped.resume} reads it again."
    )


def _other_binlog(stopped: StoppedUnit, _: str) -> str:
    return (
        f"If the source points to the wrong server: make its address lead to the former one, then {stopped.resume}. If "
        "the upstream was reset (RESET MASTER) or replaced: changes that the task had not read before may be missing "
        f"at the target. To copy the tables again: {_copy_again(stopped, '')}. If the target has every change from "
        f"before the reset, and the source's enable-gtid is false: {stopped.stop_task}; in the task file, set "
        "task-mode: incremental and this source's meta to the beginning of the new binlog (the name of its first file, "
        f"and binlog-pos: 4); {_START_ANEW} with the file."
    )


def _fetch_relay_again(stopped: StoppedUnit, _: str) -> str:
    return (
        f"To fetch the relay log again: `dmctl stop-relay -s {stopped.source}` (with the workers' names if start-relay "
        f"had them), remove the relay folder of the source on this worker, `dmctl start-relay -s {stopped.source}`. "
        "The relay then starts at the subtasks' positions, if the upstream still has these files."
    )


def _correct_structure(stopped: StoppedUnit, table: str) -> str:
    return (
        f"To set the structure that the rows have: `dmctl pause-task {stopped.task}`; give the target table the same "
        f"structure; `dmctl binlog-schema update {stopped.task} {table or _SOME_TABLE} -s {stopped.source} "
        "--from-source`, or with a file of its CREATE TABLE if the upstream table was altered again after this "
        f"position; {stopped.resume}. See docs/operations.md, 'Known structures'."
    )


def _supply_structure(stopped: StoppedUnit, table: str) -> str:
    return (
        f"To set the columns that the rows have: `dmctl pause-task {stopped.task}`; `dmctl binlog-schema update "
        f"{stopped.task} {table or _SOME_TABLE} -s {stopped.source} --from-source` if the upstream table was not "
        "altered after this position, `--from-target` if the target table has the structure that the upstream table "
        f"had, otherwise with a file of its CREATE TABLE; {stopped.resume}. With binlog_row_metadata=FULL the upstream "
        "logs the names of columns, which makes this step unnecessary. See docs/operations.md, 'Known structures'."
    )


def _structure_of_target(stopped: StoppedUnit, table: str) -> str:
    return f"`dmctl binlog-schema update {stopped.task} {table or _SOME_TABLE} -s {stopped.source} --from-target`"


_TEXTS: Mapping[Advice, Callable[[StoppedUnit, str], str]] = {
    Advice.SKIP_OR_REPLACE: _skip_or_replace,
    Advice.SKIP_OR_REPLACE_RESOLVED: _skip_or_replace_resolved,
    Advice.CONTINUE_AFTER_EVENT: _continue_after_event,
    Advice.BATCH_IN_SAFE_MODE: _batch_in_safe_mode,
    Advice.RESUME: lambda stopped, _: stopped.resume,
    Advice.RESTART_WITH_FILE: _restart_with_file,
    Advice.DEFECT: _defect,
    Advice.COPY_AGAIN: _copy_again,
    Advice.BINLOG_REPLACED: _binlog_replaced,
    Advice.OTHER_BINLOG: _other_binlog,
    Advice.FETCH_RELAY_AGAIN: _fetch_relay_again,
    Advice.CORRECT_STRUCTURE: _correct_structure,
    Advice.SUPPLY_STRUCTURE: _supply_structure,
    Advice.STRUCTURE_OF_TARGET: _structure_of_target,
}


def rendered(text: str, stopped: StoppedUnit) -> str:
    """``text`` with each advice expanded."""
    return _MARK.sub(
        lambda mark: _TEXTS[Advice(f"<advice {mark[1]}>")](stopped, unquote(mark[2] or "")),
        text,
    )


def unmarked(text: str) -> str:
    """``text`` without advice, for readers of an error whose task or relay is not known yet."""
    return " ".join(_MARK.sub("", text).split()) if _MARK.search(text) else text


#: Parts of an advice that represent the command to continue.
_RESUME_TASK = re.compile(r"\b[Rr]esume the task\b")
_RESUME_RELAY = re.compile(r"(?<!dmctl )\bresume-relay\b")
_ANEW = re.compile(r"\b(?:copy|dump|migrate)\b[^.;]*\bagain\b|--remove-meta", re.IGNORECASE)


def way_on(error: DMError, task: str, source: str) -> str:
    """The advice of an error that stops a task, with complete commands that work in every state.

    An error without a command that is not retried automatically gets the commands that continue any task.
    """
    stopped = StoppedUnit(source, task)
    advice = rendered(_RESUME_TASK.sub(lambda _: stopped.resume, error.workaround), stopped)
    parts = [advice] if advice else []
    if "`dmctl " not in advice and not error.retryable:
        parts.append(
            f"To continue: {stopped.resume}; after a change of the task file: {stopped.stop_task}, then "
            "`dmctl start-task` with the file."
        )
    if _ANEW.search(advice) and _START_ANEW not in advice:
        parts.append(f"To copy the tables again: {_copy_again(stopped, '')}.")
    return " ".join(parts)


def way_on_of_relay(error: DMError, source: str) -> str:
    """The same for an error that stops a source's relay."""
    stopped = StoppedUnit(source)
    advice = rendered(_RESUME_RELAY.sub(lambda _: stopped.resume, error.workaround), stopped)
    if "`dmctl " in advice or error.retryable:
        return advice
    return f"{advice} To continue: {stopped.resume}.".strip()
