"""Hazard: a stored hash that accepts a wrong password, or a users' file that stops the master without a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from pkg.errors import DMError
from pkg.settings.password_hash import hash_password, read_users, user_line


def test_only_the_password_matches_and_the_file_does_not_have_it(tmp_path: Path) -> None:
    path = tmp_path / "users"
    line = user_line("anna", "Grüße 1")
    path.write_text(f"# people\n\n{line}\n")
    stored = read_users(str(path))["anna"]
    assert stored.matches("Grüße 1")
    assert not stored.matches("Grüße 2")
    assert not stored.matches("")
    assert "Grüße" not in line


def test_equal_passwords_have_different_hashes() -> None:
    assert hash_password("a").text() != hash_password("a").text()


def test_no_file_means_no_users() -> None:
    assert read_users("") == {}


@pytest.mark.parametrize(
    "text",
    [
        "anna",
        "anna:secret",
        "anna:scrypt$16384$8$1$AAAA$AAAA",
        "anna:scrypt$3$8$1$AAAA$" + "A" * 43 + "=",
        "anna:scrypt$1073741824$8$1$AAAA$" + "A" * 43 + "=",
        "anna:scrypt$x$8$1$AAAA$" + "A" * 43 + "=",
        "two words:scrypt$16384$8$1$YMx8523VKtTEd/58vOm3Vg==$UW7js9ymwPlz/yDHDugFWE6vRbvJCT+0Cjtvu/YPBFw=",
    ],
)
def test_a_line_that_is_no_user_is_refused_without_its_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(DMError, match="console-users-path") as raised:
        read_users(str(path))
    assert "AAAA" not in str(raised.value)
    with pytest.raises(DMError, match="console-users-path"):
        read_users(str(tmp_path / "missing"))


@pytest.mark.parametrize("name", ["", "a b", "a:b", "<b>", "x" * 65])
def test_a_name_that_the_file_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="user's name"):
        user_line(name, "a")
