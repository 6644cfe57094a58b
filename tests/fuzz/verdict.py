"""What came of a history. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["equal", "refused", "different", "stopped", "hang"]


@dataclass(frozen=True)
class Verdict:
    """``executed``: the features that the history had in fact; ``code``: the error's.

    ``refused`` is an error that the table of refusals has for one of these features, ``stopped`` any other.
    """

    kind: Kind
    executed: frozenset[str] = frozenset()
    code: int = 0
    text: str = ""
    statements: int = 0
    #: How many of its statements the upstream refused.
    failed: int = 0

    @property
    def is_finding(self) -> bool:
        return self.kind in ("different", "stopped", "hang")

    @property
    def signature(self) -> str:
        """What makes two findings likely to be one: the kind and the code."""
        return f"{self.kind} {self.code}" if self.code else self.kind
