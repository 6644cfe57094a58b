"""``target-collations``: the task's replacements for collations that the target lacks."""

from __future__ import annotations

import re

from pkg.errors import Code
from pkg.settings.yaml_reader import Section

_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*", re.IGNORECASE)
#: MariaDB's collations for any charset.
_CONTEXTUAL = "uca1400_"


def chosen_collations(section: Section, key: str) -> tuple[tuple[str, str], ...]:
    """Pairs of an upstream's and the target's collation. Raises 20003 for an impossible pair."""
    found = tuple((name.strip().lower(), instead.strip().lower()) for name, instead in section.pairs(key))
    for name, instead in found:
        if not _NAME.fullmatch(name) or not _NAME.fullmatch(instead):
            what = f"{instead if _NAME.fullmatch(name) else name!r} is not the name of a collation"
        elif not name.startswith(_CONTEXTUAL) and _charset(name) != _charset(instead):
            what = f"{name} and {instead} are of different charsets"
        else:
            continue
        raise section.error(
            Code.ConfigYamlTransform,
            key,
            what,
            "Write the upstream's collation and one of the target's for the same charset, such as "
            "utf8mb4_uca1400_ai_ci: utf8mb4_0900_ai_ci.",
        )
    return found


def _charset(collation: str) -> str:
    charset = collation.partition("_")[0]
    return "utf8" if charset == "utf8mb3" else charset
