"""What to do next where several parts of replication need the same advice. docs/operations.md has the details."""

from __future__ import annotations

import re

_SEE = "docs/operations.md, 'Getting past a statement', shows the steps"


def skip_or_replace(task: str, source: str, position: str = "") -> str:
    """The commands for a statement that can't be replicated; ``position`` is where its event begins."""
    where = f"{task} -s {source}" + (f" -b {position}" if position else "")
    return (
        f"To skip the statement: `dmctl binlog skip {where}`. To execute other DDL in place of it, or before it: "
        f'`dmctl binlog replace {where} "STATEMENT; …"`, or `binlog inject`. {_SEE}.'
    )


#: The same where neither task nor position are known yet; the syncer puts them in.
SKIP_OR_REPLACE = skip_or_replace("TASK", "SOURCE")


def skip_or_replace_resolved(task: str, source: str, position: str) -> str:
    """The way past a DDL that all shards have run and the target refuses; ``position`` is before the first one."""
    return (
        "All shards have run it: the target table needs the structure that the following rows have. To execute other "
        f'DDL in place of it: `dmctl binlog replace {task} -s {source} -b {position} "STATEMENT; …"`, with the name of '
        "an upstream table. To continue without it: give the target table that structure by hand, then "
        f"`dmctl binlog skip {task} -s {source} -b {position}`."
    )


#: For an event other than a statement that can't be replicated.
CONTINUE_AFTER_EVENT = (
    "To continue after it: 1. `dmctl stop-task TASK`. 2. On the target, make its changes to migrated tables by hand. "
    "3. On the target, in META-SCHEMA.TASK_syncer_checkpoint, set binlog_name, binlog_pos and binlog_gtid of the row "
    "with id = 'SOURCE' and is_global = 1 to the endLocation of this error. 4. `dmctl start-task` without "
    "--remove-meta; it continues in safe mode. docs/operations.md, 'Getting past an event by hand', shows the steps."
)

#: For a batch that the target refuses though its tables are as they should be.
BATCH_IN_SAFE_MODE = (
    "To apply the stopped batch again in safe mode, in which rows replace others that have their keys: "
    "`dmctl resume-task TASK -s SOURCE --safe-mode`. Safe mode ends at the end of this batch."
)

#: For an exception that nothing of this program handles.
DEFECT = (
    "This is a defect of dm-worker. `dmctl resume-task TASK` (of a relay: `dmctl resume-relay -s SOURCE`) tries again; "
    "nothing is lost. Keep the worker's log of this minute and report it."
)
#: How to copy the tables of a task again.
COPY_AGAIN = "`dmctl stop-task TASK`, empty the target tables, `dmctl start-task --remove-meta` with the task file"
#: For a binlog that is not the one that was read before.
BINLOG_REPLACED = (
    "Check whether the upstream was reset, or its binlog files were replaced. If so, the tables must be copied again: "
    f"{COPY_AGAIN}. Otherwise `dmctl resume-task TASK` reads it again."
)


def other_binlog(task: str) -> str:
    """What to do when the upstream has another binlog than the one that was read before."""
    return (
        "If the source points to the wrong server: make its address lead to the former one, then `dmctl resume-task "
        f"{task}`. If the upstream was reset (RESET MASTER) or replaced: changes that the task had not read before may "
        f"be missing at the target. To copy the tables again: `dmctl stop-task {task}`, empty the target tables, "
        "`dmctl start-task --remove-meta` with the task file. If the target has every change from before the reset, "
        f"and the source's enable-gtid is false: `dmctl stop-task {task}`; in the task file, set task-mode: "
        "incremental and this source's meta to the beginning of the new binlog (the name of its first file, and "
        "binlog-pos: 4); `dmctl start-task --remove-meta` with the file."
    )


#: The same where the task's name is not known; the syncer puts it in.
OTHER_BINLOG = other_binlog("TASK")

#: For relay files that cannot be continued.
FETCH_RELAY_AGAIN = (
    "To fetch the relay log again: `dmctl stop-relay -s SOURCE` (with the workers' names if start-relay had them), "
    "remove the relay folder of the source on this worker, `dmctl start-relay -s SOURCE`. The relay then starts at the "
    "subtasks' positions, if the upstream still has these files."
)


def correct_structure(task: str, source: str, table: str = "SCHEMA TABLE") -> str:
    """What to do when a table's known structure differs from the one that its rows have."""
    return (
        f"To set the structure that the rows have: `dmctl pause-task {task}`; give the target table the same "
        f"structure; `dmctl binlog-schema update {task} {table} -s {source} --from-source`, or with a file of "
        "its CREATE TABLE if the upstream table was altered again after this position; `dmctl resume-task "
        f"{task}`. See docs/operations.md, 'Known structures'."
    )


def with_names(advice: str, task: str, source: str) -> str:
    """The commands of an advice with the names that were not known where it was given."""
    return re.sub(r"\bTASK\b", lambda _: task, advice).replace("-s SOURCE", f"-s {source}")


#: The same where neither task nor source are known; the syncer puts them in.
CORRECT_STRUCTURE = correct_structure("TASK", "SOURCE")


def supply_structure(task: str, source: str, table: str = "SCHEMA TABLE") -> str:
    """What to do when nothing proves which columns the rows have."""
    return (
        f"To set the columns that the rows have: `dmctl pause-task {task}`; `dmctl binlog-schema update {task} "
        f"{table} -s {source} --from-source` if the upstream table was not altered after this position, "
        "`--from-target` if the target table has the structure that the upstream table had, otherwise with a file "
        f"of its CREATE TABLE; `dmctl resume-task {task}`. With binlog_row_metadata=FULL the upstream logs the "
        "names of columns, which makes this step unnecessary. See docs/operations.md, 'Known structures'."
    )
