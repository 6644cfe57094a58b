"""dmctl in this process, against a master whose answers a test sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dmctl.cli import main
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


@pytest.fixture(scope="module")
def shared_fake() -> Iterator[CannedMaster]:
    fake = CannedMaster().start()
    yield fake
    fake.stop()


@pytest.fixture
def fake(shared_fake: CannedMaster) -> CannedMaster:
    shared_fake.answers.clear()
    shared_fake.requests.clear()
    return shared_fake


@pytest.fixture
def dmctl(fake: CannedMaster, capsys: pytest.CaptureFixture[str]) -> RunDmctl:
    def run(*argv: str) -> tuple[int, str, str]:
        code = main(["--master-addr", fake.address, *argv])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    path = tmp_path / "task.yaml"
    path.write_text("name: from-file\ntask-mode: all\n")
    return path
