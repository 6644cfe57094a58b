"""Hazard: memory runs out in the compiled code, and it crashes, goes on with half of the rows, or hides the cause."""

from __future__ import annotations

import subprocess

import pytest

from deploy.local.cluster import environment, program
from tests.compiled import required

for name in ("rows", "scan", "dump", "sqlscan", "compare"):
    required(name)


@pytest.mark.parametrize(
    "call", ["partitioned", "merged", "dumped", "scanned", "mapped", "completed", "unpaired", "packed", "ranked"]
)
def test_every_allocation_may_fail(call: str) -> None:
    done = subprocess.run(
        program("tests.unit.pkg.native.no_memory", call),
        env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 20
