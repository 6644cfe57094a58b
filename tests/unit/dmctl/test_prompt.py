"""The prompt as a person at a terminal sees it; what a person types must not lie around afterwards."""

from __future__ import annotations

import os
import pty
import sys
import time
from pathlib import Path

from tests.harness.process import wait_until


def test_prompt_history_and_exit(tmp_path: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.environ["HOME"] = str(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "dmctl.cli", "--master-addr", "127.0.0.1:1"])
    screen = b""

    def shows(text: bytes) -> bool:
        nonlocal screen
        screen += os.read(terminal, 5000)
        return text in screen

    def types(line: bytes, expected: bytes) -> None:
        nonlocal screen
        screen = b""
        os.write(terminal, line)
        wait_until(lambda: shows(expected), f"{expected!r} on the screen")

    types(b"", "»".encode())
    types(b"encrypt 'my password'\n", b"code=48001")
    types(b"list-member\n", b"code=48001")
    time.sleep(0.2)
    os.write(terminal, b"exit\n")
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    history = tmp_path / ".dmctl_history"
    assert "list-member" in history.read_text()
    assert "my password" not in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600
