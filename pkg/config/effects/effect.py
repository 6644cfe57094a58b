"""The rows of the page about keys, and the warnings about keys without effect. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pkg.config.fields import field_defaults
from pkg.settings.keys import EffectKind, FileKey, FilePart
from pkg.settings.units import format_duration


class Present(Protocol):
    """A mapping of a file: its keys, and whether one has only this single value."""

    def has(self, key: str) -> bool: ...

    def says(self, key: str, value: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class KeyEffect:
    """The effect of a key.

    ``key`` is its path in the file: ``*`` for a name of the user's, ``[]`` for an entry of a list. ``default`` and
    ``effect`` are as in docs/configuration.md. ``acts`` is the module that uses the value, from the repository's root;
    '' for keys that are not *works*, and for those that the reader of the file executes itself.
    """

    key: str
    default: str
    effect: str
    acts: str = ""
    kind: EffectKind = "works"

    @property
    def name(self) -> str:
        """The key alone, without its path."""
        return self.key.rpartition(".")[2].removesuffix("[]")


def effects_of(parts: Iterable[FilePart], path: str = "", model: type | None = None) -> Iterator[KeyEffect]:
    """A row for each key, in the order of the file; ``model`` has the defaults of keys without their own."""
    for part in parts:
        location = f"{path}.{part.name}" if path else part.name
        if isinstance(part, FileKey):
            yield KeyEffect(location, _shown_default(part, model), part.effect, part.acts, part.kind)
        elif part.effect:
            yield KeyEffect(location, "", part.effect, part.acts)
        else:
            yield from effects_of(
                part.keys, location + {"one": "", "named": ".*", "items": "[]"}[part.form], part.model
            )


def _shown_default(key: FileKey, model: type | None) -> str:
    if key.default is not None:
        return key.default
    value = None if model is None else field_defaults(model).get(key.target)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return json.dumps(value)
    if isinstance(value, float):  # by the fields' readers, each of these is a duration
        return format_duration(value)
    return "" if value is None else str(value)


def warnings_about(section: Present, location: str, effects: Iterable[KeyEffect]) -> Sequence[str]:
    """One sentence for each key of ``effects`` without effect to which ``section`` gives a value other than the
    default.

    ``location`` names the section, '' for the file.
    """
    return [
        warning(one.name, location, one.effect)
        for one in effects
        if one.kind == "warned" and section.has(one.name) and not section.says(one.name, one.default)
    ]


def warning(key: str, location: str, reason: str) -> str:
    """The sentence about a key whose value has no effect."""
    return f"{key}{f' of {location}' if location else ''} has no effect: {reason[:1].lower()}{reason[1:].rstrip('.')}"
