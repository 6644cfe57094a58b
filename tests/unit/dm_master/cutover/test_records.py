"""Hazard: a cutover's record loses data, or a changed table counts as the certified one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dm_master.cutover.run_record import CutoverRecord, CutoverStage, certificate, read_certificate
from dm_master.cutover.table_checksums import TableSum, checksum_query, table_sum, why_changed
from dm_master.cutover.verdict import CheckVerdict
from dm_master.cutover.verification import verify
from pkg.binlog.position import Location, Position
from pkg.errors import DMError
from pkg.mysql.names import TableId
from pkg.mysql.schema import Column, TableInfo
from tests.unit.dm_master.cutover.made_facts import END

_SUM = TableSum(("app", "t"), 3, 0, "1-2-3-4", "`id` int")
_RECORD = CutoverRecord(
    "run",
    "2026-01-02 03:04:05",
    CutoverStage.ENDED,
    (_SUM,),
    ("users",),
    (CheckVerdict("diff", "yes", ("all",)), CheckVerdict("users", "no", ("one lacks",), "create it")),
    {"one": "10.11", "target": "8.0"},
    {"one": END},
    Location(Position("t.000001", 4), ""),
    "{}",
    {"`app`.`t`": "2026-01-02 03:05:00"},
)


@pytest.mark.parametrize("record", [_RECORD, CutoverRecord("run", "now", CutoverStage.COMPARING)])
def test_a_stored_record_is_read_as_it_was(record: CutoverRecord) -> None:
    assert CutoverRecord.from_text(record.to_text()) == record


def test_thousands_of_tables_fit_into_one_value_of_etcd() -> None:
    sums = tuple(
        replace(
            _SUM, target=("shop", f"table_{n}"), digest="-".join(f"{hash((n, part)) & 2**64 - 1:x}" for part in "abcd")
        )
        for n in range(10_000)
    )
    assert len(replace(_RECORD, sums=sums).to_text()) < 1_400_000


def test_a_certificate_has_what_verify_needs_and_what_was_accepted() -> None:
    text = certificate("task", _RECORD, "2026-01-02 03:04:30", _RECORD.target_end)
    read = read_certificate(text)
    assert (read.task, read.ends, read.sums, read.target_end) == ("task", {"one": END}, (_SUM,), _RECORD.target_end)
    checks = {one["name"]: one for one in json.loads(text)["checks"]}
    assert (checks["diff"]["accepted"], checks["users"]["accepted"]) == (False, True)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"certificate": 1}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(DMError, match="not a certificate"):
        read_certificate(text)


class _Servers:
    def __init__(self, *sums: TableSum, end: Location = END, first: str = "") -> None:
        self._sums = sums
        self._end = end
        self._first = first

    def checksums(self, tables: object) -> list[TableSum]:
        return list(self._sums)

    def upstream_ends(self) -> dict[str, Location | None]:
        return {"one": self._end}

    def first_changes(self, start: Location, tables: list[TableId]) -> dict[TableId, str]:
        return dict.fromkeys(tables, self._first) if self._first else {}


_CERTIFICATE = read_certificate(certificate("task", _RECORD, "2026-01-02 03:04:30", None))


def test_the_same_rows_and_ends_are_equal() -> None:
    found = verify(_CERTIFICATE, _Servers(_SUM), _RECORD)
    assert found.is_equal
    assert found.equal == ["`app`.`t`"]


@pytest.mark.parametrize(
    ("now", "state"),
    [
        ((replace(_SUM, digest="1-2-3-5"),), "different"),
        ((replace(_SUM, rows=4),), "different"),
        ((replace(_SUM, columns="`id` bigint"),), "different"),
        ((), "missing"),
    ],
)
def test_a_change_is_dated_from_the_last_equal_verification(now: tuple[TableSum, ...], state: str) -> None:
    found = verify(_CERTIFICATE, _Servers(*now), _RECORD)
    assert not found.is_equal
    assert found.tables[0].state == state
    assert "after 2026-01-02 03:05:00 UTC" in found.tables[0].since
    # Without the record, the certificate's own time is known.
    assert "after 2026-01-02 03:04:30 UTC" in verify(_CERTIFICATE, _Servers(*now), None).tables[0].since


def test_the_targets_binlog_says_since_when() -> None:
    text = certificate("task", _RECORD, "2026-01-02 03:04:30", _RECORD.target_end)
    changed = _Servers(replace(_SUM, rows=4), first="2026-01-03 00:00:00 UTC")
    assert verify(read_certificate(text), changed, _RECORD).tables[0].since.startswith("2026-01-03 00:00:00 UTC: ")
    # Without a position of the target at the cutover, its binlog is not read.
    assert "after 2026" in verify(_CERTIFICATE, changed, _RECORD).tables[0].since


def test_an_upstream_that_has_written_is_not_equal() -> None:
    later = replace(END, position=Position("mysql-bin.000003", 501))
    found = verify(_CERTIFICATE, _Servers(_SUM, end=later), _RECORD)
    assert not found.is_equal
    assert "one: was at" in found.reasons[0]


def test_rows_without_a_checksum_are_never_equal() -> None:
    lacking = replace(_SUM, undigested=1)
    assert "not compared" in why_changed(lacking, lacking)


def test_each_column_is_in_the_digest_and_null_is_distinct() -> None:
    kinds = ("int", "decimal", "double", "char", "text", "json", "enum", "bit", "timestamp", "point", "blob")
    columns = tuple(Column(f"c{n}", kind, kind) for n, kind in enumerate(kinds))
    sql = checksum_query(TableInfo("s", "t", columns, ()))
    for column in columns:
        assert f"`{column.name}`" in sql
    assert sql.count("IFNULL(") == len(kinds)
    assert sql.count("'N'") == len(kinds)
    assert "`c2`*1e0" in sql


def test_the_answer_of_the_server_is_read_without_rounding() -> None:
    info = TableInfo("s", "t", (Column("id", "int", "int(11)"),), ())
    found = table_sum(info, (3, 2, 2**64 - 1, 5, str(3 * 2**64), 7))
    assert (found.rows, found.undigested, found.digest) == (3, 1, f"{2**64 - 1:x}-5-{3 * 2**64:x}-7")
    assert table_sum(info, (0, 0, 0, 0, None, None)).digest == "0-0-0-0"
