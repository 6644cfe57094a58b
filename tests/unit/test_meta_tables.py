"""--remove-meta must forget everything a task kept, and nothing of a task with a similar name."""

from __future__ import annotations

from pkg.meta_tables import meta_tables


def test_names_are_distinct_and_the_tasks_own() -> None:
    names = meta_tables("t")
    assert len(set(names)) == len(names)
    assert not set(names) & set(meta_tables("t_syncer"))
    assert {"t_syncer_checkpoint", "t_loader_progress", "t_syncer_batch", "t_syncer_marker", "t_syncer_ddl"} <= set(
        names
    )
