"""Hazard: a shell that completes nothing, or that waits because dmctl reads commands instead of answering."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: What a bash user types, up to the cursor, and then what it offers.
_BASH = """
source <(dmctl completion bash)
complete -p dmctl >/dev/null || exit 3
COMP_WORDS=({words}) COMP_CWORD={last}
_dmctl_completion dmctl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def offered(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of ``words``, by the script that dmctl prints."""
    program = folder / "dmctl"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dmctl.cli "$@"\n')
    program.chmod(0o755)
    quoted = " ".join(f"'{word}'" for word in words)
    script = _BASH.format(words=quoted, last=len(words) - 1)
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{folder}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
    )
    return done.stdout.split()


def ask(words: str, position: int, shell: str = "bash") -> list[str]:
    """As the script asks: without a shell."""
    env = {"_DMCTL_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
    done = subprocess.run(
        [sys.executable, "-m", "dmctl.cli"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bash_completes_commands_after_global_flags(tmp_path: Path) -> None:
    assert offered(tmp_path, "dmctl", "--master-addr", "127.0.0.1:8261", "start-") == ["start-relay", "start-task"]


def test_commands_of_groups_and_flags() -> None:
    assert ask("dmctl binlog r", 2) == ["plain,replace", "plain,revert"]
    assert "plain,--remove-meta" in ask("dmctl start-task --", 2)
    assert "plain,--master-addr" in ask("dmctl start-task --", 2)
    assert ask("dmctl completion ", 2) == ["plain,bash", "plain,fish", "plain,zsh"]


@pytest.mark.parametrize(
    ("words", "position"), [("dmctl start-task ta", 2), ("dmctl --config dm", 2), ("dmctl -s a check-task x", 4)]
)
def test_files_are_left_to_the_shell(words: str, position: int) -> None:
    assert [line.partition(",")[0] for line in ask(words, position)] == ["file"]


def test_a_command_without_a_file_offers_none() -> None:
    assert ask("dmctl list-member x", 2) == []


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_each_shell_has_a_script(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dmctl.cli", "completion", shell], capture_output=True, text=True, check=True
    )
    assert f"_DMCTL_COMPLETE={shell}_complete" in done.stdout
