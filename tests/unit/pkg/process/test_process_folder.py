"""Hazard: a dead process leaves its temporary folder forever, or a living one loses its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pkg.process.process_folder import ProcessFolder


def test_a_killed_owners_folder_is_removed_by_the_next_process(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from pkg.process.process_folder import ProcessFolder\n"
        f"ProcessFolder('w-', Path({str(tmp_path)!r})); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).parents[4])
    assert len(list(tmp_path.iterdir())) == 1
    living = ProcessFolder("w-", tmp_path)
    other = ProcessFolder("w-", tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([living.path, other.path]), "the dead one's is gone, the living stay"
    living.remove()
    living.remove()
    assert list(tmp_path.iterdir()) == [other.path]
    other.remove()
