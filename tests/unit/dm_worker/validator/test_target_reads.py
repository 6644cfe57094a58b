"""Hazard: an answer of the target is assigned to another row, or a refusal counts as a right row."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import contextmanager
from functools import partial
from typing import Any

import pymysql
import pytest

from dm_worker.syncer.execution import row_chunks, row_look
from dm_worker.syncer.execution.expected_rows import ExpectedRows, SingleRows
from dm_worker.syncer.execution.row_look import ExpectedRow, Presence
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.execution.spill import SpillStore
from dm_worker.syncer.execution.target_connections import TargetSpec
from dm_worker.validator import row_comparison, target_reads
from dm_worker.validator.differences import CHANGED, DELETED_EXISTS, MISSING, RowId, RowMismatch, Snapshot, Uncompared
from dm_worker.validator.row_comparison import TableChanged
from dm_worker.validator.target_reads import TargetReads
from pkg.errors import DMError
from pkg.settings.connections import DBConfig
from tests.unit.dm_worker.syncer.execution.test_row_block import plan_of

ROWS = [
    ExpectedRow(1, b"1", [b"1", b"'a'"]),
    ExpectedRow(1, b"2", [b"2", b"'b'"]),
    ExpectedRow(1, b"3", None),
    ExpectedRow(1, b"4", None),
    ExpectedRow(1, b"5", [b"5", b"'e'"]),
    ExpectedRow(1, b"6", [b"6", b"'f'"], Presence.IF_THERE),
]
PLANS = {1: plan_of(), 2: plan_of(2, target=2)}
#: The target's rows.
THERE = {1: "a", 2: "x", 4: "d"}


class Connection:
    """Answers the statements of a look from :data:`THERE`. ``refuse`` may raise for a statement."""

    open = True

    def __init__(self, refuse: Callable[[str], None] = lambda _: None) -> None:
        self.statements: list[str] = []
        self._refuse = refuse
        self._found: list[tuple[Any, ...]] = []

    @contextmanager
    def cursor(self) -> Any:
        yield self

    def execute(self, text: bytes | str, args: object = None) -> None:
        shown = text.decode() if isinstance(text, bytes) else text
        self.statements.append(shown)
        self._refuse(shown)
        self._found = [row for part in shown.split(" UNION ALL ") for row in self._answer(part)]

    def _answer(self, text: str) -> list[tuple[Any, ...]]:
        if "max_allowed_packet" in text:
            return [(1 << 20,)]
        if text.startswith("SELECT CAST(GROUP_CONCAT("):
            keys = sorted(re.search(r" IN \((.+)\)", text)[1].split(","))  # type: ignore[index]
            rows = [f"({key},'{THERE[int(key)]}')" for key in keys if int(key) in THERE]
            return [(",".join(rows).encode() or None,)]
        if "MAX(batch)" in text:
            return [(7,)]
        if "state" in text:
            return [(8, "ddl")]
        match = re.match(r"SELECT (.+?) FROM `d`.`t\d` WHERE `id`=(\d+)", text)
        if match is None or int(match[2]) not in THERE:
            return []
        value = THERE[int(match[2])]
        if match[1].isdigit():
            wanted = re.search(r"CAST\('(\w)' AS BINARY\)", text)
            return [(int(match[1]),)] if wanted is None or wanted[1] == value else []
        return [(int(match[2]), value)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._found

    def rollback(self) -> None:
        self.statements.append("ROLLBACK")

    def ping(self, reconnect: bool) -> None:
        assert not reconnect

    def close(self) -> None:
        self.open = False


def reads(conn: Connection, monkeypatch: pytest.MonkeyPatch) -> TargetReads:
    monkeypatch.setattr(target_reads, "connect", lambda *_, **__: conn)
    found = TargetReads(
        TargetSpec(DBConfig("h", 1, "u"), (), "`m`.`markers`", "`m`.`batches`", StatementForm()), "source-1"
    )
    found.prepare()
    return found


def compared(
    reads: TargetReads, found: list[ExpectedRows], watched: Collection[RowId] = ()
) -> tuple[list[RowMismatch], list[RowId], list[Uncompared]]:
    look = reads.look(watched, full=True)
    look.add(found, PLANS)
    return look.result()


def bucket(rows: list[ExpectedRow] = ROWS, most_rows: int = 4) -> ExpectedRows:
    select = partial(row_look.RowSelects(PLANS).there, full=True)
    queries = row_look.joined(enumerate(rows), select, most_rows, 1 << 20)
    return ExpectedRows.of(0, len(rows), (), SingleRows(rows, list(queries)), SpillStore())


def test_each_row_is_judged_by_its_own_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    conn = Connection()
    found = reads(conn, monkeypatch)
    found.open()
    assert found.contained() == Snapshot(7, 8, in_ddl=True)
    watched = {(("d", "t1"), key) for key in (b"1", b"2", b"3", b"9")}
    differences, right, uncompared = compared(found, [bucket()], watched)
    assert [(one.key, one.kind) for one in differences] == [(b"2", CHANGED), (b"4", DELETED_EXISTS), (b"5", MISSING)]
    assert differences[0].expected == '{"id": "2", "note": "b"}'
    assert differences[0].found == '{"id": "2", "note": "x"}'
    assert (differences[1].expected, differences[2].found) == ("", "")
    assert right == [(("d", "t1"), b"1"), (("d", "t1"), b"3")]
    assert uncompared == [Uncompared(("d", "t1"), PLANS[1].source, 1, row_comparison.LEFT_OUT)]
    assert "START TRANSACTION WITH CONSISTENT SNAPSHOT" in conn.statements
    found.end()
    assert conn.statements[-1] == "ROLLBACK"


def updated(key: bytes, value: bytes, presence: Presence = Presence.IF_THERE) -> ExpectedRow:
    return ExpectedRow(1, key, [key, b"'%b'" % value], presence)


def looked(
    reads: TargetReads, *jobs: list[ExpectedRow], watched: Collection[RowId] = (), required: Collection[RowId] = ()
) -> tuple[list[tuple[bytes, int]], list[RowId], int]:
    """Keys and kinds of the differing rows, the right ones, and how many can't be judged."""
    look = reads.look(watched, required, full=True)
    for rows in jobs:
        look.add([bucket(rows)], PLANS)
    differences, right, uncompared = look.result()
    return [(one.key, one.kind) for one in differences], right, sum(one.rows for one in uncompared)


