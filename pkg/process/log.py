"""Log lines in DM's form, text or JSON, on the standard library's logging.

``[2026/01/02 03:04:05.678 +00:00] [INFO] [server.py:12] ["message"] [key=value]``

Files are opened for append, and may be truncated or removed while the program runs; :mod:`pkg.process.log_rotation`
renames full files. Values under a key that names a secret never reach a line.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from pkg.process.log_redaction import redact_field
from pkg.process.log_rotation import RotatedFileHandler
from pkg.settings.rotation import parse_rotation

_SECRET_KEYS = frozenset({"password", "passwd", "secret", "secret_key", "token"})
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/+@%()`,")
#: DM's spelling of the levels.
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "warning": logging.WARNING}
_LEVELS |= {"error": logging.ERROR, "fatal": logging.CRITICAL}
_NAMES = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}


class Logger:
    """``log.info("message", key=value)``: the message is constant, variable parts are fields."""

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
            # The caller of info() and the like, two frames up, is the location to show.
            self._logger.log(level, message, extra={"fields": fields}, stacklevel=3)


def get_logger(name: str) -> Logger:
    return Logger(logging.getLogger(f"dm.{name}"))


def parse_level(text: str) -> int:
    """``info`` → logging.INFO. Raises ``ValueError`` for a name that DM does not know."""
    try:
        return _LEVELS[text.lower()]
    except KeyError:
        raise ValueError(f"log level {text!r} is not one of debug, info, warn, error, fatal") from None


def setup(
    *, level: str = "info", file: str = "", fmt: str = "text", rotate: str = "", redact_values: bool = False
) -> None:
    """Sends all of the project's log lines to ``file`` (standard error when empty). Call once per process.

    ``redact_values`` hides the values of rows. ``rotate`` is the setting ``log-rotate``, already checked.
    Raises ``OSError`` for a file that cannot be written; a missing folder is created.
    """
    handler: logging.Handler
    if file:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        handler = RotatedFileHandler(file, parse_rotation(rotate))
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter(redact_values) if fmt == "json" else TextFormatter(redact_values))
    root = logging.getLogger("dm")
    root.handlers[:] = [handler]
    root.setLevel(parse_level(level))
    root.propagate = False
    threading.excepthook = _thread_died


def _thread_died(args: threading.ExceptHookArgs) -> None:
    """A thread's unexpected end belongs in the log, not only in standard error, which may be lost."""
    if args.exc_type is SystemExit:
        return
    trace = "".join(traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback))
    get_logger("log").error("a thread ended by an error", thread=args.thread.name if args.thread else "", trace=trace)


def _timestamp(record: logging.LogRecord) -> str:
    local = time.localtime(record.created)
    offset = time.strftime("%z", local)
    return f"{time.strftime('%Y/%m/%d %H:%M:%S', local)}.{int(record.msecs):03d} {offset[:3]}:{offset[3:5]}"


def _level_name(record: logging.LogRecord) -> str:
    return _NAMES.get(record.levelno, record.levelname)


class _FieldsFormatter(logging.Formatter):
    """Adds the fields of a line, without secrets and, with ``redact_values``, without the values of rows."""

    def __init__(self, redact_values: bool = False) -> None:
        super().__init__()
        self._redact_values = redact_values

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        fields: dict[str, Any] = getattr(record, "fields", {})
        shown = {key: "******" if key.lower() in _SECRET_KEYS else value for key, value in fields.items()}
        if record.exc_info and record.exc_info[1] is not None:
            shown["error"] = repr(record.exc_info[1])
        return {key: redact_field(value) for key, value in shown.items()} if self._redact_values else shown


class TextFormatter(_FieldsFormatter):
    """DM's bracketed text form."""

    def format(self, record: logging.LogRecord) -> str:
        parts = [
            _timestamp(record),
            _level_name(record),
            f"{record.filename}:{record.lineno}",
            json.dumps(record.getMessage(), ensure_ascii=False),
        ]
        for key, value in self._fields(record).items():
            text = value if isinstance(value, str) else str(value)
            parts.append(f"{key}={text if text and _PLAIN.issuperset(text) else json.dumps(text, ensure_ascii=False)}")
        return " ".join(f"[{part}]" for part in parts)


class JSONFormatter(_FieldsFormatter):
    """One JSON object a line, keys as DM's JSON logs have them."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "level": _level_name(record),
            "time": _timestamp(record),
            "caller": f"{record.filename}:{record.lineno}",
            "message": record.getMessage(),
        }
        return json.dumps(line | self._fields(record), ensure_ascii=False, default=str)
