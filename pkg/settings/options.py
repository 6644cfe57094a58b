"""Reads the settings of dm-master and dm-worker: Go-style flags over a strict TOML file.

A program lists its :class:`Option` objects; this module merges command line and file into one mapping of checked values
(flags win) and writes such a mapping back as TOML. The program provides the error codes.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pkg import errors
from pkg.errors import Code, ErrorKind
from pkg.settings.connections import SecurityConfig
from pkg.settings.keys import EffectKind
from pkg.settings.rotation import parse_rotation
from pkg.settings.units import parse_duration

OptionKind = Literal["str", "int", "float", "bool", "duration", "list", "map", "bytes"]
_NOUN = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "duration": 'a duration such as "30s"',
    "list": "a list of strings",
    "map": "a table of settings",
    "bytes": "base64 or PEM text",
}
_TRUE = frozenset({"1", "t", "true"})
_FALSE = frozenset({"0", "f", "false"})
LOG_LEVELS = ("debug", "info", "warn", "warning", "error", "fatal")
LOG_FORMATS = ("text", "json")


@dataclass(frozen=True, slots=True)
class Option:
    """One setting. ``name`` is both flag and TOML key; a dot in it names a TOML table.

    ``effect`` is what -h and the page about keys say. ``default``, ``acts`` and ``effect_kind`` are for that page and
    the warnings, as those of :class:`pkg.settings.keys.FileKey`.
    """

    name: str
    kind: OptionKind = "str"
    effect: str = ""
    default: str = ""
    acts: str = ""
    effect_kind: EffectKind = "works"
    flag: bool = True
    file: bool = True
    short: str = ""
    secret: bool = False

    @property
    def field(self) -> str:
        return self.name.replace("-", "_").replace(".", "_")


@dataclass(frozen=True, slots=True)
class OptionErrors:
    """The error codes for a program's settings."""

    flags: ErrorKind
    arguments: ErrorKind
    unknown_key: ErrorKind
    toml: ErrorKind


_CHANNEL = "pkg/rpc/channel.py"


def common_options(cli: str) -> tuple[Option, ...]:
    """The settings of both programs; ``cli`` is the module that starts the program and its log."""
    return (
        Option("config", effect="Path of the TOML configuration file.", file=False),
        Option("version", "bool", "Print the version and exit.", file=False, short="V"),
        Option("print-sample-config", "bool", "Print a sample configuration file and exit.", file=False),
        Option("log-level", effect="debug, info, warn, error or fatal.", default="info", acts=cli, short="L"),
        Option("log-file", effect="File to append to; empty: standard error.", acts=cli),
        Option("log-format", effect="text or json.", default="text", acts=cli),
        Option(
            "log-rotate",
            effect="Size at which the log file is renamed and a new one begins; `512MiB,10` keeps the last 10 renamed "
            "files, without a number all stay. off: never. DM's day and hour are warned of.",
            default="512MiB",
            acts=cli,
            flag=False,
        ),
        Option(
            "ssl-ca", effect="Path of the CA of the cluster's certificates; TLS for all connections.", acts=_CHANNEL
        ),
        Option("ssl-cert", effect="Path of the own certificate.", acts=_CHANNEL),
        Option("ssl-key", effect="Path of the key of the own certificate.", acts=_CHANNEL),
        Option(
            "cert-allowed-cn",
            "list",
            "Names, one of which a client's certificate must have.",
            default="[]",
            acts="pkg/rpc/server/port_server.py",
        ),
        Option("ssl-ca-bytes", "bytes", "ssl-ca as PEM text in place of a path.", acts=_CHANNEL, flag=False),
        Option("ssl-cert-bytes", "bytes", "ssl-cert as PEM text in place of a path.", acts=_CHANNEL, flag=False),
        Option(
            "ssl-key-bytes", "bytes", "ssl-key as PEM text in place of a path.", acts=_CHANNEL, flag=False, secret=True
        ),
        Option("ssl-ca-base64", "bytes", "ssl-ca as base64 in place of a path.", acts=_CHANNEL, flag=False),
        Option("ssl-cert-base64", "bytes", "ssl-cert as base64 in place of a path.", acts=_CHANNEL, flag=False),
        Option(
            "ssl-key-base64", "bytes", "ssl-key as base64 in place of a path.", acts=_CHANNEL, flag=False, secret=True
        ),
    )