def test_rows_that_filters_may_have_left_out_are_judged_by_what_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reads(Connection(), monkeypatch)
    rows = [updated(b"1", b"a"), updated(b"2", b"b"), updated(b"6", b"f")]
    assert looked(found, rows) == ([(b"2", CHANGED)], [], 1)
    unknown = [updated(b"2", b"b", Presence.UNKNOWN), updated(b"6", b"f", Presence.UNKNOWN)]
    assert looked(found, [*unknown, updated(b"1", b"a", Presence.UNKNOWN)]) == ([], [], 2)


def test_an_update_of_a_row_that_had_to_be_there_does_not_excuse_that_it_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = reads(Connection(), monkeypatch)
    inserted, gone, later = updated(b"6", b"e", Presence.SURE), ExpectedRow(1, b"6", None), [updated(b"6", b"f")]
    row = {(("d", "t1"), b"6")}
    assert looked(found, later, watched=row, required=row) == ([(b"6", MISSING)], [], 0)
    assert looked(found, [inserted], later, later) == ([(b"6", MISSING)], [], 0)
    # A DELETE before it does, as the INSERT after that may have been left out.
    assert looked(found, [gone], later, watched=row, required=row) == ([], list(row), 1)
    assert looked(found, [inserted], [gone], later) == ([], [], 1)


def chunk(*, rows: list[bytes], keys: list[bytes]) -> ExpectedRows:
    chunks = row_chunks.chunks_of(PLANS[1], keys, rows, 100, 1 << 20, full=True)
    return ExpectedRows.of(0, len(keys), chunks, SingleRows(), SpillStore())


def test_rows_whose_text_is_right_are_not_queried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    conn = Connection()
    found = reads(conn, monkeypatch)
    watched = {(("d", "t1"), key) for key in (b"1", b"3", b"9")}
    whole = chunk(rows=[b"(1,'a')", b"(4,'d')"], keys=[b"1", b"3", b"4"])
    empty = chunk(rows=[], keys=[b"7"])
    assert compared(found, [whole, empty], watched) == (
        [],
        [(("d", "t1"), b"1"), (("d", "t1"), b"3")],
        [],
    )
    assert ["GROUP_CONCAT(" in text for text in conn.statements[-2:]] == [True, True]


