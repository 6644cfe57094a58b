"""A task file in DM's normalized form, as ``config task`` shows it. Pure.

DM stores only the subtask of each upstream, and creates the file again from these: it has every key, each rule and each
unit's block has a numbered name, and equal ones are merged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from pkg.config.effects.effect import KeyEffect, effects_of
from pkg.config.effects.shared_keys import LOADERS, MYDUMPERS, SYNCERS, VALIDATORS
from pkg.config.effects.task_keys import TASK_EFFECTS
from pkg.settings.keys import Block

#: Block of rules → the instance's key with the rules' names, and the numbered name.
_RULES = {
    "routes": ("route-rules", "route"),
    "filters": ("filter-rules", "filter"),
    "expression-filter": ("expression-filters", "expr-filter"),
    "column-mappings": ("column-mapping-rules", "cm"),
}
#: Unit → the keys of its block, the numbered name, and the target of an instance's ``UNIT-thread``.
_UNITS: Mapping[str, tuple[Block, str, str]] = {
    "mydumper": (MYDUMPERS, "dump", "threads"),
    "loader": (LOADERS, "load", "pool-size"),
    "syncer": (SYNCERS, "sync", "worker-count"),
}
#: Keys that get no default: another key has their value, or DM's form has them only when they are set.
_NOT_FILLED = frozenset({"is-sharding", "target-collations"})
_EMPTY_TARGET: Mapping[str, Any] = {"max-allowed-packet": None, "session": {}, "security": None}
#: Keys whose defaults are not values.
_LEFT_OUT = frozenset({"on-duplicate-physical", "checksum-physical"})
_LISTS = ("black-white-list", "block-allow-list")


def normalised(text: str) -> str:
    """The task file ``text`` in DM's form; it means the same."""
    data = yaml.safe_load(text)
    top = [row for row in TASK_EFFECTS if row.key == row.name and row.name not in _NOT_FILLED]
    _fill(data, (row for row in top if row.name != "clean-dump-file" or "load" not in data["task-mode"]), "")
    data["experimental"] = data.get("experimental") or {"async-checkpoint-flush": False}
    data["shard-mode"] = data["shard-mode"] or ("pessimistic" if data.get("is-sharding") else "")
    data["is-sharding"] = bool(data["shard-mode"])
    data["target-database"] = {**_EMPTY_TARGET, **data["target-database"]}
    numbered = _Numbered(data)
    data["mysql-instances"] = [numbered.instance(one) for one in data["mysql-instances"]]
    return str(yaml.safe_dump({**data, **numbered.blocks}, sort_keys=False, allow_unicode=True))


class _Numbered:
    """Gives rules and units' blocks their numbered names, in the order in which instances name them."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        names = (*_RULES, *_LISTS, *(f"{unit}s" for unit in _UNITS), "validators")
        self.blocks: dict[str, dict[str, Any]] = {name: {} for name in names}
        self._seen: dict[tuple[str, str], str] = {}

    def instance(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The instance with the new names."""
        shown = {"meta": None, **given, "black-white-list": ""}
        for block, (key, prefix) in _RULES.items():
            rules = self._data.get(block) or {}
            shown[key] = [self._name(block, prefix, rules[name]) for name in given.get(key) or ()]
        shown["block-allow-list"] = self._list(given)
        for unit, (keys, prefix, threads) in _UNITS.items():
            value = dict(given.get(unit) or self._named(f"{unit}s", given.get(f"{unit}-config-name")))
            if given.get(f"{unit}-thread"):
                value[threads] = given[f"{unit}-thread"]
            shown[f"{unit}-config-name"] = self._name(f"{unit}s", prefix, _filled(value, keys))
            shown |= {unit: None, f"{unit}-thread": 0}
        validator = given.get("validator-config-name")
        if validator:
            value = _filled(self._named("validators", validator), VALIDATORS)
            shown["validator-config-name"] = self._name("validators", "validator", value)
        return shown

    def _list(self, given: Mapping[str, Any]) -> str:
        """As in DM, the older spelling counts only where the newer one is missing."""
        for key in reversed(_LISTS):
            if given.get(key):
                lists = self._data.get("block-allow-list") or self._data.get("black-white-list") or {}
                return self._name("block-allow-list", "balist", lists[given[key]])
        return ""

    def _named(self, block: str, name: str | None) -> dict[str, Any]:
        return dict((self._data.get(block) or {}).get(name) or {})

    def _name(self, block: str, prefix: str, value: Any) -> str:
        content = json.dumps(value, sort_keys=True, default=str)
        if (block, content) not in self._seen:
            name = f"{prefix}-{len(self.blocks[block]) + 1:02d}"
            self._seen[block, content] = name
            self.blocks[block][name] = value
        return self._seen[block, content]


def _filled(value: dict[str, Any], block: Block) -> dict[str, Any]:
    return _fill(value, effects_of(block.keys, model=block.model))


def _fill(data: dict[str, Any], rows: Iterable[KeyEffect], empty: Any = None) -> dict[str, Any]:
    """Adds missing keys (a null counts as missing), and returns ``data``. ``empty``: the value of a key without
    default; None omits it."""
    for row in rows:
        if row.default != "required" and row.name not in _LEFT_OUT and data.get(row.name) is None:
            value = yaml.safe_load(row.default) if row.default else empty
            if value is not None:
                data[row.name] = value
    return data
