"""One row of the table of keys, and the warnings about keys without effect. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

#: works: the product acts on the value. warned: an answer says that the value does nothing. refused: an error names it.
EffectKind = Literal["works", "warned", "refused"]


class Present(Protocol):
    """A mapping of a file: which keys it has, and whether one has just this single value."""

    def has(self, key: str) -> bool: ...

    def says(self, key: str, value: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class KeyEffect:
    """What a key does.

    ``key`` is its path in the file: ``*`` stands for a name of the user's, ``[]`` for an entry of a list. ``default``
    and ``effect`` are as docs/configuration.md shows them. ``acts`` is the module that acts on the value, from the
    repository's root; '' for keys that are not *works*, and for what the reader of the file carries out itself.
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


def warnings_about(section: Present, place: str, effects: Iterable[KeyEffect]) -> Sequence[str]:
    """One sentence for each key of ``effects`` without effect that ``section`` gives another value than the default.

    ``place`` names the section, '' for the file.
    """
    return [
        warning(one.name, place, one.effect)
        for one in effects
        if one.kind == "warned" and section.has(one.name) and not section.says(one.name, one.default)
    ]


def warning(key: str, place: str, reason: str) -> str:
    """The sentence about a key whose value does nothing."""
    return f"{key}{f' of {place}' if place else ''} has no effect: {reason[:1].lower()}{reason[1:].rstrip('.')}"
