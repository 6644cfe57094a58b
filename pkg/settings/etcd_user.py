"""A program's etcd user. Its password is in a file, so that neither flags nor answers can show it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pkg import errors
from pkg.errors import Code, ErrorKind


@dataclass(frozen=True, slots=True)
class EtcdUser:
    """``password_path`` is read at each login: a new password takes effect without a restart."""

    name: str
    password_path: str

    def password(self) -> str:
        """The file's content without the line end. Raises 20018 if the file cannot be read or is empty."""
        try:
            found = Path(self.password_path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as exc:
            # A UnicodeDecodeError quotes the file's bytes.
            raise _unusable(self.password_path, exc if isinstance(exc, OSError) else "it is not plain text") from None
        if not found or "\n" in found:
            raise _unusable(self.password_path, "it has more than one line" if found else "it is empty")
        return found


def read_etcd_user(name: str, password_path: str, code: ErrorKind) -> EtcdUser | None:
    """The user of `etcd-username` and `etcd-password-path`; None without both.

    Raises ``code`` if one of them is missing, 20018 for a file without a password.
    """
    if bool(name) != bool(password_path):
        given, missing = ("etcd-username", "etcd-password-path") if name else ("etcd-password-path", "etcd-username")
        raise errors.new(
            code, f"{given} is set, and {missing} is not", workaround=f"Set {missing}, too, or remove {given}."
        )
    if not name:
        return None
    user = EtcdUser(name, password_path)
    user.password()
    return user


def _unusable(path: str, reason: OSError | str) -> errors.DMError:
    return errors.new(
        Code.ConfigReadCfgFromFile,
        f"the file of etcd-password-path, {path}, has no usable password",
        raw=reason,
        workaround="Write the password of etcd's user into it, as one line, and let the program's user read it.",
    )
