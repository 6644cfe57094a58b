"""The executed GTID set at the planner's position. Pure."""

from __future__ import annotations

from typing import Protocol

from pkg.binlog import gtid


class GtidTracker(Protocol):
    """The executed GTID set, fed with the GTIDs of finished transactions, or runs of them, as servers write them."""

    def add(self, text: str) -> None: ...

    def text(self) -> str: ...

    def text_with(self, text: str) -> str: ...

    def contains(self, text: str) -> bool: ...

    def is_beyond(self, text: str) -> bool: ...

    def is_part(self, transaction: str, text: str) -> bool: ...


class ExecutedGtids:
    """Tracks the set of a :class:`Planner`. ``text`` is the set before the first event."""

    def __init__(self, flavor: str, text: str) -> None:
        """Raises 11093 or a similar error for text that is not a GTID set of this flavor."""
        self._flavor = flavor
        self._set = gtid.parse_gtid_set(text, flavor)
        self._text: str | None = None
        #: The last set that was queried, as text and as a set.
        self._asked, self._other = "", gtid.parse_gtid_set("", flavor)

    def add(self, text: str) -> None:
        """Adds transactions that have ended: one GTID, or a MySQL source's run of them."""
        self._set.add(text)
        self._text = None

    def text(self) -> str:
        """The set's canonical text."""
        if self._text is None:
            self._text = str(self._set)
        return self._text

    def text_with(self, text: str) -> str:
        """The set's text as if the transaction ``text`` had ended."""
        more = gtid.parse_gtid_set(self.text(), self._flavor)
        more.add(text)
        return str(more)

    def contains(self, text: str) -> bool:
        """Whether all of ``text`` is executed."""
        return self._set.contains(self._parsed(text))  # type: ignore[arg-type]

    def is_beyond(self, text: str) -> bool:
        """Whether all of ``text`` is executed, and more."""
        other = self._parsed(text)
        return self._set != other and self._set.contains(other)  # type: ignore[arg-type]

    def is_part(self, transaction: str, text: str) -> bool:
        """Whether one transaction is in the set ``text``."""
        return self._parsed(text).contains(gtid.parse_gtid_set(transaction, self._flavor))  # type: ignore[arg-type]

    def _parsed(self, text: str) -> gtid.GTIDSet:
        if text != self._asked:
            self._asked, self._other = text, gtid.parse_gtid_set(text, self._flavor)
        return self._other
