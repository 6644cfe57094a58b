"""The forms of values that a target accepts exactly. MySQL and MariaDB accept all forms used here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection

from pkg.mysql.introspect import query, server_info, variable

#: A character whose code in latin1 is not its code in UTF-8, and its code in UTF-8.
_LATIN1_CHARACTER, _IN_UTF8 = "E4", "C3A4"


@dataclass(frozen=True, slots=True)
class TargetValues:
    """``text_by_bytes``: a literal may be bytes in any charset (``_latin1 x'E4'``); otherwise text is sent in UTF-8.
    ``negative_zero``: FLOAT and DOUBLE columns keep it.
    ``compares_wide_sets``: a SET of 64 members may be compared with a number.
    ``keeps_null_counters``: NULL in an AUTO_INCREMENT column stays NULL.
    ``folds_names``: table names that differ only in case are equal.
    ``lists_members``: ``(c, id) IN ((1, 7), (2, 8))`` finds the members of an ENUM or a SET by their numbers.
    ``upserts_by_primary_key``: of several rows with values of a new one, ON DUPLICATE KEY UPDATE takes that with its
    primary key (InnoDB).
    ``upserts_wide_bits``: ON DUPLICATE KEY UPDATE gets the new value of a BIT column of more than 56 bits by VALUES().
    """

    text_by_bytes: bool = True
    negative_zero: bool = True
    compares_wide_sets: bool = True
    upserts_by_primary_key: bool = True
    upserts_wide_bits: bool = True
    keeps_null_counters: bool = True
    folds_names: bool = False
    lists_members: bool = True


EXACT_VALUES = TargetValues()


def fetch_target_values(conn: Connection[Any]) -> TargetValues:
    """The properties of this server. Raises ``pymysql.Error``."""
    # TiDB stores latin1 as UTF-8, and has few other charsets.
    ((converted,),) = query(conn, f"SELECT HEX(CONVERT(_latin1 x'{_LATIN1_CHARACTER}' USING utf8mb4))")
    # TiDB stores 0 for -0e0, which differs in a condition; it compares a SET as a signed number, and fails
    # with "overflows bigint"; VALUES() of a BIT has its bytes reversed; NULL in an AUTO_INCREMENT column is numbered.
    flavor = server_info(conn).flavor
    exact = flavor != "tidb"
    return TargetValues(
        str(converted) == _IN_UTF8,
        negative_zero=exact,
        compares_wide_sets=exact,
        # TiDB looks for the primary key first if it is clustered.
        upserts_by_primary_key=exact,
        upserts_wide_bits=exact,
        keeps_null_counters=exact,
        folds_names=folds_names(conn),
        # MySQL (5.7 to 9.7) finds none, if there are two or more and the list has several columns.
        lists_members=flavor == "mariadb",
    )


def folds_names(conn: Connection[Any]) -> bool:
    """Whether table names that differ only in case are equal."""
    return (variable(conn, "lower_case_table_names") or "0") != "0"
