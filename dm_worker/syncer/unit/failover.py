"""Checks, before unfinished transactions are applied again on another server, that all of their rows have a key."""

from __future__ import annotations

from collections.abc import Callable

from dm_worker.syncer.planning.planning_thread import READ_BYTES
from dm_worker.syncer.planning.server_switch import ServerSwitched, SwitchSurvey, keyless_table_error, switch_error
from dm_worker.syncer.planning.table_maps import SHAPE
from dm_worker.syncer.planning.table_resolution import Resolve
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.binlog.streams.stream import BinlogStream

#: Seconds to wait for what this server does not have yet.
_WAIT = 0.2


def ensure_keys(
    stream: BinlogStream,
    survey: SwitchSurvey,
    resolve: Resolve,
    switch: ServerSwitched,
    should_stop: Callable[[], bool],
) -> None:
    """Reads ``stream`` as far as ``survey`` needs it. Raises DMError when rows of a table without a key are in it.

    Looking first means that nothing has changed when it is refused: the operator can go back to the former server.
    """
    seen: set[bytes] = set()
    while not survey.done and not should_stop():
        for event in stream.read(READ_BYTES, _WAIT):
            data = survey.feed(event)
            if data is None or data[SHAPE:] in seen:
                continue
            seen.add(data[SHAPE:])
            plan, _ = resolve(data, survey.position)
            if isinstance(plan, TablePlan) and not plan.key:
                raise keyless_table_error(switch, plan.source)
        if survey.has_xa:
            raise switch_error(switch, "and the rows of an XA COMMIT are at another position")
