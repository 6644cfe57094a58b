"""The tables that a task keeps in the target's meta schema, by name. ``--remove-meta`` drops all of them."""

from __future__ import annotations

#: DM's own, so that a task taken over from DM is forgotten as a whole.
_DM_SUFFIXES = (
    "syncer_checkpoint",
    "loader_checkpoint",
    "lightning_checkpoint_list",
    "onlineddl",
    "syncer_sharding_meta",
    "validator_checkpoint",
    "validator_pending_change",
    "validator_error_change",
    "validator_table_status",
)
#: Ours: progress of the load by file, and the records of the exactly-once protocol.
_OWN_SUFFIXES = ("loader_progress", "syncer_batch", "syncer_marker", "syncer_ddl", "syncer_xa")


def meta_tables(task: str) -> tuple[str, ...]:
    """Names of all meta tables that ``task`` may have, whether or not they exist."""
    return tuple(f"{task}_{suffix}" for suffix in (*_DM_SUFFIXES, *_OWN_SUFFIXES))
