"""What to do next where several parts of replication need the same advice. docs/operations.md has the details."""

from __future__ import annotations

_SEE = "docs/operations.md, 'Getting past a statement', shows the steps"


def pass_statement(task: str, source: str, position: str = "") -> str:
    """The way past a statement that can't be replicated, as commands; ``position`` is where its event begins."""
    where = f"{task} -s {source}" + (f" -b {position}" if position else "")
    return (
        f"To skip the statement: `dmctl binlog skip {where}`. To execute other DDL in place of it, or before it: "
        f'`dmctl binlog replace {where} "STATEMENT; …"`, or `binlog inject`. {_SEE}.'
    )


#: The same where neither task nor place are known yet; the syncer puts them in.
PASS_STATEMENT = pass_statement("TASK", "SOURCE")


def skip_settled(task: str, source: str, position: str) -> str:
    """The way past a DDL that all shards have run and the target refuses; ``position``: in front of the first one."""
    return (
        "All shards have run it, so it can't be replaced. To continue without it: give the target table the "
        f"structure that the following rows need by hand, then `dmctl binlog skip {task} -s {source} -b "
        f"{position}`."
    )


#: For an event other than a statement that can't be replicated.
PASS_EVENT = (
    "To continue after it: stop-task; make its changes to migrated tables on the target by hand; set binlog_name "
    "and binlog_pos (with enable-gtid also binlog_gtid) of the source's is_global row in the task's checkpoint "
    "table to the endLocation of this error; start-task, which continues in safe mode. docs/operations.md, "
    "'Getting past an event by hand', shows the steps."
)


def renew_structure(task: str, source: str) -> str:
    """The way on when a table's known structure differs from the one that its rows have."""
    return (
        f"To set the structure that the rows have: `dmctl pause-task {task}`; give the target table the same "
        f"structure; `dmctl binlog-schema update {task} SCHEMA TABLE -s {source} --from-source`, or with a file of "
        "its CREATE TABLE if the upstream table was altered again after this position; `dmctl resume-task "
        f"{task}`. See docs/operations.md, 'Known structures'."
    )


#: The same where neither task nor source are known; the syncer puts them in.
RENEW_STRUCTURE = renew_structure("TASK", "SOURCE")


def tell_structure(task: str, source: str) -> str:
    """The way on when nothing proves which columns the rows have."""
    return (
        f"To set the columns that the rows have: `dmctl pause-task {task}`; `dmctl binlog-schema update {task} "
        f"SCHEMA TABLE -s {source} --from-source` if the upstream table was not altered after this position, "
        "`--from-target` if the target table has the structure that the upstream table had, otherwise with a file "
        f"of its CREATE TABLE; `dmctl resume-task {task}`. With binlog_row_metadata=FULL the upstream logs the "
        "names of columns, which makes this step unnecessary. See docs/operations.md, 'Known structures'."
    )


#: The same where neither task nor source are known; the syncer puts them in.
TELL_STRUCTURE = tell_structure("TASK", "SOURCE")
