"""The body of a load's Spark task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from dm_worker.loader.load_task import FileSpec, LoadSpec, run_load_task


def test_a_task_reads_its_whole_partition() -> None:
    """Spark ends a Python worker whose task leaves a part of its data unread, and with it what the worker had warm."""
    ended = []

    def partition() -> Iterator[list[FileSpec]]:
        yield []
        ended.append(True)

    assert list(run_load_task(cast(LoadSpec, None), partition())) == []
    assert ended == [True]
