"""The upstream is another server than before (a failover by GTID), or the binlog another one. Pure.

A location inside a transaction counts its rows events. Each server packs rows into events in its own way, so the
count is valid only in the binlog where it was made; and another server may commit other transactions first.
On another server the transaction is applied again from its start, in safe mode: rows with a key are then right
no matter which of them were applied. Rows without a key can't be distinguished, so the planner's caller checks for them
before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dm_worker.syncer.planning.event_buffer import gtid_text
from dm_worker.syncer.planning.xa import xa_statement
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.events import Event
from pkg.binlog.gtid import MariaDBGTIDSet, MySQLGTIDSet, parse_gtid_set
from pkg.binlog.gtid_event import GTID_EVENTS, gtid_of
from pkg.binlog.position import FileIdentity, Location, Position, file_number
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice
from pkg.mysql.names import qualified


class ServerSwitched(Exception):
    """The rows events that ``location`` counts are not those of the current binlog; ``found`` describes it."""

    def __init__(self, location: Location, found: str) -> None:
        super().__init__(location, found)
        self.location = location
        self.found = found


def cut_mark(server_id: int, gtid: str) -> str:
    """The binlog of the rows events that a location counts: the server, and the transaction ('' without GTID)."""
    return f"{server_id} {gtid}"


def _server_of(mark: str) -> str:
    return mark.partition(" ")[0]


def gtid_of_cut(location: Location) -> str:
    """The transaction that ``location`` is in; '' when it is in none, or that is unknown."""
    return location.cut.partition(" ")[2] if location.rows_events else ""


def ensure_server(location: Location, server_id: int) -> None:
    """Raises ServerSwitched when ``location`` counts rows events of another server than this binlog's."""
    if location.rows_events and location.cut and _server_of(location.cut) != str(server_id):
        raise ServerSwitched(location, f"server_id {server_id}")


def ensure_transaction(location: Location, server_id: int, gtid: str, file: str, event: Event) -> None:
    """Raises ServerSwitched when ``event``, in ``file``, begins another transaction than ``location`` is in.

    Earlier versions recorded its position alone.
    """
    begins = Position(file, event.log_pos - event.size)
    # The header has the lower 32 bits of a position.
    same_position = begins.name == location.position.name and not (begins.pos - location.position.pos) & 0xFFFFFFFF
    if not same_position or (location.cut and location.cut != cut_mark(server_id, gtid)):
        raise ServerSwitched(location, f"{gtid or 'a transaction'} at {begins}, server_id {server_id}")


def ensure_same_file(location: Location, known: FileIdentity | None, found: FileIdentity) -> None:
    """Raises DMError (36069) when ``found`` is not the file in which ``location`` is, ``known``; None is any file."""
    if known is not None and known != found:
        raise _other_binlog(location, f"is in {known}, but the upstream's file of this name is {found}")


@dataclass(frozen=True, slots=True)
class UpstreamBinlog:
    """A server's answer about its binlog: its files, its executed GTID set, and the identity of the checkpoint's file;
    None when it has none."""

    server_id: int
    files: Collection[str]
    executed: str
    namesake: FileIdentity | None


def ensure_same_history(location: Location, found: UpstreamBinlog, flavor: str) -> None:
    """Raises DMError (36069) when the server numbers transactions again, so that those of ``location``'s GTID set may
    be others now.

    The same server must still have the checkpoint's file, or only later ones. Another server must have executed what is
    applied: one that lags may receive it yet, so that error is retryable.
    """
    known = location.file
    if known is None:
        return
    if known.server_id != found.server_id:
        lacks = _lacking(location.gtid_set, found.executed, flavor)
        if lacks:
            raise _other_binlog(
                location,
                f"was read from server_id {known.server_id}; the upstream is now server_id {found.server_id}, which "
                f"has not executed {lacks}: it is behind, or its numbers began again",
                retryable=True,
            )
        return
    if found.namesake is not None:
        ensure_same_file(location, known, found.namesake)
    elif restarted := [file for file in found.files if _comes_before(file, known.name)]:
        raise _other_binlog(
            location, f"is in {known}, which server_id {found.server_id} does not have; it has {restarted[0]}"
        )


