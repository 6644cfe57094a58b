"""Hazard: a server that is not the account's learns the password or keeps the client busy; a packet is misread."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pkg.mysql import parsec

SERVER, CLIENT, SALT = bytes(range(32)), bytes(range(100, 132)), b"eighteen salty byt"


def public_key(password: bytes, iterations: int) -> Ed25519PublicKey:
    """What a server stores of an account."""
    seed = hashlib.pbkdf2_hmac("sha512", password, SALT, iterations, 32)
    return Ed25519PrivateKey.from_private_bytes(seed).public_key()


@pytest.mark.parametrize("exponent", [0, 3])
def test_the_answer_proves_the_password_for_both_scrambles(exponent: int) -> None:
    answer = parsec.signed_answer(b"secret", SERVER, b"P" + bytes([exponent]) + SALT, CLIENT)
    assert answer[:32] == CLIENT
    public_key(b"secret", 1024 << exponent).verify(answer[32:], SERVER + CLIENT)
    with pytest.raises(InvalidSignature):
        public_key(b"another", 1024 << exponent).verify(answer[32:], SERVER + CLIENT)


@pytest.mark.parametrize(
    ("scramble", "derivation", "words"),
    [
        (SERVER[:31], b"P\0" + SALT, "unknown form"),
        (SERVER, b"Q\0" + SALT, "unknown form"),
        (SERVER, b"P\0", "unknown form"),
        (SERVER, b"P\4" + SALT, "1024 << 4 iterations"),
    ],
)
def test_other_packets_are_refused(scramble: bytes, derivation: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parsec.signed_answer(b"secret", scramble, derivation, CLIENT)
