"""How a Spark task and the worker that holds the syncer agree on a pair of snapshots: by a table of the target.

``<task>_diff_pair`` has one row per source and Spark task. A Spark task reaches the target and no port of a worker;
workers need not know where tasks run, or whose they are: for merged shards a task needs all sources of a table, and
asks the workers of all of them. The steps, each written by the side in brackets::

    wanted   [task]    wants a pair
    ready    [worker]  the syncer is held somewhere: open the upstream's snapshot now
    asked    [task]    the snapshot is at ``place``: hold the syncer there
    held     [worker]  the target is at ``place``: open its snapshot    (or: refused, with the reason)
    opened   [task]    the syncer may continue                           (or: given up)

Before that, a task that has other work may ask whether anyone serves the source: ``called`` [task], ``there`` [worker].

The worker holds the syncer for a limited time, whatever becomes of the task. The task reads the checkpoint in its
snapshot of the target, so that no error in these steps can make a pair whose sides differ.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection

from dm_worker.syncer.checkpoint.meta_connection import ANY_TEXT
from pkg.binlog.position import Location, Position
from pkg.config.model import SubTaskConfig
from pkg.mysql import driver
from pkg.mysql.connection import connect
from pkg.mysql.introspect import query
from pkg.mysql.names import qualified

WANTED, READY, ASKED, HELD, REFUSED, OPENED, GIVEN_UP = (
    "wanted", "ready", "asked", "held", "refused", "opened", "given up",
)  # fmt: skip
CALLED, THERE = "called", "there"
#: Seconds for the syncer to end the batch that it writes, and then to reach the place of the upstream's snapshot, from
#: as far behind as a comparison allows; and for the task to open each snapshot, since it waits for all of its sources.
PLACE_SECONDS = 30.0
#: Seconds between two queries of the table while the other side must answer soon.
QUICK = 0.002


def pair_table(meta_schema: str, task: str) -> str:
    return qualified(meta_schema, f"{task}_diff_pair")


def creation(table: str) -> str:
    """The statement that creates the table where it is missing."""
    return (
        f"CREATE TABLE IF NOT EXISTS {table} (id VARCHAR(32) NOT NULL, asker VARCHAR(48) NOT NULL,"
        f" step VARCHAR(8) NOT NULL, place LONGTEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (id, asker)){ANY_TEXT}"
    )


def open_meeting(cfg: SubTaskConfig, source: str) -> PairMeeting:
    """The rows of ``source``, in the task of ``cfg``, over a new connection. Raises DMError and the driver's errors."""
    table = pair_table(cfg.meta_schema, cfg.name)
    conn = connect(cfg.to, scope="downstream", autocommit=True, session={"sql_mode": ""})
    query(conn, creation(table))
    return PairMeeting(conn, table, source)


@dataclass(frozen=True, slots=True)
class MeetingRow:
    """The row of one Spark task's pair. ``asker``: the source that compares, and the task's number."""

    asker: str
    step: str
    place: Location | None
    reason: str


class PairMeeting:
    """The rows of one source, over a connection in autocommit mode."""

    def __init__(self, conn: Connection[Any], table: str, source: str) -> None:
        self._conn = conn
        self._table = table
        self._source = source

    def close(self) -> None:
        driver.drop(self._conn)

    def want(self, asker: str) -> None:
        self._begin(asker, WANTED)

    def is_served(self, asker: str, seconds: float) -> bool:
        """Whether a worker that serves the source answers within these seconds."""
        self._begin(asker, CALLED)
        answer = self.await_other(asker, CALLED, seconds)
        return answer is not None and answer.step == THERE

    def answer_calls(self) -> None:
        """Answers all calls: the source is served."""
        query(
            self._conn, f"UPDATE {self._table} SET step = %s WHERE id = %s AND step = %s", (THERE, self._source, CALLED)
        )

    def _begin(self, asker: str, step: str) -> None:
        query(
            self._conn,
            f"REPLACE INTO {self._table} (id, asker, step, place, reason) VALUES (%s, %s, %s, '', '')",
            (self._source, asker, step),
        )

    def move(self, asker: str, before: str, after: str, *, place: Location | None = None, reason: str = "") -> bool:
        """Writes the step if the row is still at ``before``; returns whether it was."""
        sets, values = "step = %s, reason = %s", [after, reason]
        if place is not None:
            sets, values = f"{sets}, place = %s", [*values, _stored(place)]
        with self._conn.cursor() as cursor:
            changed: int = cursor.execute(
                f"UPDATE {self._table} SET {sets} WHERE id = %s AND asker = %s AND step = %s",
                (*values, self._source, asker, before),
            )
        return changed == 1

    def rows(self, *steps: str) -> list[MeetingRow]:
        """The rows at one of these steps."""
        sql = f"SELECT asker, step, place, reason FROM {self._table} WHERE id = %s AND step IN %s ORDER BY asker"
        return [_row(one) for one in query(self._conn, sql, (self._source, steps))]

    def row(self, asker: str) -> MeetingRow | None:
        sql = f"SELECT asker, step, place, reason FROM {self._table} WHERE id = %s AND asker = %s"
        found = query(self._conn, sql, (self._source, asker))
        return _row(found[0]) if found else None

    def await_other(
        self, asker: str, while_at: str, seconds: float, should_stop: Callable[[], bool] = lambda: False
    ) -> MeetingRow | None:
        """Waits until the row has left a step; None after ``seconds``, or when a stop was requested."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.row(asker)
            if found is None or found.step != while_at:
                return found
            if time.monotonic() > deadline or should_stop():
                return None
            time.sleep(QUICK)


def _stored(place: Location) -> str:
    return json.dumps([place.position.name, place.position.pos, place.gtid_set])


def _row(values: tuple[Any, ...]) -> MeetingRow:
    asker, step, place, reason = values
    location = None
    if place:
        name, offset, gtid = json.loads(place)
        location = Location(Position(name, offset), gtid)
    return MeetingRow(str(asker), str(step), location, str(reason))