def read_settings(argv: Sequence[str], options: Sequence[Option], codes: OptionErrors) -> dict[str, Any]:
    """The settings by field name, flags over file. Raises the errors of ``codes``, or 20018 for an unreadable file."""
    from_flags = parse_flags(argv, options, codes)
    path = from_flags.get("config", "")
    from_file = read_toml(path, options, codes) if path else {}
    return {**from_file, **from_flags}


def check_logging(level: str, log_format: str, rotate: str, codes: OptionErrors) -> None:
    """Refuses a level or format that the log does not support, and an invalid ``rotate``."""
    for key, value, allowed in (("log-level", level.lower(), LOG_LEVELS), ("log-format", log_format, LOG_FORMATS)):
        if value not in allowed:
            raise errors.new(
                codes.toml, f"{key} {value!r} is not valid", workaround=f"Set it to one of {', '.join(allowed)}."
            )
    try:
        parse_rotation(rotate)
    except ValueError as exc:
        raise errors.new(
            codes.toml,
            f"log-rotate {rotate!r} is not valid: {exc}",
            workaround='Write a size such as "512MiB", a size and how many renamed files stay ("512MiB,10"), or "off".',
        ) from None


def usage(program: str, options: Sequence[Option]) -> str:
    """The text for ``-h``."""
    lines = [f"Usage of {program}:"]
    for option in options:
        if option.flag:
            value = "" if option.kind == "bool" else f" {option.kind}"
            lines.append(f"  -{option.short or option.name}{value}\n    \t{option.effect}")
    return "\n".join(lines)


def parse_flags(argv: Sequence[str], options: Sequence[Option], codes: OptionErrors) -> dict[str, Any]:
    """Go's flag syntax: ``-x v``, ``--x=v``, ``-bool``; one and two dashes are equal; ``--`` ends the flags."""
    by_flag = {name: o for o in options if o.flag for name in (o.name, o.short) if name}
    values: dict[str, Any] = {}
    rest = list(argv)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, text = word.lstrip("-").partition("=")
        option = by_flag.get(name)
        if option is None or word.startswith("---"):
            hint = _nearest(name, [o.name for o in options if o.flag])
            raise errors.new(codes.flags, f"unknown flag {word.partition('=')[0]!r}", workaround=hint or "See -h.")
        if not equals:
            if option.kind == "bool":
                text = "true"
            elif not rest:
                raise errors.new(codes.flags, f"flag -{name} needs a value", workaround=f"Give -{name}=VALUE.")
            else:
                text = rest.pop(0)
        values[option.field] = _flag_value(option, text, codes)
    if rest:
        raise errors.new(
            codes.arguments, f"{rest[0]!r} is not a flag", workaround="Settings are given as flags, -name=value."
        )
    return values


def _flag_value(option: Option, text: str, codes: OptionErrors) -> Any:
    try:
        return _from_text(option.kind, text)
    except ValueError as exc:
        raise errors.new(
            codes.flags, f"flag -{option.name}: {text!r} is not {_NOUN[option.kind]}", raw=exc, workaround=option.effect
        ) from None


def _from_text(kind: OptionKind, text: str) -> Any:
    if kind == "bool":
        if text.lower() not in _TRUE | _FALSE:
            raise ValueError("neither true nor false")
        return text.lower() in _TRUE
    readers: dict[str, Callable[[str], Any]] = {
        "int": int,
        "float": float,
        "duration": parse_duration,
        "list": lambda value: tuple(part.strip() for part in value.split(",") if part.strip()),
    }
    return readers[kind](text) if kind in readers else text


