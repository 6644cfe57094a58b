"""The executed GTID set while the planner reads on. Pure."""

from __future__ import annotations

from pkg.binlog import gtid
from pkg.binlog.events import Event, parse_gtid

#: Transactions are merged into the set in groups: most are the next of their source, and nobody asks for every text.
_PENDING = 10_000


class ExecutedGtids:
    """Keeps the set of a :class:`Planner`. ``text`` is what was executed before the first event."""

    def __init__(self, flavor: str, text: str) -> None:
        """Raises 11093 or its like for text that is no GTID set of this flavor."""
        self._flavor = flavor
        self._set = gtid.parse_gtid_set(text, flavor)
        self._pending: list[Event] = []
        self._text = str(self._set)

    def add(self, event: Event) -> None:
        """The transaction that ``event`` began has ended."""
        self._pending.append(event)
        if len(self._pending) >= _PENDING:
            self._merge()

    def text(self) -> str:
        """The set's canonical text."""
        if self._pending:
            self._merge()
        return self._text

    def text_with(self, event: Event) -> str:
        """The set's text as if the transaction that ``event`` began had ended."""
        more = gtid.parse_gtid_set(self.text(), self._flavor)
        more.add(parse_gtid(event).text)
        return str(more)

    def _merge(self) -> None:
        for event in self._pending:
            self._set.add(parse_gtid(event).text)
        self._pending.clear()
        self._text = str(self._set)
