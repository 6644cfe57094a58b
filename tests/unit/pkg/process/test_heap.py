"""Hazard: the system clears the pages again for each batch."""

from __future__ import annotations

import subprocess
import sys

from pkg.process.heap import keep_freed

_FAULTS = """
import ctypes, resource, sys
from pkg.process.heap import keep_freed
# PR_SET_THP_DISABLE: a system that gives huge pages unasked counts one fault for 512 pages.
assert ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) == 0
if sys.argv[1:]:
    assert keep_freed()
def batch(filling):
    parts = [filling * (16 << 20) for _ in range(3)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for filling in (b"a", b"b", b"c"):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    last = batch(filling) - before
print(last)
"""


def _faults(*told: str) -> int:
    done = subprocess.run([sys.executable, "-c", _FAULTS, *told], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_memory_that_is_free_again_is_used_again() -> None:
    pages = (48 << 20) // 4096
    assert _faults("keep") < pages // 10
    # Without, nearly each page of the third batch is new: what is tested is the setting.
    assert _faults() > pages // 3


def test_it_can_be_told_twice() -> None:
    assert keep_freed()
    assert keep_freed()
