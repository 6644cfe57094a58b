"""Regular expressions over names of schemas and tables (patterns that begin with ``~``) and over statements.

Operators write them for Go's ``regexp``, as in DM: its syntax and results are RE2's, so RE2 itself evaluates them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

#: RE2's byte escape, which Go's engine refuses: a match could begin or end within a character.
#: The text between \\Q and \\E is literal. Possessive: each part is read in one way only, so it takes linear time.
_BYTE_ESCAPE = re.compile(r"(?:[^\\]|\\Q.*?(?:\\E|\Z)|\\[^CQ])*+\\C", re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udfff]")


class RegexMatch(Protocol):
    """A match: ``match[0]`` is the whole, the others are its groups."""

    def __getitem__(self, group: int, /) -> str | None: ...

    def groups(self) -> Sequence[str | None]: ...


class NameRegex:
    """A compiled pattern. Picklable; loads RE2 when created, so that modules that only import this need no RE2.

    Raises ``ValueError`` for a regular expression that is invalid in Go.
    """

    def __init__(self, pattern: str, *, case_sensitive: bool) -> None:
        import re2  # Spark executors import rules, compile none, and do not need it.

        self.pattern = pattern
        self._case_sensitive = case_sensitive
        if _BYTE_ESCAPE.match(pattern):
            raise ValueError(f"regular expression {pattern!r}: invalid escape sequence: \\C")
        options = re2.Options()
        options.case_sensitive = case_sensitive
        options.log_errors = False
        try:
            self._regex: Any = re2.compile(pattern, options)
        except re2.error as exc:
            raise ValueError(f"regular expression {pattern!r}: {_text(exc)}") from None
        self.groups = int(self._regex.groups)

    def search(self, text: str) -> RegexMatch | None:
        """The first match anywhere in ``text``."""
        found: RegexMatch | None = self._regex.search(_SURROGATES.sub("\ufffd", text))
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.pattern, self._case_sensitive)


def _rebuild(pattern: str, case_sensitive: bool) -> NameRegex:
    return NameRegex(pattern, case_sensitive=case_sensitive)


def _text(exc: Exception) -> str:
    """RE2's message, which it gives as bytes."""
    (message,) = exc.args
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
