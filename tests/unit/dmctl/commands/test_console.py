"""Hazard: the line that dmctl prints for a user does not allow a login, or shows the password."""

from __future__ import annotations

from pathlib import Path

import pytest

from pkg.settings.password_hash import read_users
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl

PASSWORD = "correct horse"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a person types where nothing is shown."""
    lines: list[str] = []

    def read(_: str = "") -> str:
        return lines.pop(0)

    monkeypatch.setattr("click.termui.hidden_prompt_func", read)
    return lines


def test_the_line_lets_its_user_in(dmctl: RunDmctl, fake: CannedMaster, typed: list[str], tmp_path: Path) -> None:
    typed += [PASSWORD, PASSWORD]
    code, out, err = dmctl("console-user", "anna")
    assert code == 0
    assert PASSWORD not in out + err
    users = tmp_path / "users"
    users.write_text(out)
    (found,) = read_users(str(users)).items()
    assert (found[0], found[1].matches(PASSWORD), found[1].matches("correct house")) == ("anna", True, False)
    assert not fake.requests


def test_a_second_entry_that_differs_is_asked_for_again(dmctl: RunDmctl, typed: list[str], tmp_path: Path) -> None:
    typed += [PASSWORD, "correct house", PASSWORD, PASSWORD]
    code, out, _ = dmctl("console-user", "anna")
    assert (code, typed) == (0, [])
    users = tmp_path / "users"
    users.write_text(out)
    assert read_users(str(users))["anna"].matches(PASSWORD)


@pytest.mark.parametrize("name", ["", "anna:admin", "an na", "a" * 65, "anna\n"])
def test_a_name_that_the_file_cannot_hold_is_refused(dmctl: RunDmctl, typed: list[str], name: str) -> None:
    typed += [PASSWORD, PASSWORD]
    code, out, err = dmctl("console-user", name)
    assert (code != 0, out) == (True, "")
    assert "1 to 64" in err
