"""Hashes of the passwords of the console's users: scrypt, as one line of text."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from dataclasses import dataclass
from pathlib import Path

from pkg import errors
from pkg.errors import Code

#: scrypt's cost: 16 MiB and about 50 ms for each try.
_COST, _BLOCK, _LANES = 2**14, 8, 1
_KEY_LENGTH = 32
_NAME = re.compile(r"[\w.@-]{1,64}")
_FORM = "scrypt"
_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """A stored hash with its parameters."""

    cost: int
    block: int
    lanes: int
    salt: bytes
    key: bytes

    def matches(self, password: str) -> bool:
        made = _derive(password, self.salt, self.cost, self.block, self.lanes, len(self.key))
        return hmac.compare_digest(made, self.key)

    def text(self) -> str:
        salt, key = (base64.b64encode(part).decode() for part in (self.salt, self.key))
        return f"{_FORM}${self.cost}${self.block}${self.lanes}${salt}${key}"


def hash_password(password: str) -> PasswordHash:
    salt = os.urandom(16)
    return PasswordHash(_COST, _BLOCK, _LANES, salt, _derive(password, salt, _COST, _BLOCK, _LANES, _KEY_LENGTH))


def user_line(name: str, password: str) -> str:
    """The line of the users' file. Raises ``ValueError`` for a name that the file cannot hold."""
    if not _NAME.fullmatch(name):
        raise ValueError("a user's name has 1 to 64 letters, digits and the characters . _ @ -")
    return f"{name}:{hash_password(password).text()}"


def read_users(path: str) -> dict[str, PasswordHash]:
    """The users of a file with lines ``name:hash``; none for an empty path. Raises 38013 for a file that is not one."""
    if not path:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise _unusable(path, exc if isinstance(exc, OSError) else "it is not plain text") from None
    users = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, text = line.strip().partition(":")
        try:
            users[name] = _parse(text)
        except ValueError:
            raise _unusable(path, f"line {number} is not a name and a hash") from None
        if not _NAME.fullmatch(name):
            raise _unusable(path, f"the name in line {number} is not one")
    return users


def _parse(text: str) -> PasswordHash:
    form, cost, block, lanes, salt, key = text.split("$")
    try:
        found = PasswordHash(
            int(cost),
            int(block),
            int(lanes),
            base64.b64decode(salt, validate=True),
            base64.b64decode(key, validate=True),
        )
    except binascii.Error as exc:
        raise ValueError(str(exc)) from exc
    power = found.cost > 1 and found.cost & (found.cost - 1) == 0
    numbers = power and found.block > 0 and found.lanes > 0 and 128 * found.block * found.cost <= _MOST_BYTES
    if form != _FORM or not numbers or len(found.key) < _KEY_LENGTH:
        raise ValueError("not a hash of this form")
    return found


def _derive(password: str, salt: bytes, cost: int, block: int, lanes: int, length: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=block, p=lanes, maxmem=2 * _MOST_BYTES, dklen=length)


def _unusable(path: str, reason: OSError | str) -> errors.DMError:
    return errors.new(
        Code.MasterConfigTomlTransform,
        f"the file of console-users-path, {path}, has no usable users",
        raw=reason,
        workaround="Write a line for each user into it, as `dmctl console-user NAME` prints it, and let dm-master's "
        "user read it.",
    )
