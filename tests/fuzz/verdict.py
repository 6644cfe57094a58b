"""What came of a history. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["equal", "refused", "different", "stopped", "hang"]
#: What each outcome means, for readers of a report.
MEANINGS: dict[Kind, str] = {
    "equal": "the target has the upstream's rows (and after a full copy its structures)",
    "refused": "the task stopped with an error that is right for what the history does",
    "different": "the task came to the end, but the target differs from the upstream",
    "stopped": "the task stopped with an error that nothing in the history explains",
    "hang": "the task neither came to the end nor stopped",
}


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

    @property
    def sentence(self) -> str:
        """As a reader of the report needs it."""
        return MEANINGS[self.kind] + (f" (code {self.code})" if self.code else "")
