"""The shape of a configuration file: its allowed keys at each level, in the order in which files are written.

``pkg/settings/keys.py`` creates it from the declarations of the keys. Pure data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or a list of scalars; the reader of the key checks which one."""


@dataclass(frozen=True, slots=True)
class Free:
    """A mapping whose keys are the user's own, such as session variables."""


@dataclass(frozen=True, slots=True)
class Named:
    """A mapping from the user's names to ``shape``."""

    shape: Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class Items:
    """A list of ``shape``."""

    shape: Mapping[str, Shape]


Shape: TypeAlias = "Leaf | Free | Named | Items | Mapping[str, Shape]"
LEAF = Leaf()


#: Keys whose values are never shown.
SECRET_KEYS = frozenset({"password", "ssl-key-bytes", "ssl-key-base64"})
