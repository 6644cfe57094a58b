"""A subtask as TOML, in DM's form over HTTP. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pkg.config.model import SubTaskConfig
from pkg.settings.connections import DBConfig
from pkg.settings.options import to_toml

#: DM's names of a subtask's fields that differ from those in a file.
_NAMES = {
    "task-mode": "mode",
    "enable-relay": "use-relay",
    "routes": "route-rules",
    "filters": "filter-rules",
    "column-mappings": "mapping-rule",
    "expression-filters": "expression-filter",
    "from-": "from",
}
#: DM's first keys; the others follow in our order.
_FIRST = ("is-sharding", "shard-mode", "online-ddl", "shadow-table-rules", "trash-table-rules", "name", "mode")


def subtask_to_toml(config: SubTaskConfig, seal: Callable[[str], str]) -> str:
    """The subtask's settings with DM's key names. ``seal`` returns the replacement for a password.

    Certificates' keys are omitted: their paths, and the allowed names, stay.
    """
    shown: dict[str, Any] = {"is-sharding": bool(config.shard_mode)}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value is None:
            continue
        key = field.name.replace("_", "-")
        shown[_NAMES.get(key, key)] = _database(value, seal) if isinstance(value, DBConfig) else _plain(value)
    first = {key: shown.pop(key) for key in _FIRST}
    return to_toml({**first, **shown})


def _database(config: DBConfig, seal: Callable[[str], str]) -> Mapping[str, Any]:
    data: dict[str, Any] = _plain(dataclasses.replace(config, session=(), security=None))
    data["password"] = seal(config.password) if config.password else ""
    data["session"] = dict(config.session)
    if config.security is not None:
        kept = ("ssl_ca", "ssl_cert", "ssl_key", "cert_allowed_cn")
        data["security"] = {name.replace("_", "-"): _plain(getattr(config.security, name)) for name in kept}
    return data


def _plain(value: Any) -> Any:
    """Dataclasses as tables with their file's key names; unset values are omitted, because TOML has no null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name.replace("_", "-"): _plain(inner) for name, inner in pairs if inner is not None}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
