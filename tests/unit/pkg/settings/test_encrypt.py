"""Hazards: a password that cannot be read back, a key that leaks, a ciphertext other tools cannot read."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.errors import Code, DMError
from pkg.settings import encrypt

KEY = bytes(range(32))


@pytest.fixture(autouse=True)
def _no_process_key() -> Iterator[None]:
    encrypt.set_secret_key(b"")
    yield
    encrypt.set_secret_key(b"")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_password_comes_back(plain: str) -> None:
    assert encrypt.decrypt(encrypt.encrypt(plain, KEY), KEY) == plain


def test_same_password_never_encrypts_alike() -> None:
    assert encrypt.encrypt("secret", KEY) != encrypt.encrypt("secret", KEY)


def test_openssl_reads_our_ciphertext() -> None:
    data = base64.b64decode(encrypt.encrypt("pass wörd", KEY))
    assert data[16:17] == b"@"
    done = subprocess.run(
        ["openssl", "enc", "-d", "-aes-256-cfb", "-K", KEY.hex(), "-iv", data[:16].hex()],
        input=data[17:],
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == "pass wörd"


def test_plain_password_stays_plain_with_a_key() -> None:
    assert encrypt.plain_password("Passw0rd!", KEY) == "Passw0rd!"
    assert encrypt.plain_password("QUJDRA==", KEY) == "QUJDRA=="


def test_ciphertext_opens_with_the_process_key() -> None:
    encrypt.set_secret_key(KEY)
    assert encrypt.plain_password(encrypt.encrypt("abc")) == "abc"


def test_encrypting_without_a_key_says_what_to_do() -> None:
    with pytest.raises(DMError) as caught:
        encrypt.encrypt("abc")
    assert caught.value.kind is Code.EncryptSecretKeyNotValid
    assert "secret-key-path" in caught.value.workaround


def test_key_of_wrong_length_is_refused() -> None:
    with pytest.raises(DMError) as caught:
        encrypt.set_secret_key(b"short")
    assert caught.value.kind is Code.EncryptSecretKeyNotValid


@pytest.mark.parametrize("text", ["", "00" * 31, "zz" * 32, "00" * 33, "0 " * 32, "é" * 64])
def test_bad_key_file_is_refused_without_quoting_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DMError) as caught:
        encrypt.read_secret_key(str(path))
    assert caught.value.kind is Code.ConfigSecretKeyPath
    assert not text or text not in str(caught.value)


def test_missing_key_file_is_named() -> None:
    with pytest.raises(DMError, match="/no/such/key"):
        encrypt.read_secret_key("/no/such/key")


def test_good_key_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY.hex().upper() + "\n")
    assert encrypt.read_secret_key(str(path)) == KEY


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no base64", 11050),
        (base64.b64encode(b"short").decode(), 11047),
        (base64.b64encode(b"0" * 40).decode(), 11048),
    ],
)
def test_damaged_ciphertext_is_distinguished(text: str, code: int) -> None:
    with pytest.raises(DMError) as caught:
        encrypt.decrypt(text, KEY)
    assert caught.value.code == code
