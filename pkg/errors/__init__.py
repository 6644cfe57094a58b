"""Errors as part of the interface: DM's code, the message, the position, and the next action.

Every error that leaves a component is a :class:`DMError`. :func:`new` creates it from an entry of DM's catalogue
(:class:`pkg.errors.codes.Code`), which has its code, class, scope and level::

    raise errors.new(Code.ConfigYamlTransform, f"{path}:{line}: unknown key 'naem'", workaround="Did you mean 'name'?")

A caller that handles one kind of error compares with ``is``: ``exc.kind is Code.DBBadConn``.

A :class:`DMError` can be pickled, so that Spark tasks can return one, and never contains a password.
"""

from __future__ import annotations

import re
from typing import Any

from pkg.errors.codes import Code
from pkg.errors.kind import ErrorKind
from pkg.errors.workarounds import unmarked

__all__ = ["Code", "DMError", "ErrorKind", "new", "wrap"]


class DMError(Exception):
    """An error with all that an operator needs: code, message, cause and workaround.

    ``retryable``: the same action may succeed when it is repeated (a lost connection, a deadlock). Such errors are
    retried with backoff before an operator sees them.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        raw_cause: str = "",
        workaround: str = "",
        scope: str = "",
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.raw_cause = raw_cause
        self.workaround = workaround
        self.scope = scope or kind.scope
        self.retryable = retryable

    @property
    def code(self) -> int:
        return self.kind.code

    def __str__(self) -> str:
        """DM's text form; empty parts are left out."""
        parts = [
            f"[code={self.kind.code}:class={self.kind.err_class}:scope={self.scope}:level={self.kind.level}]",
            f"Message: {self.message}",
        ]
        if self.raw_cause:
            parts.append(f"RawCause: {self.raw_cause}")
        workaround = unmarked(self.workaround)
        if workaround:
            parts.append(f"Workaround: {workaround}")
        return ", ".join(parts)

    def at(self, where: str) -> DMError:
        """The same error with ``where``, its position, after its message."""
        return self._changed(message=f"{self.message} ({where})")

    def with_workaround(self, text: str) -> DMError:
        """The same error with ``text`` as its workaround."""
        return self._changed(workaround=text)

    def to_dict(self) -> dict[str, Any]:
        """The fields of a ``ProcessError`` in ``query-status``."""
        return {
            "ErrCode": self.kind.code,
            "ErrClass": self.kind.err_class,
            "ErrScope": self.scope,
            "ErrLevel": self.kind.level,
            "Message": _without_server_text(self.message, self.raw_cause),
            "RawCause": self.raw_cause,
            "Workaround": unmarked(self.workaround),
        }

    def _changed(self, *, message: str | None = None, workaround: str | None = None) -> DMError:
        return _rebuild(
            self.kind,
            self.message if message is None else message,
            self.raw_cause,
            self.workaround if workaround is None else workaround,
            self.scope,
            self.retryable,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self.kind, self.message, self.raw_cause, self.workaround, self.scope, self.retryable))


#: The form of a server's error from :func:`pkg.mysql.connection.error_text`.
_SERVER_TEXT = re.compile(r"Error \d+ \(")


def _without_server_text(message: str, cause: str) -> str:
    """``message`` without the server's error, which is only in ``cause``, as in DM; scripts look there."""
    return message.replace(f": {cause}", "", 1) if _SERVER_TEXT.match(cause) else message


def _rebuild(kind: ErrorKind, message: str, raw: str, workaround: str, scope: str, retryable: bool) -> DMError:
    return DMError(kind, message, raw_cause=raw, workaround=workaround, scope=scope, retryable=retryable)


def new(
    kind: ErrorKind,
    message: str,
    *,
    raw: BaseException | str | None = None,
    workaround: str = "",
    scope: str = "",
    retryable: bool = False,
) -> DMError:
    """Creates an error of ``kind``; ``raw`` is the underlying exception or its text."""
    cause = "" if raw is None else raw if isinstance(raw, str) else f"{raw}" or type(raw).__name__
    return DMError(kind, message, raw_cause=cause, workaround=workaround, scope=scope, retryable=retryable)


def wrap(exc: BaseException) -> DMError:
    """Any exception as a :class:`DMError`: itself if it is one, otherwise unclassified (50000)."""
    if isinstance(exc, DMError):
        return exc
    return DMError(Code.NotSet, f"{type(exc).__name__}: {exc}", raw_cause=repr(exc))