def read_toml(path: str, options: Sequence[Option], codes: OptionErrors) -> dict[str, Any]:
    """The file's settings; a key that no option has, or a value of the wrong type, is an error with its line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise errors.new(
            Code.ConfigReadCfgFromFile,
            f"cannot read the configuration file {path}",
            raw=exc,
            workaround="Check -config.",
        ) from exc
    return parse_toml(text, path, options, codes)


def parse_toml(text: str, path: str, options: Sequence[Option], codes: OptionErrors) -> dict[str, Any]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise errors.new(
            codes.toml, f"{path} is not valid TOML", raw=exc, workaround="Compare it with -print-sample-config."
        ) from exc
    by_key = {option.name: option for option in options if option.file}
    values: dict[str, Any] = {}
    for key, value in _flatten(data, by_key):
        option = by_key.get(key)
        location = f"{path}:{_line_of(text, key)}"
        if option is None:
            raise errors.new(
                codes.unknown_key,
                f"{location}: unknown key {key!r}",
                workaround=_nearest(key, list(by_key)) or "Remove it, or see -print-sample-config for the keys.",
            )
        try:
            values[option.field] = _from_toml(option.kind, value)
        except ValueError as exc:
            raise errors.new(
                codes.toml,
                f"{location}: {key} must be {_NOUN[option.kind]}",
                raw=exc,
                workaround="Compare it with -print-sample-config.",
            ) from None
    return values


def _flatten(data: Mapping[str, Any], by_key: Mapping[str, Option], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in data.items():
        name = prefix + key
        known_table = any(other.startswith(name + ".") for other in by_key)
        if isinstance(value, dict) and name not in by_key and known_table:
            pairs += _flatten(value, by_key, name + ".")
        else:
            pairs.append((name, value))
    return pairs


def location_of(path: str, key: str) -> str:
    """``file:line: `` of the setting ``key`` for an error found after reading; '' without a file."""
    try:
        return f"{path}:{_line_of(Path(path).read_text(encoding='utf-8'), key)}: " if path else ""
    except (OSError, UnicodeDecodeError):
        return f"{path}: "  # removed in the meantime


def _line_of(text: str, key: str) -> int:
    """The line that sets ``key``: tomllib keeps no positions, so the file is searched; 1 when it is not found."""
    table, _, last = key.rpartition(".")
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[([^\]]+)\]", line)
        if header:
            current = header[1].strip()
            if current == key:
                return number
        name = line.partition("=")[0].strip().strip("\"'")
        if (current == table and name == last) or (not current and name == key):
            return number
    return 1


def _from_toml(kind: OptionKind, value: Any) -> Any:
    if kind == "list":
        if isinstance(value, str):
            return _from_text("list", value)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
    elif kind == "map":
        if isinstance(value, dict) and all(isinstance(item, str | int | float | bool) for item in value.values()):
            return {key: json.dumps(v) if isinstance(v, bool) else str(v) for key, v in value.items()}
    elif kind == "bytes":
        if isinstance(value, str):
            return pem_bytes(value)
    elif kind == "duration":
        if isinstance(value, str):
            return parse_duration(value)
    elif kind == "float":
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif type(value).__name__ == kind:
        return value
    raise ValueError(f"it is a {type(value).__name__}")


def pem_bytes(text: str) -> bytes:
    """PEM text unchanged, or decoded from base64. Raises ``ValueError`` for anything else, without quoting it."""
    if "-----BEGIN" in text:
        return text.encode("utf-8")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("neither PEM text nor base64") from None


def take_security(values: dict[str, Any]) -> SecurityConfig | None:
    """Takes the TLS settings out of ``values``; None when there are no TLS settings."""
    taken = {
        name: values.pop(name, default)
        for name, default in (("ssl_ca", ""), ("ssl_cert", ""), ("ssl_key", ""), ("cert_allowed_cn", ()))
    }
    for part in ("ssl_ca", "ssl_cert", "ssl_key"):
        in_base64 = values.pop(f"{part}_base64", b"")
        taken[f"{part}_bytes"] = values.pop(f"{part}_bytes", b"") or in_base64
    return SecurityConfig(**taken) if any(taken.values()) else None


def nearest(name: str, names: Sequence[str]) -> str:
    """The most similar of ``names``, for a suggestion; empty when none is similar."""
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.6)), "")


def _nearest(name: str, names: Sequence[str]) -> str:
    near = nearest(name, names)
    return f"Did you mean {near!r}?" if near else ""


def to_toml(settings: Mapping[str, Any]) -> str:
    """Writes plain values as TOML, tables last; a name with a dot is written into its table."""
    lines = [f"{key} = {_toml_value(value)}" for key, value in settings.items() if not isinstance(value, Mapping)]
    for table, content in settings.items():
        if isinstance(content, Mapping):
            lines += ["", f"[{table}]"]
            lines += [f"{_toml_key(key)} = {_toml_value(value)}" for key, value in content.items()]
    return "\n".join(lines) + "\n"


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(k)} = {_toml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str):
        # JSON's string escapes are valid TOML, except DEL, which TOML requires to be escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
