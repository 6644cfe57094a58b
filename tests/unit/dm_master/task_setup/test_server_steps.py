"""Hazard: `--remove-meta` leaves something that a task kept, or removes what a task with a similar name keeps."""

from __future__ import annotations

from dm_master.task_setup.server_steps import meta_tables


def test_names_are_distinct_and_the_tasks_own() -> None:
    names = meta_tables("t")
    assert len(set(names)) == len(names)
    assert not set(names) & set(meta_tables("t_syncer"))
    assert {"t_syncer_checkpoint", "t_loader_progress", "t_syncer_batch", "t_syncer_marker", "t_syncer_ddl"} <= set(
        names
    )
