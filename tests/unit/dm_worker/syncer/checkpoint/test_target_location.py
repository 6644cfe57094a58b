"""Hazard: rows count as those of a location although some of them are of another one."""

from __future__ import annotations

from types import TracebackType
from typing import Any, cast

import pytest
from pymysql.connections import Connection

from dm_worker.syncer.checkpoint.target_location import Whereabouts, location_in
from pkg.binlog.position import Location, Position

UUID = "00010203-0405-0607-0809-0a0b0c0d0e0f"


class Session:
    """A snapshot of the meta tables: the batch row, the markers, the checkpoint row."""

    def __init__(
        self,
        checkpoint: tuple[int, str] | None,
        *,
        state: str = "idle",
        at: tuple[int, str] | None = None,
        rows_events: int = 0,
        safe: int = 0,
        beyond: int = 0,
        exit_safe: str = "",
    ) -> None:
        self._checkpoint = checkpoint
        place = at or checkpoint or (0, "")
        here, away = ("bin.000001", *place, rows_events), ("bin.000001", 10**6, f"{UUID}:1-999", 0)
        self._batch = (state, *((away, here) if state == "idle" else (here, away)), safe)
        self._beyond = beyond
        self._exit_safe = exit_safe
        self._found: list[tuple[Any, ...]] = []

    def cursor(self) -> Session:
        return self

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        pass

    def execute(self, sql: str, args: object = None) -> None:
        state, start, end, safe = self._batch
        if "`m`.`t_syncer_checkpoint`" in sql:
            place = self._checkpoint
            self._found = [] if place is None else [("bin.000001", *place, self._exit_safe, "")]
        elif "`m`.`t_syncer_marker`" in sql:
            self._found = [(self._beyond,)]
        else:
            assert "`m`.`t_syncer_batch`" in sql
            self._found = [(state, *start, *end, safe)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._found


def where(session: Session, offset: int, gtid_set: str = "") -> Whereabouts:
    place = Location(Position("bin.000001", offset), gtid_set)
    conn = cast("Connection[Any]", session)
    return location_in(conn, meta_schema="m", task="t", source="s", location=place, flavor="mysql").where


@pytest.mark.parametrize(
    ("session", "found"),
    [
        (Session((50, "")), Whereabouts.EXACT),
        (Session((40, "")), Whereabouts.BEHIND),
        (Session((60, "")), Whereabouts.AHEAD),
        (Session((50, ""), state="open"), Whereabouts.EXACT),
        (Session((50, ""), state="open", beyond=1), Whereabouts.UNCERTAIN),
        (Session((50, ""), state="open", safe=1), Whereabouts.UNCERTAIN),
        (Session((50, ""), state="open", rows_events=3), Whereabouts.UNCERTAIN),
        (Session((50, ""), state="ddl"), Whereabouts.UNCERTAIN),
        (Session((50, ""), at=(70, "")), Whereabouts.UNCERTAIN),
        (Session((50, ""), rows_events=1), Whereabouts.UNCERTAIN),
        (Session((50, ""), exit_safe="bin.000001"), Whereabouts.UNCERTAIN),
        (Session((40, ""), state="open", beyond=2), Whereabouts.UNCERTAIN),
        (Session((60, ""), state="open", beyond=2), Whereabouts.AHEAD),
        (Session(None), Whereabouts.UNCERTAIN),
    ],
)
def test_rows_are_at_a_location_only_if_nothing_beyond_it_may_be_applied(session: Session, found: Whereabouts) -> None:
    assert where(session, 50) is found


def test_gtid_sets_decide_where_both_are_known() -> None:
    session = Session((50, f"{UUID}:1-5"))
    assert where(session, 999, f"{UUID}:1-5") is Whereabouts.EXACT
    assert where(session, 50, f"{UUID}:1-4") is Whereabouts.AHEAD
    assert where(session, 50, f"{UUID}:1-6") is Whereabouts.BEHIND
    assert where(session, 50, f"{UUID}:2-6") is Whereabouts.UNCERTAIN
