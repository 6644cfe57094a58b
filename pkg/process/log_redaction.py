"""Hides the values of rows in strings for a log (``redact-info-log``). Pure.

Values are in statements (literals after the first ``VALUES``, ``SET`` or ``WHERE``) and in error messages of servers
and of this program (``Duplicate entry '…' for key``). Truncated strings are common, so every possible value is hidden:
one hidden number too many does less harm than one shown.
"""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "?"

_DML = re.compile(r"\b(?:insert|replace|update|delete|select|load|call)\b", re.IGNORECASE)
_VALUES_FOLLOW = re.compile(r"\b(?:values?|set|where|having|limit)\b", re.IGNORECASE)
#: Names first, since they stay unchanged; a literal may lack its end where the string was cut.
_TOKEN = re.compile(
    r"""
    (?P<name>`(?:[^`]|``)*`? | (?!(?:_\w+|[xXbBnN])['"]) [^\W\d][\w$]*)
    | (?:_\w+\s*|[xXbBnN])?'(?:[^'\\]|\\.|'')*(?:'|\\?$)
    | (?:_\w+\s*|[xXbBnN])?"(?:[^"\\]|\\.|"")*(?:"|\\?$)
    | 0[xX][0-9a-fA-F]+ | 0[bB][01]+
    | [-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?
    """,
    re.VERBOSE | re.DOTALL,
)
#: After the last of these comes the server's message, which is not part of the statement.
_SERVER_SAYS = re.compile(r"\bError \d+ \(\w{5}\): ")
#: The text before a value in a message, the value, and the text after it. A value may contain quotes.
_MESSAGES = (
    re.compile(r"(Duplicate entry )(?:'.*?'(?= for key\b)|\(.*?\)(?= for the key\b)|['(].*)", re.DOTALL),
    re.compile(r"(\bvalue:? )(?:'.*?'(?= for (?:column|function)\b| value found\b)|'.*'|'.*)", re.DOTALL),
    re.compile(r"(\bIllegal [\w ]{1,40} )(?:'.*?'(?= value found\b)|'.*)", re.DOTALL),
    re.compile(r"(value is out of range in )'.*(?:'|$)", re.DOTALL),
    re.compile(r"(syntax to use near )(?:'.*'(?= at line\b)|'.*)", re.DOTALL),
    re.compile(r"(\bthe row )\(.*?\)(?= of\b)", re.DOTALL),
    re.compile(r"(\bbytes )[0-9a-f]+(?=…)"),
)


def redact(text: str) -> str:
    """``text`` with ``?`` instead of row values."""
    for message in _MESSAGES:
        text = message.sub(rf"\g<1>{HIDDEN}", text)
    statement = _DML.search(text)
    clause = _VALUES_FOLLOW.search(text, statement.end()) if statement else None
    if clause is None:
        return text
    start = clause.end()
    end = max((one.start() for one in _SERVER_SAYS.finditer(text, start)), default=len(text))
    return text[:start] + _TOKEN.sub(_hide, text[start:end]) + text[end:]


def _hide(token: re.Match[str]) -> str:
    return token.group("name") or HIDDEN


def redact_field(value: Any) -> Any:
    """A field of a log line: redacts inside containers; everything except plain numbers counts as text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, dict):
        return {key: redact_field(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_field(one) for one in value]
    return redact(str(value))
