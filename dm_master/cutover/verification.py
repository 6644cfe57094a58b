"""Verifies that both sides are still in the state that a certificate describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dm_master.cutover.run_record import Certificate, CutoverRecord, differences
from dm_master.cutover.table_checksums import TableSum, why_changed
from pkg.binlog.position import Location
from pkg.mysql.names import TableId, qualified


class VerifiedServers(Protocol):
    """The queries to the servers. Each raises DMError."""

    def checksums(self, tables: list[TableId]) -> list[TableSum]: ...

    def upstream_ends(self) -> Mapping[str, Location | None]: ...

    def first_changes(self, start: Location, tables: list[TableId]) -> Mapping[TableId, str]:
        """For each table whose first write was found: its time and position in the target's binlog."""


@dataclass(frozen=True, slots=True)
class VerifiedSum:
    """``state``: equal, different, missing or not compared. ``since``: for one that is not equal."""

    target: str
    state: str
    since: str
    rows: int
    certified_rows: int


@dataclass(frozen=True, slots=True)
class Verification:
    """``written``: the upstreams that have written since the cutover."""

    tables: tuple[VerifiedSum, ...]
    written: tuple[str, ...]

    @property
    def equal(self) -> list[str]:
        return [one.target for one in self.tables if one.state == "equal"]

    @property
    def is_equal(self) -> bool:
        return len(self.equal) == len(self.tables) and not self.written

    @property
    def reasons(self) -> list[str]:
        return [
            *(f"{one.target}: {one.state} since {one.since}" for one in self.tables if one.state != "equal"),
            *(f"the upstream has written since the cutover: {each}" for each in self.written),
        ]


def verify(certificate: Certificate, servers: VerifiedServers, known: CutoverRecord | None) -> Verification:
    """``known``: the stored record of the cutover, with the times at which tables were last found equal."""
    present = {one.target: one for one in servers.checksums([one.target for one in certificate.sums])}
    looks = known.equal_at if known is not None and known.run == certificate.run else {}
    ends = servers.upstream_ends()
    changed = [one.target for one in certificate.sums if why_changed(one, present.get(one.target))]
    start = certificate.target_end
    first = servers.first_changes(start, changed) if changed and start is not None else {}
    return Verification(
        tuple(
            _verified(
                one,
                present.get(one.target),
                first.get(one.target) or f"a moment after {looks.get(qualified(*one.target), certificate.ended)} UTC",
            )
            for one in certificate.sums
        ),
        tuple(differences(certificate.ends, ends)),
    )


def _verified(certified: TableSum, present: TableSum | None, since: str) -> VerifiedSum:
    name, rows = qualified(*certified.target), 0 if present is None else present.rows
    why = why_changed(certified, present)
    if not why:
        return VerifiedSum(name, "equal", "", rows, certified.rows)
    state = "missing" if present is None else "not compared" if certified.undigested else "different"
    return VerifiedSum(name, state, f"{since}: {why}", rows, certified.rows)
