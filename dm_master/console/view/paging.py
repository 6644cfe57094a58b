"""Long lists in pages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Paged(Generic[T]):
    """``number`` counts from 1; ``total`` counts the items of all pages."""

    items: Sequence[T]
    number: int
    pages: int
    total: int


def paged(items: Sequence[T], number: int, size: int) -> Paged[T]:
    """The page with this number, or the nearest that there is."""
    pages = max(1, -(-len(items) // size))
    number = min(max(1, number), pages)
    return Paged(items[(number - 1) * size : number * size], number, pages, len(items))


def page_number(text: str) -> int:
    """The number in a query; 1 for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 1
