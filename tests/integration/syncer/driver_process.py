"""Starts :mod:`driver` as a process of its own, and waits for what it does."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from deploy.local.process import WAIT_TIMEOUT
from pkg.config.model import SubTaskConfig

ROOT = Path(__file__).parents[3]


def start_driver(cfg: SubTaskConfig, *options: str) -> subprocess.Popen[str]:
    argument = base64.b64encode(pickle.dumps(cfg)).decode()
    command = [sys.executable, "-m", "tests.integration.syncer.driver", argument, *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(condition: Callable[[], bool], timeout: float = WAIT_TIMEOUT) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
