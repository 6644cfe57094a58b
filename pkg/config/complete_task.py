"""A task file with its defaults filled in, as ``config task`` shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from pkg.config.effects.effect import KeyEffect
from pkg.config.effects.shared_keys import LOADER, MYDUMPER, SYNCER
from pkg.config.effects.task_keys import TASK_EFFECTS

#: Defaults of these are no values, or the key is an older spelling, of which a warning would follow.
_LEFT_OUT = frozenset(
    {"is-sharding", "online-ddl-scheme", "mydumper-path", "on-duplicate-physical", "checksum-physical"}
)
_UNITS = (("mydumper", MYDUMPER), ("loader", LOADER), ("syncer", SYNCER))


def with_defaults(text: str) -> str:
    """The task file ``text`` with the defaults of the task and of its units; it means the same.

    An instance that names no block of a unit gets one of its own, as in DM. Keys without a default stay away.
    """
    data = yaml.safe_load(text)
    top = [row for row in TASK_EFFECTS if row.key == row.name and row.kind == "works"]
    _fill(data, (row for row in top if row.name != "clean-dump-file" or "load" not in data["task-mode"]))
    for unit, rows in _UNITS:
        named = data.get(f"{unit}s") or {}
        for name, block in named.items():
            named[name] = _fill(block or {}, rows)
        for instance in data.get("mysql-instances") or ():
            if not instance.get(f"{unit}-config-name"):
                instance[unit] = _fill(instance.get(unit) or {}, rows)
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))


def _fill(data: dict[str, Any], rows: Iterable[KeyEffect]) -> dict[str, Any]:
    """Adds what is missing (a null is, too), and returns ``data``."""
    for row in rows:
        if row.default not in ("", "required") and row.name not in _LEFT_OUT and data.get(row.name) is None:
            data[row.name] = yaml.safe_load(row.default)
    return data
