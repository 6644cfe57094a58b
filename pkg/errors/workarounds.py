"""What to do next where several parts of replication need the same advice. docs/operations.md has the details."""

from __future__ import annotations

_SEE = "docs/operations.md, 'Getting past a statement', has it step by step"

#: For a statement or event that can't be replicated.
PASS_STATEMENT = (
    "To go on behind it: stop-task; do by hand on the target what it did to migrated tables; set binlog_name and "
    "binlog_pos (with enable-gtid also binlog_gtid) of the source's is_global row in the task's checkpoint table "
    "to the endLocation of this error; start-task, which goes on in safe mode. "
    f"{_SEE}."
)
#: For a known table structure that differs from the one the rows have.
RENEW_STRUCTURE = (
    "To have the structure read from the upstream again: stop-task; bring the target's table to that structure; delete "
    "the row of this schema and table from the task's checkpoint table; start-task. If the upstream's table was "
    f"altered once more behind this place, copy the table again. {_SEE}."
)
