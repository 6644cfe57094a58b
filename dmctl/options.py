"""The flags that every command accepts: before or after its name, in the old and in the new spelling.

They are removed from the arguments before the command line is parsed, because operators write them anywhere.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dmctl.failure import UsageError
from pkg import errors
from pkg.errors import Code
from pkg.rpc.channel import split_addresses
from pkg.settings.connections import SecurityConfig
from pkg.settings.units import parse_duration

DEFAULT_TIMEOUT = 600.0
#: A shell that completes a line sets this variable to its request.
COMPLETION_VARIABLE = "_DMCTL_COMPLETE"
NO_TLS = SecurityConfig()
#: Global flag → whether it takes a value.
FLAGS = {
    "version": False,
    "config": True,
    "master-addr": True,
    "rpc-timeout": True,
    "ssl-ca": True,
    "ssl-cert": True,
    "ssl-key": True,
    "source": True,
    "preview": False,
}
#: `diff --config FILE` names a comparison's file, which ends in one of these; any other FILE has dmctl's settings.
COMPARISON_FILES = (".yaml", ".yml")
_SHORT = {"V": "version", "s": "source"}
_FILE_KEYS = ("master-addr", "rpc-timeout", "ssl-ca", "ssl-cert", "ssl-key")


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The master's address and the connection settings. ``rpc_timeout`` in seconds."""

    masters: tuple[str, ...] = ()
    rpc_timeout: float = DEFAULT_TIMEOUT
    security: SecurityConfig = NO_TLS
    sources: tuple[str, ...] = ()
    version: bool = False
    preview: bool = False


def parse_options(argv: Sequence[str], env: Mapping[str, str] | None = None) -> tuple[GlobalOptions, list[str]]:
    """The global options, and the remaining arguments for the command.

    A flag overrides the config file, which overrides ``DM_MASTER_ADDR``. Raises :class:`UsageError` for a flag without
    its value or an invalid timeout, and ``DMError`` 20002 for a config file that can't be used.
    """
    given, rest = _extract(argv)
    settings: dict[str, str] = {}
    master = (os.environ if env is None else env).get("DM_MASTER_ADDR", "")
    if master:
        settings["master-addr"] = master
    if "config" in given:
        settings |= _read_file(given["config"][-1])
    settings |= {name: values[-1] for name, values in given.items()}
    options = _build(settings)
    return _with_flags(options, given), rest


def with_line(base: GlobalOptions, argv: Sequence[str]) -> tuple[GlobalOptions, list[str]]:
    """The options for one interactive line: ``base``, overridden by the flags of the line."""
    given, rest = _extract(argv)
    settings = {
        "master-addr": ",".join(base.masters),
        "rpc-timeout": f"{base.rpc_timeout}s",
        "ssl-ca": base.security.ssl_ca,
        "ssl-cert": base.security.ssl_cert,
        "ssl-key": base.security.ssl_key,
    }
    settings |= {name: values[-1] for name, values in given.items()}
    return _with_flags(_build(settings), given), rest


def _with_flags(options: GlobalOptions, given: Mapping[str, Sequence[str]]) -> GlobalOptions:
    return replace(
        options,
        sources=_sources(given.get("source", ())),
        version="version" in given,
        preview="preview" in given,
    )


def _extract(argv: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    given: dict[str, list[str]] = {}
    rest: list[str] = []
    arguments = iter(argv)
    for argument in arguments:
        if argument == "--":
            rest.extend([argument, *arguments])
            break
        name, value = _recognize(argument)
        if name is None:
            rest.append(argument)
        elif not FLAGS[name]:
            given.setdefault(name, []).append("true")
        else:
            if value is None:
                value = next(arguments, None)
            if value is None:
                raise UsageError(f"flag needs an argument: {argument}")
            if name == "config" and rest[:1] == ["diff"] and value.endswith(COMPARISON_FILES):
                rest += ["--config", value]
            else:
                given.setdefault(name, []).append(value)
    return given, rest


def _recognize(argument: str) -> tuple[str | None, str | None]:
    """The global flag in ``argument``, and its value if ``argument`` contains one."""
    if not argument.startswith("-") or argument == "-":
        return None, None
    name, has_value, value = argument.lstrip("-").partition("=")
    inline = value if has_value else None
    if name in FLAGS:
        return name, inline
    if argument.startswith("--"):
        return None, None
    if name in _SHORT:
        return _SHORT[name], inline
    if name[:1] == "s":
        # The attached short form, -smysql-01.
        return "source", argument[2:]
    return None, None


def _sources(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _build(settings: Mapping[str, str]) -> GlobalOptions:
    timeout = settings.get("rpc-timeout", "")
    try:
        seconds = parse_duration(timeout) if timeout else DEFAULT_TIMEOUT
    except ValueError as exc:
        raise UsageError(f"--rpc-timeout: {exc}") from None
    if seconds <= 0:
        raise UsageError(f"--rpc-timeout must be greater than 0, not {timeout}")
    security = SecurityConfig(
        ssl_ca=settings.get("ssl-ca", ""), ssl_cert=settings.get("ssl-cert", ""), ssl_key=settings.get("ssl-key", "")
    )
    return GlobalOptions(tuple(split_addresses(settings.get("master-addr", ""))), seconds, security)


def _read_file(path: str) -> dict[str, str]:
    try:
        data = tomllib.loads(Path(path).read_text())
    except (OSError, ValueError) as exc:
        raise errors.new(Code.ConfigTomlTransform, f"cannot use config file {path}", raw=exc) from exc
    unknown = sorted(set(data) - set(_FILE_KEYS))
    if unknown:
        raise errors.new(
            Code.ConfigTomlTransform,
            f"{path}: unknown keys {', '.join(unknown)}",
            workaround=f"The keys of dmctl's config file are {', '.join(_FILE_KEYS)}.",
        )
    return {key: str(value) for key, value in data.items()}
