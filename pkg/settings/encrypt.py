"""Passwords in files: ``base64(IV + "@" + AES-256-CFB(password))`` under one secret key of the cluster.

The form and the key file are DM's, so that old files stay valid. The key belongs to the process: master and worker read
it from ``secret-key-path``; a worker without a key file gets the key when it registers over mutual TLS.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pkg import errors
from pkg.errors import Code

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import ModeWithInitializationVector

KEY_BYTES = 32
_IV_BYTES = 16
_SEPARATOR = b"@"
_KEY_WORKAROUND = "Make one with `openssl rand -hex 32 > FILE` and set secret-key-path to FILE."


class _Keyring:
    """Holds the process's key outside of any repr."""

    key: bytes = b""


def set_secret_key(key: bytes) -> None:
    """Sets the process's key: 32 bytes, or empty for none. Raises 11044 for any other length."""
    if key and len(key) != KEY_BYTES:
        raise errors.new(
            Code.EncryptSecretKeyNotValid,
            f"the secret key has {len(key)} bytes instead of {KEY_BYTES}",
            workaround=_KEY_WORKAROUND,
        )
    _Keyring.key = key


def secret_key() -> bytes:
    """The process's key; empty when none is set."""
    return _Keyring.key


def read_secret_key(path: str) -> bytes:
    """Reads a key file of 64 hex digits; an empty path means no key. Raises 20067."""
    if not path:
        return b""
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise errors.new(
            Code.ConfigSecretKeyPath,
            f"cannot read the secret key file {path}",
            # A UnicodeDecodeError quotes the file's bytes, which may contain most of a key.
            raw=exc if isinstance(exc, OSError) else "the file is not plain text",
            workaround=_KEY_WORKAROUND,
        ) from None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(text) != 2 * KEY_BYTES or len(key) != KEY_BYTES:
        raise errors.new(
            Code.ConfigSecretKeyPath,
            f"the secret key file {path} must contain exactly {2 * KEY_BYTES} hex digits, but it contains "
            f"{len(text)} characters",
            workaround=_KEY_WORKAROUND,
        )
    return key


def key_proof(key: bytes, name: str) -> bytes:
    """Identifies the key of the worker ``name``; b'' for none. It does not reveal the key."""
    return hmac.new(key, b"dm-worker " + name.encode(), hashlib.sha256).digest() if key else b""


def encrypt(plain: str, key: bytes | None = None) -> str:
    """The password as ciphertext, different at each call. ``key`` defaults to the process's. Raises 11044."""
    initial = os.urandom(_IV_BYTES)
    encryptor = _cipher(_usable(key), initial).encryptor()
    sealed = encryptor.update(plain.encode("utf-8")) + encryptor.finalize()
    return base64.b64encode(initial + _SEPARATOR + sealed).decode("ascii")


def decrypt(text: str, key: bytes | None = None) -> str:
    """Decrypts the output of :func:`encrypt`.

    Raises 11044 without a key, 11050 for text that is not base64, 11047 or 11048 for base64 of another content.
    """
    usable = _usable(key)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise errors.new(Code.EncCipherTextBase64Decode, "the encrypted password is not base64") from None
    if len(data) < _IV_BYTES + len(_SEPARATOR):
        raise errors.new(Code.CiphertextLenNotValid, f"the encrypted password has only {len(data)} bytes")
    if data[_IV_BYTES : _IV_BYTES + 1] != _SEPARATOR:
        raise errors.new(Code.CiphertextContextNotValid, "the encrypted password has no separator after its first part")
    decryptor = _cipher(usable, data[:_IV_BYTES]).decryptor()
    plain = decryptor.update(data[_IV_BYTES + 1 :]) + decryptor.finalize()
    try:
        return plain.decode("utf-8")
    except UnicodeDecodeError:
        raise errors.new(
            Code.CiphertextContextNotValid,
            "the encrypted password was made with another secret key",
            workaround="Encrypt it again with `dmctl encrypt`.",
        ) from None


def plain_password(text: str, key: bytes | None = None) -> str:
    """The password in a file: decrypted if it is ciphertext under the key, otherwise unchanged."""
    usable = secret_key() if key is None else key
    if not text or not usable:
        return text
    try:
        return decrypt(text, usable)
    except errors.DMError:
        return text  # as in DM: a text that does not decrypt is a plain password


def _usable(key: bytes | None) -> bytes:
    chosen = secret_key() if key is None else key
    if len(chosen) != KEY_BYTES:
        raise errors.new(
            Code.EncryptSecretKeyNotValid,
            "no secret key is set, so nothing can be encrypted or decrypted"
            if not chosen
            else f"the secret key has {len(chosen)} bytes instead of {KEY_BYTES}",
            workaround="Set secret-key-path in the configuration of dm-master, and of dm-worker without mutual TLS. "
            + _KEY_WORKAROUND,
        )
    return chosen


def _cipher(key: bytes, initial: bytes) -> Cipher[ModeWithInitializationVector]:
    # Imported here: dmctl reads task files too, and must start quickly.
    from cryptography.hazmat.decrepit.ciphers.modes import CFB
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES

    return Cipher(AES(key), CFB(initial))
