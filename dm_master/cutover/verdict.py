"""The verdict of one check. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

#: "not applicable": the servers do not have what the check is about; the evidence has the reason.
Verdict = Literal["yes", "no", "unknown", "not applicable"]

#: The most lines of evidence that one check shows; the last line says how many more there are.
MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """``name`` is the check's name in ``--accept``; ``remedy`` is what to do, '' if nothing is needed."""

    name: str
    verdict: Verdict
    evidence: tuple[str, ...]
    remedy: str = ""

    @property
    def passed(self) -> bool:
        return self.verdict in ("yes", "not applicable")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A fact that could not be read: why, and what gives the right to read it."""

    why: str
    remedy: str = ""


def problems(name: str, found: Sequence[str], remedy: str, *, otherwise: str) -> CheckVerdict:
    """*no* with the problems that were ``found``; *yes* with the evidence ``otherwise`` if there are none."""
    if not found:
        return CheckVerdict(name, "yes", (otherwise,))
    return CheckVerdict(name, "no", bounded(found), remedy)


def at_target(statements: Iterable[str], note: str = "") -> str:
    """The remedy that is SQL, and what else there is to say; without statements the note alone."""
    listed = "; ".join(dict.fromkeys(filter(None, statements)))
    return " — ".join(filter(None, (f"on the target: {listed}" if listed else "", note)))


def bounded(lines: Iterable[str]) -> tuple[str, ...]:
    every = list(lines)
    if len(every) <= MOST_LINES:
        return tuple(every)
    return (*every[:MOST_LINES], f"… and {len(every) - MOST_LINES} more")


def unknown(name: str, unreadable: Iterable[tuple[str, Unreadable]]) -> CheckVerdict:
    """The verdict when facts of servers (label, reason) could not be read."""
    pairs = list(unreadable)
    remedies = dict.fromkeys(one.remedy for _, one in pairs if one.remedy)
    return CheckVerdict(name, "unknown", bounded(f"{label}: {one.why}" for label, one in pairs), "; ".join(remedies))
