"""What to do next where several parts of replication need the same advice. docs/operations.md has the details."""

from __future__ import annotations

_SEE = "docs/operations.md, 'Getting past a statement', has it step by step"


def pass_statement(task: str, source: str, position: str = "") -> str:
    """The way past a statement that can't be replicated, as commands; ``position`` is where its event begins."""
    where = f"{task} -s {source}" + (f" -b {position}" if position else "")
    return (
        f"To leave the statement out: `dmctl binlog skip {where}`. To execute other DDL in its place, or before it: "
        f'`dmctl binlog replace {where} "STATEMENT; …"`, or `binlog inject`. {_SEE}.'
    )


#: The same where neither task nor place are known yet; the syncer puts them in.
PASS_STATEMENT = pass_statement("TASK", "SOURCE")


def skip_settled(task: str, source: str, position: str) -> str:
    """The way past a DDL that all shards have run and the target refuses; ``position``: in front of the first one."""
    return (
        "All shards have run it, so it can't be replaced. To go on without it: give the target's table by hand the "
        f"structure that the rows behind it need, then `dmctl binlog skip {task} -s {source} -b {position}`."
    )


#: For an event other than a statement that can't be replicated.
PASS_EVENT = (
    "To go on behind it: stop-task; do by hand on the target what it did to migrated tables; set binlog_name and "
    "binlog_pos (with enable-gtid also binlog_gtid) of the source's is_global row in the task's checkpoint table "
    "to the endLocation of this error; start-task, which goes on in safe mode. "
    "docs/operations.md, 'Getting past an event by hand', has it step by step."
)


def renew_structure(task: str, source: str) -> str:
    """The way on when a table's known structure differs from the one that its rows have."""
    return (
        f"To set the structure that the rows have: `dmctl pause-task {task}`; bring the target's table to it; "
        f"`dmctl binlog-schema update {task} SCHEMA TABLE -s {source} --from-source`, or with a file of its CREATE "
        f"TABLE if the upstream's table was altered once more behind this place; `dmctl resume-task {task}`. "
        "See docs/operations.md, 'Known structures'."
    )


#: The same where neither task nor source are known; the syncer puts them in.
RENEW_STRUCTURE = renew_structure("TASK", "SOURCE")


def tell_structure(task: str, source: str) -> str:
    """The way on when nothing proves which columns the rows have."""
    return (
        f"Say which columns the rows have: `dmctl pause-task {task}`; `dmctl binlog-schema update {task} SCHEMA TABLE "
        f"-s {source} --from-source` if the upstream's table was not altered since this place, `--from-target` if the "
        "target's table is as the upstream's was, else with a file of its CREATE TABLE; "
        f"`dmctl resume-task {task}`. With binlog_row_metadata=FULL the upstream logs the names of columns, and nobody "
        "has to say anything. See docs/operations.md, 'Known structures'."
    )


#: The same where neither task nor source are known; the syncer puts them in.
TELL_STRUCTURE = tell_structure("TASK", "SOURCE")
