"""Runs one of the applications beside this file (``shop``, ``store``) in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from deploy.local.cluster import ROOT
from deploy.local.mysql import SQLServer


def run(name: str, server: SQLServer, *arguments: str) -> None:
    """``arguments`` are the application's own; it works on ``server``."""
    command = [sys.executable, "-m", f"tests.integration.orm.{name}", str(server.port), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