@pytest.mark.parametrize("refused", [0, 1260, 1305])
def test_other_text_or_none_leads_to_the_single_rows(refused: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        if refused and "GROUP_CONCAT(" in text:
            raise pymysql.OperationalError(refused, "as told")

    found = reads(Connection(refuse), monkeypatch)
    expected = chunk(rows=[b"(1,'a')", b"(2,'b')", b"(5,'e')"], keys=[b"1", b"2", b"3", b"4", b"5"])
    watched = {(("d", "t1"), key) for key in (b"1", b"2")}
    differences, right, _ = compared(found, [expected], watched)
    assert sorted((one.key, one.kind) for one in differences) == [
        (b"2", CHANGED),
        (b"4", DELETED_EXISTS),
        (b"5", MISSING),
    ]
    assert right == [(("d", "t1"), b"1")]


def test_only_the_rows_whose_text_differs_are_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    conn = Connection()
    found = reads(conn, monkeypatch)
    expected = chunk(rows=[b"(1,'a')", b"(2,'b')", b"(4,'d')"], keys=[b"1", b"2", b"3", b"4"])
    differences, _, _ = compared(found, [expected], ())
    assert [(one.key, one.kind) for one in differences] == [(b"2", CHANGED)]
    asked = [text for text in conn.statements if "`id`=" in text]
    assert asked != []
    assert all("`id`=2 " in text and " UNION ALL " not in text for text in asked)


def test_a_row_that_a_later_job_touches_is_not_compared_with_its_earlier_image(monkeypatch: pytest.MonkeyPatch) -> None:
    conn = Connection()
    look = reads(conn, monkeypatch).look({(("d", "t1"), b"2")}, full=True)
    look.add([chunk(rows=[b"(2,'b')", b"(5,'e')"], keys=[b"2", b"4", b"5"])], PLANS)
    look.add([chunk(rows=[b"(2,'x')", b"(4,'d')"], keys=[b"2", b"4"])], PLANS)
    differences, right, _ = look.result()
    assert [(one.key, one.kind) for one in differences] == [(b"5", MISSING)]
    assert right == [(("d", "t1"), b"2")]
    assert not [text for text in conn.statements if "`id`=2 " in text or "`id`=4 " in text]


def test_a_look_ends_when_it_holds_many_rows_that_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_comparison, "MOST_DOUBTFUL", 1000)
    look = reads(Connection(), monkeypatch).look((), full=True)
    for key in (b"5", b"6", b"7"):
        assert not look.is_full
        look.add([chunk(rows=[b"(%b,'e')" % key], keys=[key])], PLANS)
        look.add([chunk(rows=[b"(1,'a')"], keys=[b"1"])], PLANS)
    look.add([chunk(rows=[b"(8,'e')"], keys=[b"8"])], PLANS)
    assert look.is_full
    look.add([chunk(rows=[], keys=[b"5", b"8"])], PLANS)
    assert not look.is_full


def test_an_answer_that_the_server_may_have_cut_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    conn = Connection()
    found = reads(conn, monkeypatch)
    long = b"(1,'%b')" % (b"x" * (1 << 19))
    compared(found, [chunk(rows=[long], keys=[b"1"])], ())
    assert not [text for text in conn.statements if "GROUP_CONCAT(" in text]


@pytest.mark.parametrize(("number", "error"), [(1412, TableChanged), (2013, DMError)])
def test_a_chunk_that_needs_another_snapshot_or_connection_is_no_answer(
    number: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(text: str) -> None:
        if "GROUP_CONCAT(" in text:
            raise pymysql.OperationalError(number, "as told")

    found = reads(Connection(refuse), monkeypatch)
    with pytest.raises(error):
        compared(found, [chunk(rows=[], keys=[b"3"])], ())


def test_a_table_that_cannot_be_read_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        if "`t2`" in text:
            raise pymysql.ProgrammingError(1146, "Table 'd.t2' doesn't exist")

    rows = [*ROWS, ExpectedRow(2, b"1", [b"1", b"'z'"]), ExpectedRow(2, b"2", None)]
    found = reads(Connection(refuse), monkeypatch)
    differences, _, uncompared = compared(found, [bucket(rows)], ())
    assert [one.key for one in differences] == [b"2", b"4", b"5"]
    refused, filtered = uncompared
    assert (refused.target, refused.rows, "1146" in refused.reason) == (("d", "t2"), 2, True)
    assert (filtered.target, filtered.rows) == (("d", "t1"), 1)


@pytest.mark.parametrize("number", [2013, 1205])
def test_a_lost_connection_is_an_error_and_not_an_answer(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        if "`t1`" in text:
            raise pymysql.OperationalError(number, "as told")

    conn = Connection(refuse)
    found = reads(conn, monkeypatch)
    with pytest.raises(DMError) as caught:
        compared(found, [bucket()], ())
    assert caught.value.retryable
    assert not conn.open
    with pytest.raises(DMError) as closed:
        found.open()
    assert closed.value.retryable


def test_a_table_that_changed_after_the_snapshot_needs_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        if "`t1`" in text:
            raise pymysql.OperationalError(1412, "Table definition has changed, please retry transaction")

    found = reads(Connection(refuse), monkeypatch)
    with pytest.raises(TableChanged):
        compared(found, [bucket()], ())


def test_an_error_stays_when_its_table_can_no_longer_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        if "gone" in text:
            raise pymysql.ProgrammingError(1146, "Table 'd.gone' doesn't exist")

    found = reads(Connection(refuse), monkeypatch)
    selects = row_look.RowSelects(PLANS)
    checks = [selects.is_right(row, full=True) for row in ROWS[:2]]
    assert found.are_right([b"SELECT 1 FROM `d`.`gone`", *checks]) == [False, True, False]


def test_a_row_that_is_too_long_for_a_statement_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    long = ExpectedRow(2, b"9", [b"9", b"'%b'" % (b"x" * (1 << 20))])
    _, _, uncompared = compared(reads(Connection(), monkeypatch), [bucket([*ROWS, long])], ())
    assert ["max_allowed_packet" in one.reason for one in uncompared] == [True, False]
