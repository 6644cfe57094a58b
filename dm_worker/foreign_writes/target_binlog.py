"""Whether the target's binlog can be read, and where it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.binlog.position import Location
from pkg.binlog.streams.server_position import binlog_filters, master_status
from pkg.mysql.connection import classify, connect
from pkg.mysql.grants import fetch_grants
from pkg.mysql.introspect import folds_names, server_info, variable
from pkg.settings.connections import DBConfig


@dataclass(frozen=True, slots=True)
class TargetBinlog:
    """``refusal``: why it can't be read, '' where it can; then ``end`` is its end. ``folds_names``: the target writes
    names in lower case."""

    refusal: str
    flavor: str = ""
    end: Location | None = None
    folds_names: bool = False


def look_at(target: DBConfig) -> TargetBinlog:
    """Raises DMError when the target can't be reached."""
    conn = connect(target, scope="downstream", session={"sql_mode": ""})
    try:
        return _look(conn)
    except pymysql.Error as exc:
        raise classify(exc, scope="downstream") from exc
    finally:
        conn.close()


def _look(conn: Connection[Any]) -> TargetBinlog:
    flavor = server_info(conn).flavor
    if flavor == "tidb":
        return TargetBinlog("a TiDB has no binlog")
    if variable(conn, "log_bin") in (None, "0", "OFF"):
        return TargetBinlog("the target's binlog is off (log_bin)")
    form = variable(conn, "binlog_format")
    if form not in (None, "ROW"):
        return TargetBinlog(f"the target's binlog_format is {form}, not ROW")
    grants = fetch_grants(conn, flavor)
    client = "REPLICATION CLIENT"
    lacking = [
        name
        for name in ("REPLICATION SLAVE", client)
        if not grants.allows(name) and not (name == client and grants.allows("SUPER"))
    ]
    if lacking:
        return TargetBinlog(f"the target's user lacks {' and '.join(lacking)}")
    filters = binlog_filters(conn)
    if filters:
        return TargetBinlog(f"the target's binlog leaves out schemas ({filters})")
    end = master_status(conn, flavor)
    if end is None:
        return TargetBinlog("the target's binlog is off (log_bin)")
    return TargetBinlog("", flavor, end, folds_names(conn))
