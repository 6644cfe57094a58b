"""Removes executed transactions from a stream, as a server does for a replica that requests a GTID set. Pure."""

from __future__ import annotations

from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.events import Event, parse_gtid, parse_previous_gtids
from pkg.binlog.gtid import GTIDSet, MariaDBGTIDSet, MySQLGTIDSet
from pkg.errors import Code

_GTIDS = frozenset({c.GTID_EVENT, c.GTID_TAGGED_EVENT, c.MARIADB_GTID_EVENT})
_LISTS = frozenset({c.PREVIOUS_GTIDS_EVENT, c.MARIADB_GTID_LIST_EVENT})
#: Events that belong to no transaction with a GTID.
_OUTSIDE = frozenset(
    {c.ROTATE_EVENT, c.FORMAT_DESCRIPTION_EVENT, c.STOP_EVENT, c.PREVIOUS_GTIDS_EVENT, c.MARIADB_GTID_LIST_EVENT}
    | {c.ANONYMOUS_GTID_EVENT}
)


class MySQLExecuted:
    """Skips the transactions of ``executed``. ``before``: the GTID set before the first event."""

    def __init__(self, executed: MySQLGTIDSet, before: MySQLGTIDSet) -> None:
        self._missing = executed.subtract(before)
        self._seen = MySQLGTIDSet()

    @property
    def done(self) -> bool:
        """Whether everything was skipped: all that follows is new."""
        return self._seen.contains(self._missing)

    def holds(self, gtid: str) -> bool:
        """Whether ``gtid``, the transaction that begins, was executed."""
        one = MySQLGTIDSet(gtid)
        if not self._missing.contains(one):
            return False
        self._seen.add(gtid)
        return True

    def begin_file(self, listed: GTIDSet) -> None:
        """A file begins; ``listed`` was executed before it."""
        if isinstance(listed, MySQLGTIDSet):
            self._seen.update(listed)


class MariaDBExecuted:
    """The same for MariaDB, where each domain continues after exactly its last GTID."""

    def __init__(self, executed: MariaDBGTIDSet, before: MariaDBGTIDSet) -> None:
        self._missing = {
            domain: last for domain, last in executed.domains().items() if before.domains().get(domain) != last
        }

    @property
    def done(self) -> bool:
        return not self._missing

    def holds(self, gtid: str) -> bool:
        """Raises 11121 when the stream passes a domain's last GTID without containing it."""
        domain, server, sequence = map(int, gtid.split("-"))
        last = self._missing.get(domain)
        if last is None:
            return False
        if last == (server, sequence):
            del self._missing[domain]
        elif server == last[0] and sequence > last[1]:
            raise _not_met(domain, last, gtid)
        return True

    def begin_file(self, listed: GTIDSet) -> None:
        """A file begins; ``listed`` was executed before it. Raises 11121 as :meth:`holds`."""
        known = listed.domains() if isinstance(listed, MariaDBGTIDSet) else {}
        for domain, last in self._missing.items():
            if domain in known and known[domain][1] >= last[1]:
                raise _not_met(domain, last, str(listed))


def _not_met(domain: int, last: tuple[int, int], found: str) -> errors.DMError:
    return errors.new(
        Code.NoRelayPosMatchGTID,
        f"no relay pos match gtid {domain}-{last[0]}-{last[1]}: the relay log continues with {found} and does not "
        "contain this last executed GTID of its domain",
        workaround="The task reads the upstream directly instead. If the upstream was reset, migrate it again from a "
        "full copy.",
    )


class Unexecuted:
    """The events of a stream without those of executed transactions."""

    def __init__(self, executed: GTIDSet, before: GTIDSet) -> None:
        """``before``: the set in the head of the first file."""
        self._executed = _executed(executed, before)
        self._inside = False

    @property
    def done(self) -> bool:
        """Whether no further transaction has to be removed."""
        return not self._inside and self._executed.done

    def pick(self, events: list[Event], file: str) -> list[Event]:
        """The events to read. Raises 11121, 11071."""
        return [event for event in events if self._wanted(event, file)]

    def _wanted(self, event: Event, file: str) -> bool:
        if event.type in _GTIDS:
            self._inside = self._executed.holds(parse_gtid(event, file).text)
        elif event.type in _OUTSIDE:
            self._inside = False
            if event.type in _LISTS:
                self._executed.begin_file(parse_previous_gtids(event, file))
        return not self._inside


def _executed(executed: GTIDSet, before: GTIDSet) -> MySQLExecuted | MariaDBExecuted:
    if isinstance(executed, MySQLGTIDSet) and isinstance(before, MySQLGTIDSet):
        return MySQLExecuted(executed, before)
    if isinstance(executed, MariaDBGTIDSet) and isinstance(before, MariaDBGTIDSet):
        return MariaDBExecuted(executed, before)
    raise TypeError("GTID sets of two flavors")
