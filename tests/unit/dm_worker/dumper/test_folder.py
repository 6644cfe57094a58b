"""Hazard: a finished dump is taken for that of another configuration."""

from __future__ import annotations

from dataclasses import replace

from dm_worker.dumper.folder import fingerprint
from tests.unit.dm_worker.dumper.support import dump_task_config


def test_a_dump_with_collations_is_another_dump() -> None:
    loose = dump_task_config("")
    assert fingerprint(replace(loose, collation_compatible="strict")) != fingerprint(loose)
