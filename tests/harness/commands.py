"""Commands of other programs that a test needs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from deploy.local.process import HarnessError


def run_in(folder: Path, *command: str) -> None:
    """Runs a command that must succeed in ``folder``."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"{' '.join(command)} gave {done.returncode}:\n{done.stdout}{done.stderr}")
