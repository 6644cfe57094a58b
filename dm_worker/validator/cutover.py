"""The position at which the application switches over to the target, set by an operator. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location, parse_position


@dataclass(frozen=True, slots=True)
class Cutover:
    """A position or a GTID set as text; both are '' until an operator sets one."""

    position: str = ""
    gtid_set: str = ""

    @classmethod
    def of(cls, position: str, gtid_set: str, flavor: str) -> Cutover:
        """Raises DMError for text that is neither."""
        if position:
            return cls(position=str(parse_position(position)))
        return cls(gtid_set=str(parse_gtid_set(gtid_set, flavor)))

    @property
    def is_known(self) -> bool:
        return bool(self.position or self.gtid_set)

    def is_reached(self, location: Location, flavor: str) -> bool:
        """Whether all changes up to it are before ``location``."""
        if self.position:
            return bool(location.position.name) and parse_position(self.position) <= location.position
        if not self.gtid_set:
            return False
        there = parse_gtid_set(location.gtid_set, flavor)
        return there.contains(parse_gtid_set(self.gtid_set, flavor))  # type: ignore[arg-type]

    def note(self, compared: Location, flavor: str) -> str:
        """The line of the status when all changes up to ``compared`` are compared; '' without a cutover."""
        if not self.is_known:
            return ""
        if self.is_reached(compared, flavor):
            return f"all changes up to the cutover at {self.position or self.gtid_set} are compared"
        return f"changes up to the cutover at {self.position or self.gtid_set} are not all compared yet"
