"""What dmctl's tests share."""

from __future__ import annotations

from collections.abc import Callable

RunDmctl = Callable[..., tuple[int, str, str]]
