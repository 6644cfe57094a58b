"""Hazard: after a MariaDB GTID set the stream continues too early, too late, or in the wrong domain."""

from __future__ import annotations

from dm_worker.relay.executed import MariaDBExecuted, MySQLExecuted
from pkg.binlog.gtid import MariaDBGTIDSet, MySQLGTIDSet
from tests.harness.binlog_bytes import error_code

UUID = "11111111-1111-1111-1111-111111111111"


def mariadb(executed: str, before: str = "") -> MariaDBExecuted:
    return MariaDBExecuted(MariaDBGTIDSet(executed), MariaDBGTIDSet(before))


def test_each_domain_goes_on_after_its_own_last_one() -> None:
    state = mariadb("0-1-3,5-2-1")
    stream = ["0-1-1", "0-1-2", "7-1-1", "5-2-1", "0-1-3", "0-1-4", "5-2-2"]
    assert [gtid for gtid in stream if not state.holds(gtid)] == ["7-1-1", "0-1-4", "5-2-2"]
    assert state.done


def test_numbers_that_go_back_do_not_bring_transactions_twice() -> None:
    """Without gtid_strict_mode another server's numbers may start over."""
    state = mariadb("0-2-5")
    assert [gtid for gtid in ["0-1-6", "0-1-7", "0-2-5", "0-2-6"] if not state.holds(gtid)] == ["0-2-6"]


def test_what_lies_before_the_file_is_not_waited_for() -> None:
    assert mariadb("0-1-3", "0-1-3").done
    assert not mariadb("0-1-3", "0-1-2").done


def test_a_last_one_that_is_never_met_is_an_error() -> None:
    state = mariadb("0-1-3", "0-1-1")
    assert error_code(lambda: state.holds("0-1-4")) == 11121
    assert error_code(lambda: state.begin_file(MariaDBGTIDSet("0-1-2"))) == 0
    assert error_code(lambda: state.begin_file(MariaDBGTIDSet("0-2-9"))) == 11121


def test_mysql_needs_nothing_that_a_later_file_lists_as_passed() -> None:
    state = MySQLExecuted(MySQLGTIDSet(f"{UUID}:1-9"), MySQLGTIDSet(f"{UUID}:1-3"))
    assert state.holds(f"{UUID}:4")
    assert not state.done
    state.begin_file(MySQLGTIDSet(f"{UUID}:1-9"))
    assert state.done
