"""Hazards: a refused row among thousands that nobody can find, and rows of its transaction that stay."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from deploy.local.mysql import MariaDBServer
from dm_worker.syncer.execution import apply
from dm_worker.syncer.execution.apply import apply_bucket
from dm_worker.syncer.execution.compaction import DELETED, INSERTED, UPDATED
from dm_worker.syncer.execution.row_statements import RowStatement, StatementForm
from pkg.errors import DMError
from pkg.mysql.pipeline import Refused
from pkg.process.log_redaction import redact
from tests.integration.apply.support import (
    TOKEN,
    content_of,
    marker,
    plan_of,
    prepare,
    spec_of,
    states_of,
)

COUNT = 500

_COMPUTED = pytest.mark.target_with("strict generated columns")
_CHECKED = pytest.mark.target_with("check constraints")
#: Number, the target's columns after the id, the upstream's, a good value, the bad one.
CASES = [
    (1048, "v INT NOT NULL", "v INT", b"1", b"NULL"),
    (1264, "v TINYINT", "v INT", b"1", b"999"),
    (1406, "v VARCHAR(3)", "v VARCHAR(30)", b"'abc'", b"'abcd'"),
    (1366, "v VARCHAR(9) CHARACTER SET utf8mb3", "v VARCHAR(9)", b"'a'", "'\U0001f600'".encode()),
    (1366, "v INT", "v VARCHAR(9)", b"'1'", b"'x'"),
    (1292, "v DATE", "v VARCHAR(9)", b"'20200101'", b"'2020-13-77'"),
    pytest.param(1690, "v INT, g BIGINT AS (v * 9223372036854775807) STORED", "v INT", b"1", b"2", marks=_COMPUTED),
    # What lets an expression pass must not let a plain column's value pass.
    (1406, "v VARCHAR(3), g INT AS (CAST(v AS SIGNED)) STORED", "v VARCHAR(30)", b"'1'", b"'12xyz'"),
    (1366, "v INT, g DATE AS (v + INTERVAL 1 DAY) STORED", "v VARCHAR(9)", b"'20200101'", b"'x'"),
    pytest.param(
        1366,
        "v VARCHAR(9) CHARACTER SET latin1, g INT AS (CAST(v AS SIGNED)) STORED",
        "v VARCHAR(9) CHARACTER SET utf8mb4",
        b"'1'",
        "'1\U0001f600'".encode(),
        marks=_COMPUTED,
    ),
    pytest.param(4025, "v INT CHECK (v < 5)", "v INT", b"1", b"7", marks=_CHECKED),
    pytest.param(4025, "v LONGTEXT CHECK (JSON_VALID(v))", "v LONGTEXT", b"'{}'", b"'{'", marks=_CHECKED),
    (1062, "v INT, UNIQUE KEY (v)", "v INT, UNIQUE KEY (v)", b"", b"3"),
    (1452, "v INT, FOREIGN KEY (v) REFERENCES parent (id)", "v INT", b"1", b"7"),
    (1526, "v INT", "v INT", b"1", b"7"),
]


@pytest.mark.parametrize(("number", "target_columns", "columns", "good", "bad"), CASES)
@pytest.mark.parametrize("at", [411, COUNT - 1])
def test_row_at_fault_is_named_and_nothing_is_committed(
    target: MariaDBServer, number: int, target_columns: str, columns: str, good: bytes, bad: bytes, at: int
) -> None:
    key = "PRIMARY KEY (id)"
    split = " PARTITION BY LIST (v) (PARTITION p VALUES IN (1))" if number == 1526 else ""
    keys = "PRIMARY KEY (id, v)" if split else key
    prepare(
        target,
        "CREATE TABLE d.parent (id INT PRIMARY KEY)",
        "INSERT INTO d.parent VALUES (1)",
        f"CREATE TABLE d.t (id INT, {target_columns}, {keys}){split}",
        f"CREATE TABLE d.up (id INT, {columns}, {keys})",
        "CREATE TABLE d.other (id INT PRIMARY KEY)",
    )
    plans = {1: plan_of(target, "t", source="up"), 2: plan_of(target, "other", number=2)}
    spec = spec_of(target, foreign_key_checks="1" if number == 1452 else "0")
    rows = [(INSERTED, b"%d" % i, b"(%d,%b)" % (i, bad if i == at else good or b"%d" % i)) for i in range(COUNT)]
    content = content_of(plans, states_of([(INSERTED, b"1", b"(1)")], 2))
    content.groups += content_of(plans, states_of(rows)).groups
    with pytest.raises(DMError) as caught:
        apply_bucket(spec, TOKEN, 0, content, plans)
    error = caught.value
    name = f"{at},{bad.decode()}" if split else f"{at}"
    assert f"the row ({name}) of `up`.`up` (key: {'id,v' if split else 'id'}), target table `d`.`t`" in error.message
    assert f"Error {number} (" in error.message
    assert not error.retryable
    assert error.workaround
    assert f"({name})" not in redact(error.message)
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
    assert target.execute("SELECT COUNT(*) FROM d.other") == [(0,)]
    assert marker(target) == 0


def test_later_group_is_hunted_after_the_statements_before_it(target: MariaDBServer) -> None:
    # The value 5 is free only because the transaction deletes its row first; 900 is taken by a row that stays.
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT UNIQUE)")
    target.execute("INSERT INTO d.t VALUES (5, 5), (9000, 900)")
    plans = {1: plan_of(target, "t")}
    rows = [(DELETED, b"5", b"")] + [(INSERTED, b"%d" % i, b"(%d,%d)" % (i, i - 1000)) for i in range(1005, 2200)]
    with pytest.raises(DMError, match=r"the row \(1900\) of `up`.`t`.*1062.*'900'"):
        apply_bucket(spec_of(target), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert target.execute("SELECT * FROM d.t ORDER BY id") == [(5, 5), (9000, 900)]


@pytest.mark.parametrize("number", [1205, 1213, 2013])
def test_conflict_while_the_row_at_fault_is_hunted_is_tried_again(
    target: MariaDBServer, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v TINYINT)", "CREATE TABLE d.up (id INT PRIMARY KEY, v INT)")
    plans = {1: plan_of(target, "t", source="up")}
    rows = [(INSERTED, b"%d" % i, b"(%d,%d)" % (i, 999 if i == 1411 else 1)) for i in range(1500)]
    replay, conflicts = apply._BucketWriter._replay, [pymysql.err.OperationalError(number, "in the way")]

    def refused(self: apply._BucketWriter, run: Iterator[RowStatement]) -> None:
        found = list(run)
        if conflicts:
            raise Refused(found[0], conflicts.pop())
        replay(self, iter(found))

    monkeypatch.setattr(apply._BucketWriter, "_replay", refused)
    with pytest.raises(DMError, match=r"the row \(1411\) of `up`.`up`.*Error 1264 "):
        apply_bucket(spec_of(target), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert not conflicts
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]


def test_row_that_only_shows_after_rows_of_its_own_statement_is_named(target: MariaDBServer) -> None:
    # Two rows of one statement with one unique value: neither is at fault alone.
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT UNIQUE)")
    plans = {1: plan_of(target, "t")}
    rows = [(INSERTED, b"%d" % i, b"(%d,%d)" % (i, 10 if i == 300 else i)) for i in range(COUNT)]
    with pytest.raises(DMError, match=r"the row \(300\) of"):
        apply_bucket(spec_of(target), TOKEN, 0, content_of(plans, states_of(rows)), plans)


def test_duplicate_from_an_unmapped_shard_names_the_tables_that_merge(target: MariaDBServer) -> None:
    prepare(target, "CREATE TABLE d.t (id VARCHAR(20) PRIMARY KEY)", "INSERT INTO d.t VALUES ('a,''b')")
    for shard in ("s1", "s2"):
        target.execute(f"CREATE TABLE d.{shard} LIKE d.t")
    plans = {n: plan_of(target, "t", source=f"s{n}", number=n) for n in (1, 2)}
    content = content_of(plans, states_of([(INSERTED, b"'a,\\'b'", b"('a,\\'b')")], 2))
    with pytest.raises(DMError) as caught:
        apply_bucket(spec_of(target), TOKEN, 0, content, plans)
    assert r"the row ('a,\'b') of `up`.`s2`" in caught.value.message
    assert "merges this upstream table with `up`.`s1`" in caught.value.workaround


def test_statement_that_fails_for_all_rows_is_no_rows_fault(target: MariaDBServer) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    plans = {1: plan_of(target, "t")}
    target.execute("ALTER TABLE d.t DROP COLUMN v")
    rows = [(INSERTED, b"%d" % i, b"(%d,1)" % i) for i in range(9)]
    with pytest.raises(DMError, match=r"refused a statement on `d`.`t` with rows of `up`.`t`: Error 1054") as caught:
        apply_bucket(spec_of(target), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert "Add the column" in caught.value.workaround


def test_row_beyond_max_allowed_packet_is_named_with_its_size(target: MariaDBServer) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT)")
    plans = {1: plan_of(target, "t")}
    target.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        spec = spec_of(target, sql_notes="1")  # a session of its own, so that its connections are new
        rows = [(INSERTED, b"%d" % i, b"(%d,'%b')" % (i, b"x" * 5000)) for i in range(400)]
        # Statements of 2 MB are parted.
        form = StatementForm(limit=4 << 20)
        apply_bucket(spec, TOKEN, 0, content_of(plans, states_of(rows), form), plans)
        assert target.execute("SELECT COUNT(*), SUM(LENGTH(v)) FROM d.t") == [(400, 2_000_000)]
        target.execute("UPDATE meta.markers SET batch = 0")
        big = [(UPDATED, b"7", b"(7,'%b')" % (b"y" * 1100000))]
        with pytest.raises(DMError, match=r"the row \(7\) of `up`.`t` needs a statement of 11\d+ bytes") as caught:
            apply_bucket(spec, TOKEN, 0, content_of(plans, states_of(big)), plans)
        assert "1048576 bytes (max_allowed_packet)" in caught.value.message
        assert "SET GLOBAL max_allowed_packet" in caught.value.workaround
        # A resting connection keeps the limit that it was opened under; the raised one holds at once all the same.
        small = [(UPDATED, b"8", b"(8,'small')")]
        apply_bucket(spec, TOKEN, 0, content_of(plans, states_of(small)), plans)
        target.execute("SET GLOBAL max_allowed_packet = 67108864", "UPDATE meta.markers SET batch = 0")
        apply_bucket(spec, TOKEN, 0, content_of(plans, states_of(big)), plans)
        assert target.execute("SELECT LENGTH(v) FROM d.t WHERE id = 7") == [(1100000,)]
    finally:
        target.execute("SET GLOBAL max_allowed_packet = 67108864")


@pytest.mark.target_with("triggers")
def test_a_row_that_would_not_be_there_as_it_is_stays_refused(target: MariaDBServer) -> None:
    """The trigger stands for whatever a session that is not strict may do to a value."""
    prepare(
        target,
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(9), g INT AS (CAST(v AS SIGNED)) STORED)",
        "CREATE TRIGGER d.x BEFORE INSERT ON d.t FOR EACH ROW SET NEW.v = CONCAT(NEW.v, 'x')",
    )
    plans = {1: plan_of(target, "t")}
    content = content_of(plans, states_of([(INSERTED, b"%d" % i, b"(%d,'1')" % i) for i in range(3)]))
    with pytest.raises(DMError, match="Error 1292") as caught:
        apply_bucket(spec_of(target), TOKEN, 0, content, plans)
    assert "computes `g` of `d`.`t`" in caught.value.workaround
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
    target.execute("DROP TRIGGER d.x")
    content = content_of(plans, states_of([(INSERTED, b"%d" % i, b"(%d,'%dx')" % (i, i)) for i in range(3)]))
    apply_bucket(spec_of(target), TOKEN, 0, content, plans)
    assert target.execute("SELECT v, g FROM d.t ORDER BY id") == [("0x", 0), ("1x", 1), ("2x", 2)]
