"""The prompt as a person at a terminal sees it, and lines from standard input: what is typed must not lie around, and a
wrong line must not end the others."""

from __future__ import annotations

import io
import os
import pty
import sys
import time
from pathlib import Path

import pytest

from deploy.local.process import wait_until
from dmctl.cli import main
from pkg.pb import dmmaster_pb2 as master
from tests.harness.canned_master import CannedMaster


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


def test_lines_from_standard_input(
    fake: CannedMaster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.answers["Encrypt"] = lambda request: master.EncryptResponse(result=True, ciphertext=f"<{request.plaintext}>")
    lines = "encrypt 'a b'\n\nencrypt \"c d\" \nnonsense\nencrypt 'open\nhelp encrypt\nencrypt e\nexit\nencrypt f\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert main(["--master-addr", fake.address]) == 0
    captured = capsys.readouterr()
    assert [line for line in captured.out.splitlines() if line.startswith("<")] == ["<a b>", "<c d>", "<e>"]
    assert 'unknown command "nonsense" for "dmctl"' in captured.err
    assert "No closing quotation" in captured.err
    assert "Usage: dmctl encrypt" in captured.out
