"""Log lines in DM's form, text or JSON, on the standard library's logging.

``[2026/01/02 03:04:05.678 +00:00] [INFO] [server.py:12] ["message"] [key=value]``

Files are opened for append per record batch by the standard WatchedFileHandler, so they may be truncated or removed
while the program runs. Values under a key that names a secret never reach a line.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import re
import sys
import time
from typing import Any

_SECRET_KEYS = frozenset({"password", "passwd", "secret", "secret_key", "token"})
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/+@%()`,")
#: DM's spelling of the levels.
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "warning": logging.WARNING}
_LEVELS |= {"error": logging.ERROR, "fatal": logging.CRITICAL}
_NAMES = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}

#: Fields that may quote a statement with the values of rows, or what a server said of one.
_QUOTING = frozenset({"error", "trace", "statement"})
#: To the last place where a server's answer may begin: a value can look like one.
_STATEMENT = re.compile(
    r"\b(INSERT|REPLACE|UPDATE|DELETE)\b.*(?=: Error \d+ \(\w+\): )|\b(INSERT|REPLACE|UPDATE|DELETE)\b.*$", re.S
)
#: From the first quote to the last: servers quote values without escaping the quotes in them.
_LITERAL = re.compile(r"'.*'|'.*$", re.S)
_PLACE = " (startLocation: "


def hide_values(text: str) -> str:
    """``text`` without the values of rows: what follows a statement's verb, and what stands in quotes, become ``?``."""
    begin = text.rfind(_PLACE)
    end = text.find("])", begin) if begin >= 0 else -1
    place = text[begin : end + 2] if end >= 0 else ""
    hidden = _STATEMENT.sub(lambda match: f"{match[1] or match[2]} ?", text)
    return _LITERAL.sub("?", hidden) + (place if place not in hidden else "")


class Logger:
    """``log.info("message", key=value)``: the message is constant, what varies goes into the fields."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, message: str, **fields: Any) -> None:
        self._emit(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._emit(logging.INFO, message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._emit(logging.WARNING, message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._emit(logging.ERROR, message, fields)

    def _emit(self, level: int, message: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            # The caller of info() and friends, two frames up, is the place to show.
            self._logger.log(level, message, extra={"fields": fields}, stacklevel=3)


def get_logger(name: str) -> Logger:
    return Logger(logging.getLogger(f"dm.{name}"))


def parse_level(text: str) -> int:
    """``info`` → logging.INFO. Raises ``ValueError`` for a name DM does not know."""
    try:
        return _LEVELS[text.lower()]
    except KeyError:
        raise ValueError(f"log level {text!r} is none of debug, info, warn, error, fatal") from None


class _HidesValues(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        fields = {**getattr(record, "fields", {})}
        fields |= {key: hide_values(str(fields[key])) for key in _QUOTING & fields.keys()}
        record.fields = fields
        return True


def setup(*, level: str = "info", file: str = "", fmt: str = "text", redact: bool = False) -> None:
    """Directs all of the project's logging to ``file`` (standard error when empty). Call once per process.

    With ``redact`` no line shows the values of rows.
    """
    handler: logging.Handler
    if file:
        handler = logging.handlers.WatchedFileHandler(file, encoding="utf-8")
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter() if fmt == "json" else TextFormatter())
    if redact:
        handler.addFilter(_HidesValues())
    root = logging.getLogger("dm")
    root.handlers[:] = [handler]
    root.setLevel(parse_level(level))
    root.propagate = False


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    shown = {key: "******" if key.lower() in _SECRET_KEYS else value for key, value in fields.items()}
    if record.exc_info and record.exc_info[1] is not None:
        shown["error"] = repr(record.exc_info[1])
    return shown


def _timestamp(record: logging.LogRecord) -> str:
    local = time.localtime(record.created)
    offset = time.strftime("%z", local)
    return f"{time.strftime('%Y/%m/%d %H:%M:%S', local)}.{int(record.msecs):03d} {offset[:3]}:{offset[3:5]}"


def _level_name(record: logging.LogRecord) -> str:
    return _NAMES.get(record.levelno, record.levelname)


class TextFormatter(logging.Formatter):
    """DM's bracketed text form."""

    def format(self, record: logging.LogRecord) -> str:
        parts = [
            _timestamp(record),
            _level_name(record),
            f"{record.filename}:{record.lineno}",
            json.dumps(record.getMessage(), ensure_ascii=False),
        ]
        for key, value in _fields(record).items():
            text = value if isinstance(value, str) else str(value)
            parts.append(f"{key}={text if text and _PLAIN.issuperset(text) else json.dumps(text, ensure_ascii=False)}")
        return " ".join(f"[{part}]" for part in parts)


class JSONFormatter(logging.Formatter):
    """One JSON object a line, keys as DM's JSON logs have them."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "level": _level_name(record),
            "time": _timestamp(record),
            "caller": f"{record.filename}:{record.lineno}",
            "message": record.getMessage(),
        }
        return json.dumps(line | _fields(record), ensure_ascii=False, default=str)