def _lacking(wanted: str, executed: str, flavor: str) -> str:
    """The GTIDs of ``wanted`` that a server has not executed, of those sources or domains that it knows."""
    ours, theirs = parse_gtid_set(wanted, flavor), parse_gtid_set(executed, flavor)
    if isinstance(ours, MySQLGTIDSet) and isinstance(theirs, MySQLGTIDSet):
        return str(ours.subtract(theirs).of_sources(theirs))
    if isinstance(ours, MariaDBGTIDSet) and isinstance(theirs, MariaDBGTIDSet):
        there = theirs.domains()
        behind = [
            f"{domain}-{server}-{number}"
            for domain, (server, number) in ours.domains().items()
            if domain in there and there[domain][1] < number
        ]
        return ",".join(behind)
    return ""


def _comes_before(file: str, other: str) -> bool:
    """Whether a file comes before another one of the same base name."""
    return file.rpartition(".")[0] == other.rpartition(".")[0] and file_number(file) < file_number(other)


def _other_binlog(location: Location, why: str, *, retryable: bool = False) -> DMError:
    return errors.new(
        Code.SyncerGetEvent,
        f"the upstream has another binlog than the one that was read before: the checkpoint {location} {why}",
        workaround=Advice.OTHER_BINLOG,
        scope="upstream",
        retryable=retryable,
    )


def uncertain_gtids(start: Location, end: Location, flavor: str) -> str | None:
    """The GTID set up to where the target may contain a part of what comes after ``start``, by an unfinished range up
    to ``end``; None when a transaction's GTID is unknown."""
    upto = parse_gtid_set(end.gtid_set, flavor)
    for location in (start, end):
        if location.rows_events:
            gtid = gtid_of_cut(location)
            if not gtid:
                return None
            upto.update(parse_gtid_set(gtid, flavor))  # type: ignore[arg-type]
    return str(upto)


class SwitchSurvey:
    """Reads ahead over what is to be applied again, up to ``upto``, for the tables in it. Feed it events."""

    def __init__(self, start: Location, upto: str, flavor: str) -> None:
        self._flavor = flavor
        self._executed = parse_gtid_set(start.gtid_set, flavor)
        self._upto = parse_gtid_set(upto, flavor)
        self._file = start.position.name
        self._gtid = ""
        self._doubtful = False
        self.position = start.position
        #: An XA COMMIT is among them: its rows are elsewhere.
        self.has_xa = False

    @property
    def done(self) -> bool:
        return self._executed.contains(self._upto)  # type: ignore[arg-type]

    def feed(self, event: Event) -> bytes | None:
        """The TABLE_MAP, if the event is one of a transaction in doubt. Raises 11071 when the event is torn."""
        if event.type == c.ROTATE_EVENT:
            self._file = ev.parse_rotate(event, self._file).file
        self.position = Position(self._file, event.log_pos)
        if event.type in GTID_EVENTS:
            self._end()
            run = gtid_of(event, self._file)
            self._gtid = gtid_text((*run, run[1])) if run[0] else ""
            self._doubtful = bool(self._gtid) and self._upto.contains(parse_gtid_set(self._gtid, self._flavor))  # type: ignore[arg-type]
        elif event.type in (c.XID_EVENT, c.XA_PREPARE_EVENT):
            self._end()
        elif event.type in c.QUERY_EVENTS:
            self._on_query(event)
        elif event.type == c.TABLE_MAP_EVENT and self._doubtful:
            return event.data
        return None

    def _on_query(self, event: Event) -> None:
        word = xa_statement(event, self._file)
        if word is not None and word.kind == "commit" and self._doubtful:
            self.has_xa = True
        elif event.data.endswith(b"\0COMMIT"):
            self._end()

    def _end(self) -> None:
        if self._gtid:
            self._executed.add(self._gtid)
        self._gtid, self._doubtful = "", False


#: The operator action that is always possible.
_BACK = (
    "Point the source's address to the former server until the task is past this position, or migrate the tables "
    "of these transactions again."
)


def switch_error(switch: ServerSwitched, why: str) -> DMError:
    """For a switch after which it is unknown which rows are applied."""
    return errors.new(
        Code.SyncerEvent,
        f"replication stopped inside a transaction at {switch.location}, {switch.location.rows_events} rows events "
        f"after its start (counted by: {switch.location.cut or 'not recorded'}), but the upstream is now another "
        f"server or has another binlog ({switch.found}), where rows events may be split differently; {why}",
        scope="upstream",
        workaround=_BACK,
    )


def keyless_table_error(switch: ServerSwitched, table: tuple[str, str]) -> DMError:
    """For a table without a key among what has to be applied again."""
    return switch_error(
        switch,
        f"the table {qualified(*table)} has no key, so which of its rows the target already has is not known",
    )
