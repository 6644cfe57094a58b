"""Errors as part of the interface: DM's code, what happened, where, and what to do next.

Every error that leaves a component is a :class:`DMError`. It is made with :func:`new` from a name of DM's
catalogue (:mod:`pkg.errors.catalogue`), so code, class, scope and level follow from the name::

    raise new("ConfigYamlTransform", f"{path}:{line}:{column}: unknown key 'naem'", workaround="Did you mean 'name'?")

A :class:`DMError` pickles, so that Spark tasks can return one, and never carries a password.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pkg.errors.catalogue import ENTRIES


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One entry of the catalogue."""

    code: int
    name: str
    err_class: str
    scope: str
    level: str


_BY_NAME: dict[str, ErrorKind] = {entry[1]: ErrorKind(*entry) for entry in ENTRIES}
_BY_CODE: dict[int, ErrorKind] = {kind.code: kind for kind in _BY_NAME.values()}
#: What DM answers for an error that has no code of its own.
UNCLASSIFIED = _BY_NAME["NotSet"]


class DMError(Exception):
    """An error with everything an operator needs: code, message, cause and workaround.

    ``retryable`` says whether the same action may succeed by itself when tried again (a lost connection, a
    deadlock): such errors are retried with backoff before an operator ever sees them.
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
        """DM's text form, with empty parts left out (reference: error model)."""
        parts = [
            f"[code={self.kind.code}:class={self.kind.err_class}:scope={self.scope}:level={self.kind.level}]",
            f"Message: {self.message}",
        ]
        if self.raw_cause:
            parts.append(f"RawCause: {self.raw_cause}")
        if self.workaround:
            parts.append(f"Workaround: {self.workaround}")
        return ", ".join(parts)

    def with_workaround(self, text: str) -> DMError:
        """The same error, with ``text`` as what to do unless it tells that already."""
        return _rebuild(self.kind, self.message, self.raw_cause, self.workaround or text, self.scope, self.retryable)

    def advising(self, text: str) -> DMError:
        """The same error, with ``text`` as what to do in place of its own."""
        return _rebuild(self.kind, self.message, self.raw_cause, text, self.scope, self.retryable)

    def to_dict(self) -> dict[str, Any]:
        """The fields of a ``ProcessError``, as ``query-status`` shows them."""
        return {
            "ErrCode": self.kind.code,
            "ErrClass": self.kind.err_class,
            "ErrScope": self.scope,
            "ErrLevel": self.kind.level,
            "Message": self.message,
            "RawCause": self.raw_cause,
            "Workaround": self.workaround,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self.kind, self.message, self.raw_cause, self.workaround, self.scope, self.retryable))


def _rebuild(kind: ErrorKind, message: str, raw: str, workaround: str, scope: str, retryable: bool) -> DMError:
    return DMError(kind, message, raw_cause=raw, workaround=workaround, scope=scope, retryable=retryable)


def new(
    name: str,
    message: str,
    *,
    raw: BaseException | str | None = None,
    workaround: str = "",
    scope: str = "",
    retryable: bool = False,
) -> DMError:
    """Makes an error of the catalogue's ``name``; ``raw`` is the underlying exception or its text.

    Raises ``KeyError`` for a name that the catalogue lacks (a programming error).
    """
    cause = "" if raw is None else raw if isinstance(raw, str) else f"{raw}" or type(raw).__name__
    return DMError(_BY_NAME[name], message, raw_cause=cause, workaround=workaround, scope=scope, retryable=retryable)


def wrap(exc: BaseException) -> DMError:
    """Any exception as a :class:`DMError`: itself if it is one, otherwise unclassified (50000)."""
    if isinstance(exc, DMError):
        return exc
    return DMError(UNCLASSIFIED, f"{type(exc).__name__}: {exc}", raw_cause=repr(exc))


def kind_of(code: int) -> ErrorKind:
    """The catalogue's entry for ``code``; raises ``KeyError`` for an unknown one."""
    return _BY_CODE[code]
