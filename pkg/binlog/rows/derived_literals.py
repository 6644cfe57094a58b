"""Literals that a row has beyond its columns: constants, and literals derived from a column's literal. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class LiteralChange(Protocol):
    """How one literal becomes another. Hashable and picklable; NULL stays NULL."""

    def literal(self, literal: bytes, /) -> bytes:
        """Raises DMError for a value that can't be converted."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A literal that follows the columns' literals in every image.

    ``source`` is the number of the column whose literal ``change`` converts; -1 for the constant ``text``.
    With a ``limit``, a plain number below it becomes ``base | number`` without a call of ``change``, which must give
    the same result.
    """

    source: int = -1
    text: bytes = b""
    change: LiteralChange | None = None
    base: int = 0
    limit: int = 0

    def literal(self, literal: bytes) -> bytes:
        """The derived literal for the source's literal."""
        assert self.change is not None
        return self.change.literal(literal)
